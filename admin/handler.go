// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Node is what the handler asks: *cluster.Node has it.
type Node interface {
	// Status is one look at the node. It must not block.
	Status() cluster.Status
	// Records returns the records of the cluster as this node sees them. List of them must
	// not block.
	Records() record.Store
	// Events yields the changes until the node closes.
	Events(ctx context.Context) iter.Seq[cluster.Event]
}

// Option changes a handler.
type Option func(*handler)

// WithOthers lets the handler ask other members for their status, for
// /v1/nodes/NAME/status.
func WithOthers(o *Others) Option {
	return func(h *handler) { h.ask = o.askMember }
}

// WithGroups lets the handler export which groups the node leads, by Groups.List of
// package election.
func WithGroups(list func() []election.Group) Option {
	return func(h *handler) { h.groups = list }
}

// New returns the handler of a node, and follows the events of the node until it
// closes. build names the program and its version. The handler checks no caller but
// pages of other sites; Serve does.
func New(node Node, build string, opts ...Option) http.Handler {
	h := &handler{
		node: node, build: build, ask: askNobody,
		groups: func() []election.Group { return nil },
		acts:   make(chan struct{}, maxActs), sameSite: http.NewCrossOriginProtection(),
	}
	for _, opt := range opts {
		opt(h)
	}
	h.streams.feed = newFeed(h.readStatus)
	go h.streams.feed.followNode(node)
	h.scrape = newMetrics(h)
	mux := http.NewServeMux()
	for _, path := range []string{"/{$}", "/ui/"} {
		mux.HandleFunc("GET "+path, servePage)
		mux.HandleFunc(path, methodNotAllowed(http.MethodGet))
	}
	for _, r := range h.listRoutes() {
		mux.HandleFunc(r.method+" "+r.path, r.answer)
		mux.HandleFunc(r.path, methodNotAllowed(r.method))
	}
	mux.HandleFunc("/", notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// "*" and the host of CONNECT are no paths; the mux would answer in other words.
		if !strings.HasPrefix(r.URL.Path, "/") {
			notFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type handler struct {
	node  Node
	build string
	ask   func(ctx context.Context, to member.Address) (adminapi.Status, error)
	// groups are those that the program has open.
	groups func() []election.Group

	scrape   http.Handler // of Prometheus
	streams  streams
	sameSite *http.CrossOriginProtection
	acts     chan struct{} // an entry for each POST under way
	contests *contests     // nil where nobody may contend for jobs
	actor    Actor         // nil where nobody may act
	leave    func()
	left     sync.Once
}

// route is a path of the API and the one method that it takes; with GET also HEAD.
type route struct {
	method, path string
	answer       http.HandlerFunc
}

// listRoutes are all paths. openapi.json describes each of them.
func (h *handler) listRoutes() []route {
	return []route{
		{"GET", "/v1/status", h.serveStatus},
		{"GET", "/v1/members", h.serveMembers},
		{"GET", "/v1/leader", h.serveLeader},
		{"GET", "/v1/elections", h.serveElections},
		{"GET", "/v1/records", h.serveRecords},
		{"GET", "/v1/jobs", h.serveJobs},
		{"GET", "/v1/jobs/{job}/events", h.jobEvents},
		{"POST", "/v1/jobs/{job}/lock", h.serveLock},
		{"POST", "/v1/jobs/{job}/elect", h.serveElect},
		{"POST", "/v1/jobs/{job}/enable", h.serveEnable(true)},
		{"POST", "/v1/jobs/{job}/disable", h.serveEnable(false)},
		{"GET", "/v1/nodes", h.serveNodes},
		{"GET", "/metrics", h.serveMetrics},
		{"GET", "/v1/nodes/{name}/status", h.nodeStatus},
		{"GET", "/v1/events", h.serveEvents},
		{"POST", "/v1/send", handleAct(h, h.sendEvent)},
		{"POST", "/v1/transfer", handleAct(h, h.transferLeadership)},
		{"POST", "/v1/drain", handleAct(h, h.drainNode)},
		{"POST", "/v1/leave", h.leaveCluster},
		{"GET", "/v1/openapi.json", serveDocument},
		{"GET", "/livez", h.serveLive},
		{"GET", "/readyz", h.serveReady},
	}
}

func (h *handler) readStatus() adminapi.Status {
	s := adminapi.StatusOf(h.node.Status(), h.build)
	s.Write = h.actor != nil
	return s
}

func (h *handler) serveStatus(w http.ResponseWriter, _ *http.Request) {
	adminapi.WriteJSON(w, http.StatusOK, h.readStatus())
}

func (h *handler) serveMembers(w http.ResponseWriter, _ *http.Request) {
	adminapi.WriteJSON(w, http.StatusOK, h.readStatus().View.Members)
}

func (h *handler) serveLeader(w http.ResponseWriter, _ *http.Request) {
	s := h.readStatus()
	l, ok := s.LeaderOf()
	if !ok {
		noQuorum(w, s)
		return
	}
	adminapi.WriteJSON(w, http.StatusOK, l)
}

func (h *handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	if h.isForeign(r) {
		writeRefusal(w, crossSite())
		return
	}
	h.streams.serveStream(w, r)
}

// isForeign reports whether a request for a stream comes from a page of another site: it
// could not read the stream, but open all that may be.
func (h *handler) isForeign(r *http.Request) bool {
	unsafe := *r
	unsafe.Method = http.MethodPost // reading is never refused
	return h.sameSite.Check(&unsafe) != nil
}

// serveLive says that the process works: it could look at its node.
func (h *handler) serveLive(w http.ResponseWriter, r *http.Request) {
	if _, err := readQuery(r); err != nil {
		adminapi.WriteError(w, http.StatusBadRequest, adminapi.CodeBadQuery, err.Error())
		return
	}
	h.readStatus()
	writeOK(w)
}

// serveReady says whether the node can be given work: whether a leader that was chosen
// made this run of it an active member. It stays so while the next leader is
// elected, or every failover would take all nodes out of service. A load balancer
// that wants the leader alone asks with ?leader.
func (h *handler) serveReady(w http.ResponseWriter, r *http.Request) {
	want, err := readQuery(r, wantQuorum, wantLeader, wantVotes)
	if err != nil {
		adminapi.WriteError(w, http.StatusBadRequest, adminapi.CodeBadQuery, err.Error())
		return
	}
	node := h.node.Status()
	s := adminapi.StatusOf(node, h.build)
	_, quorate := s.LeaderOf()
	switch {
	case node.Self.Status != member.Active || node.Provisional:
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNotActive,
			addReason("this node is no active member of its cluster yet", s))
	case want[wantVotes] && node.VoteWait > 0:
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNotVoting, fmt.Sprintf(
			"this node has just started, and votes for no new leader for another %v", node.VoteWait))
	case (want[wantQuorum] || want[wantLeader]) && !quorate:
		noQuorum(w, s)
	case want[wantLeader] && !s.IsLeader():
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNotLeader,
			"this node does not lead; "+s.View.Leader.String()+" does")
	default:
		writeOK(w)
	}
}

// What can be asked of /readyz besides.
const (
	wantQuorum = "quorum"
	wantLeader = "leader"
	wantVotes  = "votes"
)

// readQuery reads the query of a health check, which may have the known words alone. Any
// other word is an error: an answer of 200 to a misspelled ?leader would send work to
// every node.
func readQuery(r *http.Request, known ...string) (map[string]bool, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("query %q of %s: %w", r.URL.RawQuery, r.URL.Path, err)
	}
	want := map[string]bool{}
	for word, values := range query {
		switch value := strings.Join(values, ","); {
		case !slices.Contains(known, word) && len(known) == 0:
			return nil, fmt.Errorf("query %q: %s takes none", word, r.URL.Path)
		case !slices.Contains(known, word):
			return nil, fmt.Errorf("query %q: %s takes ?%s",
				word, r.URL.Path, strings.Join(known, " and ?"))
		case value == "" || value == "1" || value == "true":
			want[word] = true
		case value != "0" && value != "false":
			return nil, fmt.Errorf("query %s=%q: must be %s alone, true, 1, false or 0",
				word, value, word)
		}
	}
	return want, nil
}

func writeOK(w http.ResponseWriter) {
	adminapi.WriteJSON(w, http.StatusOK, adminapi.Done{Status: "ok"})
}

func noQuorum(w http.ResponseWriter, s adminapi.Status) {
	adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNoQuorum,
		addReason("no leader has the support of a majority", s))
}

// addReason adds why there is no leader, where that is known.
func addReason(text string, s adminapi.Status) string {
	if s.NoLeader == "" {
		return text
	}
	return text + ": " + s.NoLeader
}

func notFound(w http.ResponseWriter, r *http.Request) {
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound,
		"there is nothing at "+r.URL.Path)
}

func methodNotAllowed(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		methods := allowed
		if allowed == http.MethodGet {
			methods += ", " + http.MethodHead
		}
		w.Header().Set("Allow", methods)
		adminapi.WriteError(w, http.StatusMethodNotAllowed, adminapi.CodeMethodNotAllowed,
			r.URL.Path+" only takes "+allowed+", not "+r.Method)
	}
}
