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
		Rewrite: api.rewrite,
		Transport: twoPaces{
			look: &http.Transport{ResponseHeaderTimeout: nodeTimeout},
			act:  &http.Transport{ResponseHeaderTimeout: actTimeout},
		},
		ErrorHandler: api.noAnswer,
		ErrorLog:     log.New(io.Discard, "", 0), // a node that ends breaks streams off
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", api.any)
	for _, path := range []string{"/{$}", "/ui/"} { // also while no node answers
		mux.Handle("GET "+path, admin.Page())
		mux.HandleFunc(path, only("GET, HEAD"))
	}
	mux.HandleFunc("GET /v1/nodes", api.nodes)
	mux.HandleFunc("/v1/nodes", only("GET, HEAD"))
	mux.HandleFunc("/v1/nodes/", nothingThere)
	mux.HandleFunc("/v1/nodes/{name}", nothingThere) // or the next one sends elsewhere
	mux.HandleFunc("/v1/nodes/{name}/{what...}", api.one)
	for verb, do := range map[string]func(*node) error{
		"kill":    f.kill,
		"pause":   f.pause,
		"resume":  f.resume,
		"restart": f.restart,
		"cut":     func(n *node) error { return f.part(n) },
		"heal":    func(n *node) error { return f.heal(n) },
	} {
		mux.HandleFunc("POST /v1/nodes/{name}/"+verb, api.act(do))
		mux.HandleFunc("/v1/nodes/{name}/"+verb, only("POST"))
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

func (a *demoAPI) nodes(w http.ResponseWriter, _ *http.Request) {
	adminapi.WriteJSON(w, http.StatusOK, a.fleet.entries(a.fleet.nodes...))
}

// entries describes nodes as they are now.
func (f *fleet) entries(nodes ...*node) []nodeEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []nodeEntry
	for _, n := range nodes {
		e := nodeEntry{Name: n.name, Address: n.address, Admin: n.admin, Paused: n.paused, Cut: n.cut}
		if n.proc != nil {
			e.PID, e.Alive = n.proc.pid(), true
		}
		all = append(all, e)
	}
	return all
}

// any lets the leader answer, or another node where nobody leads.
func (a *demoAPI) any(w http.ResponseWriter, r *http.Request) {
	nodes := a.fleet.reachable()
	if len(nodes) == 0 {
		adminapi.WriteError(w, http.StatusServiceUnavailable, codeNoNode,
			"no node runs that could answer")
		return
	}
	a.pass(w, r, nodes[0].admin, r.URL.Path)
}

// one lets one node answer for itself.
func (a *demoAPI) one(w http.ResponseWriter, r *http.Request) {
	n := a.fleet.find(r.PathValue("name"))
	if n == nil {
		noSuchNode(w, r)
		return
	}
	e := a.fleet.entries(n)[0]
	if e.Admin == "" {
		adminapi.WriteError(w, http.StatusServiceUnavailable, codeNoNode, e.Name+" does not run")
		return
	}
	a.pass(w, r, e.Admin, "/v1/"+r.PathValue("what"))
}

// only refuses all methods but those that are allowed.
func only(allowed string) http.HandlerFunc {
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

func (a *demoAPI) act(do func(*node) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := a.fleet.find(r.PathValue("name"))
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
			adminapi.WriteJSON(w, http.StatusOK, a.fleet.entries(n)[0])
		}
	}
}

func noSuchNode(w http.ResponseWriter, r *http.Request) {
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound,
		"there is no node "+r.PathValue("name")+"; see /v1/nodes")
}

// pass lets the node at an address answer for a path.
func (a *demoAPI) pass(w http.ResponseWriter, r *http.Request, to, path string) {
	// A stream of events has no end, and what a node waits for comes later than a
	// request may take to arrive. The node has bounds of its own for both.
	rc := http.NewResponseController(w)
	_ = errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}))
	r = r.Clone(r.Context())
	r.URL = &url.URL{Scheme: "http", Host: to, Path: path, RawQuery: r.URL.RawQuery}
	a.proxy.ServeHTTP(w, r)
}

func (a *demoAPI) rewrite(p *httputil.ProxyRequest) {
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
