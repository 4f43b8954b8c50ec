// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// Node is what the handler asks: *cluster.Node has it.
type Node interface {
	// Status is one look at the node. It must not block.
	Status() cluster.Status
}

// Codes of errors.
const (
	CodeNoQuorum         = "no_quorum"          // nobody leads with authority
	CodeNotLeader        = "not_leader"         // somebody else does
	CodeNotActive        = "not_active"         // the node is no active member
	CodeNotFound         = "not_found"          // there is no such path
	CodeMethodNotAllowed = "method_not_allowed" // the path takes another method
	CodeForbidden        = "forbidden"          // the request may come from another site
	CodeBadQuery         = "bad_query"          // the path knows no such query
	CodeNoAnswer         = "no_answer"          // another node did not answer in time
)

// Option changes a handler.
type Option func(*handler)

// WithOthers lets the handler ask other members for their status, by Others.Ask,
// for /v1/nodes/NAME/status.
func WithOthers(ask func(ctx context.Context, to member.Address) (Status, error)) Option {
	return func(h *handler) { h.ask = ask }
}

// New returns the handler of a node. build names the program and its version.
// The handler checks no caller; Serve does.
func New(node Node, build string, opts ...Option) http.Handler {
	h := &handler{node: node, build: build, ask: askNobody}
	for _, opt := range opts {
		opt(h)
	}
	mux := http.NewServeMux()
	for path, answer := range map[string]http.HandlerFunc{
		"/v1/status":  h.status,
		"/v1/members": h.members,
		"/v1/leader":  h.leader,
		"/v1/nodes":   h.nodes,
		"/livez":      h.live,
		"/readyz":     h.ready,

		"/v1/elections":           h.elections,
		"/v1/nodes/{name}/status": h.nodeStatus,
	} {
		mux.HandleFunc("GET "+path, answer)
		mux.HandleFunc(path, methodNotAllowed)
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
	ask   func(ctx context.Context, to member.Address) (Status, error)
}

func (h *handler) look() Status { return StatusOf(h.node.Status(), h.build) }

func (h *handler) status(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, h.look())
}

func (h *handler) members(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, h.look().View.Members)
}

func (h *handler) leader(w http.ResponseWriter, _ *http.Request) {
	s := h.look()
	l, ok := s.LeaderOf()
	if !ok {
		noQuorum(w, s)
		return
	}
	WriteJSON(w, http.StatusOK, l)
}

// live says that the process works: it could look at its node.
func (h *handler) live(w http.ResponseWriter, r *http.Request) {
	if _, err := wanted(r); err != nil {
		WriteError(w, http.StatusBadRequest, CodeBadQuery, err.Error())
		return
	}
	h.look()
	ok(w)
}

// ready says whether the node can be given work: whether a leader that was chosen
// made this run of it an active member. It stays so while the next leader is
// elected, or every failover would take all nodes out of service. A load balancer
// that wants the leader alone asks with ?leader.
func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	want, err := wanted(r, wantQuorum, wantLeader)
	if err != nil {
		WriteError(w, http.StatusBadRequest, CodeBadQuery, err.Error())
		return
	}
	node := h.node.Status()
	s := StatusOf(node, h.build)
	_, quorate := s.LeaderOf()
	switch {
	case node.Self.Status != member.Active || node.Provisional:
		WriteError(w, http.StatusServiceUnavailable, CodeNotActive,
			because("this node is no active member of its cluster yet", s))
	case (want[wantQuorum] || want[wantLeader]) && !quorate:
		noQuorum(w, s)
	case want[wantLeader] && !s.IsLeader():
		WriteError(w, http.StatusServiceUnavailable, CodeNotLeader,
			"this node does not lead; "+s.View.Leader.String()+" does")
	default:
		ok(w)
	}
}

// What can be asked of /readyz besides.
const (
	wantQuorum = "quorum"
	wantLeader = "leader"
)

// wanted reads the query of a health check, of which known are all words. Anything
// else is an error: an answer of 200 to a misspelled ?leader would send work to
// every node.
func wanted(r *http.Request, known ...string) (map[string]bool, error) {
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

func ok(w http.ResponseWriter) {
	WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func noQuorum(w http.ResponseWriter, s Status) {
	WriteError(w, http.StatusServiceUnavailable, CodeNoQuorum,
		because("no leader has the support of a majority", s))
}

// because adds why there is no leader, where that is known.
func because(text string, s Status) string {
	if s.NoLeader == "" {
		return text
	}
	return text + ": " + s.NoLeader
}

func notFound(w http.ResponseWriter, r *http.Request) {
	WriteError(w, http.StatusNotFound, CodeNotFound, "there is nothing at "+r.URL.Path)
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	WriteError(w, http.StatusMethodNotAllowed, CodeMethodNotAllowed,
		r.URL.Path+" only takes GET, not "+r.Method)
}

// WriteJSON answers with a value. What answers beside this handler uses it too.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		// Only values of this program come here, and all of them encode.
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a caller that went away is no fault
}

// WriteError answers with an error for people, text, and for programs, code.
func WriteError(w http.ResponseWriter, status int, code, text string) {
	WriteJSON(w, status, errorBody{text, code})
}

type errorBody struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}
