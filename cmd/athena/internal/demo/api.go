// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
)

const (
	// nodeTimeout bounds how long the demo waits for a node to answer: one that was
	// paused from outside never does.
	nodeTimeout = 2 * time.Second
	// actTimeout does where the node is to act: it waits for the next leader, or for
	// handlers, for 15 s at most.
	actTimeout = 20 * time.Second
)

// Codes of errors that only the demo has.
const (
	codeNoNode = "no_node" // no node runs that could answer
	codeNotNow = "not_now" // the node is in no state for that
)

// nodeEntry is one node in the answer of /v1/nodes.
type nodeEntry struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"` // 0 while it does not run
	Address string `json:"address"`
	Admin   string `json:"admin"` // empty while it does not listen
	Alive   bool   `json:"alive"`
	Paused  bool   `json:"paused"`
	Cut     bool   `json:"cut"`
}

// newDemoAPI is the admin API of the whole demo: that of a node, answered by
// the leader where there is one, and what can be done to each node.
func newDemoAPI(f *fleet) http.Handler {
	api := &demoAPI{fleet: f}
	api.proxy = &httputil.ReverseProxy{
		Rewrite: api.rewriteRequest,
		Transport: twoPaces{
			look: &http.Transport{ResponseHeaderTimeout: nodeTimeout},
			act:  &http.Transport{ResponseHeaderTimeout: actTimeout},
		},
		ErrorHandler: api.noAnswer,
		ErrorLog:     log.New(io.Discard, "", 0), // a node that ends breaks streams off
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", api.serveByAny)
	for _, path := range []string{"/{$}", "/ui/"} { // also while no node answers
		mux.Handle("GET "+path, admin.Page())
		mux.HandleFunc(path, allowMethod("GET, HEAD"))
	}
	mux.HandleFunc("GET /v1/nodes", api.serveNodes)
	mux.HandleFunc("/v1/nodes", allowMethod("GET, HEAD"))
	mux.HandleFunc("/v1/nodes/", nothingThere)
	mux.HandleFunc("/v1/nodes/{name}", nothingThere) // or the next one sends elsewhere
	mux.HandleFunc("/v1/nodes/{name}/{what...}", api.serveByOne)
	for verb, do := range map[string]func(*node) error{
		"kill":    f.killNode,
		"pause":   f.pauseNode,
		"resume":  f.resumeNode,
		"restart": f.restartNode,
		"cut":     func(n *node) error { return f.cutLinks(n) },
		"heal":    func(n *node) error { return f.healLinks(n) },
	} {
		mux.HandleFunc("POST /v1/nodes/{name}/"+verb, api.serveAct(do))
		mux.HandleFunc("/v1/nodes/{name}/"+verb, allowMethod("POST"))
	}
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		adminapi.WriteError(w, http.StatusForbidden, adminapi.CodeCrossSite,
			"the request comes from another site")
	}))
	return sameSite.Handler(mux)
}

type demoAPI struct {
	fleet *fleet
	proxy *httputil.ReverseProxy
}

func (a *demoAPI) serveNodes(w http.ResponseWriter, _ *http.Request) {
	adminapi.WriteJSON(w, http.StatusOK, a.fleet.listEntries(a.fleet.nodes...))
}

// listEntries describes nodes as they are now.
func (f *fleet) listEntries(nodes ...*node) []nodeEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []nodeEntry
	for _, n := range nodes {
		e := nodeEntry{Name: n.name, Address: n.address, Admin: n.admin, Paused: n.paused, Cut: n.cut}
		if n.proc != nil {
			e.PID, e.Alive = n.proc.processID(), true
		}
		all = append(all, e)
	}
	return all
}

// serveByAny lets the leader answer, or another node where nobody leads.
func (a *demoAPI) serveByAny(w http.ResponseWriter, r *http.Request) {
	nodes := a.fleet.reachableNodes()
	if len(nodes) == 0 {
		adminapi.WriteError(w, http.StatusServiceUnavailable, codeNoNode,
			"no node runs that could answer")
		return
	}
	a.passRequest(w, r, nodes[0].admin, r.URL.Path)
}

// serveByOne lets one node answer for itself.
func (a *demoAPI) serveByOne(w http.ResponseWriter, r *http.Request) {
	n := a.fleet.findNode(r.PathValue("name"))
	if n == nil {
		noSuchNode(w, r)
		return
	}
	e := a.fleet.listEntries(n)[0]
	if e.Admin == "" {
		adminapi.WriteError(w, http.StatusServiceUnavailable, codeNoNode, e.Name+" does not run")
		return
	}
	a.passRequest(w, r, e.Admin, "/v1/"+r.PathValue("what"))
}

// allowMethod refuses all methods but those that are allowed.
func allowMethod(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		adminapi.WriteError(w, http.StatusMethodNotAllowed, adminapi.CodeMethodNotAllowed,
			r.URL.Path+" only takes "+allowed+", not "+r.Method)
	}
}

func nothingThere(w http.ResponseWriter, r *http.Request) {
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound,
		"there is nothing at "+r.URL.Path)
}

func (a *demoAPI) serveAct(do func(*node) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := a.fleet.findNode(r.PathValue("name"))
		if n == nil {
			noSuchNode(w, r)
			return
		}
		err := do(n)
		switch {
		case errors.Is(err, errNotRunning), errors.Is(err, errRunning):
			adminapi.WriteError(w, http.StatusConflict, codeNotNow, n.name+": "+err.Error())
		case err != nil:
			adminapi.WriteError(w, http.StatusInternalServerError, codeNotNow, n.name+": "+err.Error())
		default:
			adminapi.WriteJSON(w, http.StatusOK, a.fleet.listEntries(n)[0])
		}
	}
}

func noSuchNode(w http.ResponseWriter, r *http.Request) {
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound,
		"there is no node "+r.PathValue("name")+"; see /v1/nodes")
}

// passRequest lets the node at an address answer for a path.
func (a *demoAPI) passRequest(w http.ResponseWriter, r *http.Request, to, path string) {
	// A stream of events has no end, and what a node waits for comes later than a
	// request may take to arrive. The node has bounds of its own for both.
	rc := http.NewResponseController(w)
	_ = errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}))
	r = r.Clone(r.Context())
	r.URL = &url.URL{Scheme: "http", Host: to, Path: path, RawQuery: r.URL.RawQuery}
	a.proxy.ServeHTTP(w, r)
}

func (a *demoAPI) rewriteRequest(p *httputil.ProxyRequest) {
	// The node checks the Host, as everybody does who answers on loopback.
	p.Out.Host = p.Out.URL.Host
	// That of this demo, which was compared with the Host of this demo.
	p.Out.Header.Del("Origin")
}

// twoPaces waits longer for a node that acts than for one that only answers.
type twoPaces struct{ look, act http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p twoPaces) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		return p.act.RoundTrip(r)
	}
	return p.look.RoundTrip(r)
}

func (a *demoAPI) noAnswer(w http.ResponseWriter, _ *http.Request, err error) {
	adminapi.WriteError(w, http.StatusGatewayTimeout, adminapi.CodeNoAnswer,
		"the node does not answer: "+err.Error())
}
