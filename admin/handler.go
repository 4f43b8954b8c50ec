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
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Node is the set of read operations of a node. *cluster.Node implements it.
type Node interface {
	// Status returns a consistent snapshot. It must not block.
	Status() cluster.Status
	// Records returns the records as this node sees them. Its List must not block.
	Records() record.Store
	// Events yields the changes until the node closes.
	Events(ctx context.Context) iter.Seq[cluster.Event]
}

// Option configures the handler of New.
type Option func(*handler)

// WithOthers enables /v1/nodes/NAME/status and the builds in /v1/members?build of other members,
// and, with WithWrite, transfers, drains and preferences at other members.
func WithOthers(o *Others) Option {
	return func(h *handler) { h.ask, h.others = o.askMember, o }
}

// WithGroups exports a metric of the groups that the node leads. With WithWrite, it also enables
// requests to take part in groups. list is the List method of election.Groups. open calls Open for
// the node. If open is nil, WithGroups only exports the metric.
func WithGroups(
	list func() []election.Group,
	open func(group string, o election.Options) (*leader.Candidate, error),
) Option {
	return func(h *handler) { h.groups.list, h.groups.open = list, open }
}

// New returns the handler of the admin API of a node, and follows the events of the node until it
// closes. build is the name and version of the program. The handler refuses cross-origin requests;
// Serve performs all other checks of callers.
func New(node Node, build string, opts ...Option) http.Handler {
	h := &handler{
		node: node, build: build, ask: askDisabled,
		acts: make(chan struct{}, maxActs), holds: make(chan struct{}, maxHolds),
		sameSite: http.NewCrossOriginProtection(),
	}
	h.groups.list = func() []election.Group { return nil }
	for _, opt := range opts {
		opt(h)
	}
	h.streams.feed = newFeed(h.readStatus)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		h.streams.feed.followNode(node)
	}()
	if h.contests != nil {
		go h.followChanges(ctx)
	}
	h.scrape = newMetrics(h)
	if h.others != nil && h.actor != nil {
		h.others.local.Store(h)
	}
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
		// The mux would answer OPTIONS * and CONNECT without a JSON body.
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

	others *Others // nil without WithOthers

	scrape   http.Handler // serves /metrics
	streams  streams
	sameSite *http.CrossOriginProtection
	acts     chan struct{} // one entry per write request in progress
	holds    chan struct{} // one entry per caller that takes part in a contest
	waits    waitList
	groups   groups
	contests *contests // nil without WithJobs
	actor    Actor     // nil without WithWrite
	leave    func()
	left     sync.Once
	labels   sync.Mutex // held while a request changes the labels of the node
}

// route is an API path and its method. GET includes HEAD.
type route struct {
	method, path string
	answer       http.HandlerFunc
}

// listRoutes returns all routes. openapi.json describes each of them.
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
		{"POST", "/v1/jobs/{job}/enable", h.announceAction(h.serveEnable(true))},
		{"POST", "/v1/jobs/{job}/disable", h.announceAction(h.serveEnable(false))},
		{"POST", "/v1/groups/{group}/elect", h.serveGroup},
		{"POST", "/v1/groups/{group}/fail", h.serveGroupFailure},
		{"GET", "/v1/nodes", h.serveNodes},
		{"GET", "/metrics", h.serveMetrics},
		{"GET", "/v1/nodes/{name}/status", h.nodeStatus},
		{"GET", "/v1/events", h.serveEvents},
		{"POST", "/v1/send", handleAct(h, h.sendEvent)},
		{"POST", "/v1/transfer", h.announceAction(handleAct(h, h.transferLeadership))},
		{"POST", "/v1/drain", h.announceAction(handleAct(h, h.drainMember))},
		{"POST", "/v1/prefer", h.announceAction(handleAct(h, h.preferMember))},
		{"POST", "/v1/labels", h.announceAction(handleAct(h, h.changeLabels))},
		{"POST", "/v1/seats", h.announceAction(handleAct(h, h.releaseSeats))},
		{"POST", "/v1/leave", h.announceAction(h.leaveCluster)},
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

// serveMembers responds with the members of the view. Only with ?build does it ask them.
func (h *handler) serveMembers(w http.ResponseWriter, r *http.Request) {
	want, err := readQuery(r, wantBuild)
	if err != nil {
		adminapi.WriteError(w, http.StatusBadRequest, adminapi.CodeBadQuery, err.Error())
		return
	}
	s := h.readStatus()
	if want[wantBuild] {
		h.addBuilds(r.Context(), s)
	}
	adminapi.WriteJSON(w, http.StatusOK, s.View.Members)
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

// serveElections responds with the most recent changes of leader, oldest first.
func (h *handler) serveElections(w http.ResponseWriter, _ *http.Request) {
	list := []adminapi.Election{}
	for _, e := range h.node.Status().Elections {
		list = append(list, adminapi.ElectionOf(e))
	}
	adminapi.WriteJSON(w, http.StatusOK, list)
}

func (h *handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	if h.isForeign(r) {
		writeRefusal(w, crossSite())
		return
	}
	h.streams.serveStream(w, r)
}

// isForeign reports whether a stream request is cross-origin. A page of another origin cannot read
// the stream, but could use up MaxEventStreams.
func (h *handler) isForeign(r *http.Request) bool {
	unsafe := *r
	unsafe.Method = http.MethodPost // Check accepts every GET
	return h.sameSite.Check(&unsafe) != nil
}

// Query parameters of /readyz, of /v1/members, and of /v1/jobs, which ignores all others.
const (
	wantQuorum = "quorum"
	wantLeader = "leader"
	wantVotes  = "votes"
	wantBuild  = "build"

	wantCallers = "callers"
	wantChanges = "changes"
)

// readQuery reads a query of switches. Unknown parameters are errors: a response of 200 to
// a misspelled ?leader would send requests to every node.
func readQuery(r *http.Request, known ...string) (map[string]bool, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("query %q of %s: %w", r.URL.RawQuery, r.URL.Path, err)
	}
	want := map[string]bool{}
	for word, values := range query {
		switch value := strings.Join(values, ","); {
		case !slices.Contains(known, word) && len(known) == 0:
			return nil, fmt.Errorf("query %q: %s accepts no query", word, r.URL.Path)
		case !slices.Contains(known, word):
			return nil, fmt.Errorf("unknown query %q: %s accepts ?%s",
				word, r.URL.Path, strings.Join(known, " and ?"))
		case value == "" || value == "1" || value == "true":
			want[word] = true
		case value != "0" && value != "false":
			return nil, fmt.Errorf("query %s=%q: must be empty, true, 1, false or 0", word, value)
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

// addReason adds the reason why there is no leader to a text, if there is a reason.
func addReason(text string, s adminapi.Status) string {
	if s.NoLeader == "" {
		return text
	}
	return text + ": " + s.NoLeader
}

func notFound(w http.ResponseWriter, r *http.Request) {
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound,
		"no such path: "+r.URL.Path)
}

func methodNotAllowed(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		methods := allowed
		if allowed == http.MethodGet {
			methods += ", " + http.MethodHead
		}
		w.Header().Set("Allow", methods)
		adminapi.WriteError(w, http.StatusMethodNotAllowed, adminapi.CodeMethodNotAllowed,
			"method "+r.Method+" not allowed; "+r.URL.Path+" accepts "+allowed)
	}
}
