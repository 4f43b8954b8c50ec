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
	// getTimeout limits how long to wait for the response of a node, which may be paused.
	getTimeout = 2 * time.Second
	// postTimeout is longer than the 15 s for which a node may wait for the next leader or for event
	// handlers.
	postTimeout = 20 * time.Second
)

// Error codes of the demo.
const (
	codeNoNode = "no_node" // no node is running
	codeNotNow = "not_now" // the node is already running, or not running
)

// nodeEntry is one node in the response of /v1/nodes.
type nodeEntry struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"` // 0 if the node is not running
	Address string `json:"address"`
	Admin   string `json:"admin"` // empty if the node is not listening
	Alive   bool   `json:"alive"`
	Paused  bool   `json:"paused"`
	Cut     bool   `json:"cut"`
}

// newDemoAPI returns the admin API of the demo. It passes requests for the API of a node to the
// leader, if there is one, and adds fault injection for each node.
func newDemoAPI(f *fleet) http.Handler {
	api := &demoAPI{fleet: f}
	api.proxy = &httputil.ReverseProxy{
		Rewrite: api.rewriteRequest,
		Transport: methodTransport{
			get:  &http.Transport{ResponseHeaderTimeout: getTimeout},
			post: &http.Transport{ResponseHeaderTimeout: postTimeout},
		},
		ErrorHandler: api.noAnswer,
		ErrorLog:     log.New(io.Discard, "", 0), // streams fail when a node stops
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", api.serveByAny)
	for _, path := range []string{"/{$}", "/ui/"} { // served even if no node is running
		mux.Handle("GET "+path, admin.Page())
		mux.HandleFunc(path, allowMethod("GET, HEAD"))
	}
	mux.HandleFunc("GET /v1/nodes", api.serveNodes)
	mux.HandleFunc("/v1/nodes", allowMethod("GET, HEAD"))
	mux.HandleFunc("/v1/nodes/", notFound)
	mux.HandleFunc("/v1/nodes/{name}", notFound) // the next pattern would redirect this path
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
			"cross-origin request refused")
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

// listEntries returns the current entries of the given nodes.
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

// serveByAny passes a request to the leader, or to any running node if there is no leader.
func (a *demoAPI) serveByAny(w http.ResponseWriter, r *http.Request) {
	nodes := a.fleet.reachableNodes()
	if len(nodes) == 0 {
		adminapi.WriteError(w, http.StatusServiceUnavailable, codeNoNode,
			"no node is running; start one with POST /v1/nodes/NAME/restart")
		return
	}
	a.passRequest(w, r, nodes[0].admin, r.URL.Path)
}

// serveByOne passes a request to the node in its path.
func (a *demoAPI) serveByOne(w http.ResponseWriter, r *http.Request) {
	n := a.fleet.findNode(r.PathValue("name"))
	if n == nil {
		noSuchNode(w, r)
		return
	}
	e := a.fleet.listEntries(n)[0]
	if e.Admin == "" {
		adminapi.WriteError(w, http.StatusServiceUnavailable, codeNoNode,
			e.Name+" is not running; start it with POST /v1/nodes/"+e.Name+"/restart")
		return
	}
	a.passRequest(w, r, e.Admin, "/v1/"+r.PathValue("what"))
}

// allowMethod returns a handler that refuses requests whose method is not one of those allowed.
func allowMethod(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		adminapi.WriteError(w, http.StatusMethodNotAllowed, adminapi.CodeMethodNotAllowed,
			"method "+r.Method+" not allowed; "+r.URL.Path+" accepts "+allowed)
	}
}

func notFound(w http.ResponseWriter, r *http.Request) {
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound, "no such path: "+r.URL.Path)
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
		"no such node: "+r.PathValue("name")+"; GET /v1/nodes lists them")
}

// passRequest passes a request for path to the node at an address.
func (a *demoAPI) passRequest(w http.ResponseWriter, r *http.Request, to, path string) {
	// Event streams never end, and some requests take longer than the deadlines of this server. The
	// node limits both.
	rc := http.NewResponseController(w)
	_ = errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}))
	r = r.Clone(r.Context())
	r.URL = &url.URL{Scheme: "http", Host: to, Path: path, RawQuery: r.URL.RawQuery}
	a.proxy.ServeHTTP(w, r)
}

func (a *demoAPI) rewriteRequest(p *httputil.ProxyRequest) {
	// The node accepts only its own address as Host.
	p.Out.Host = p.Out.URL.Host
	// The Origin names this demo and was checked by newDemoAPI.
	p.Out.Header.Del("Origin")
}

// methodTransport is a transport with a longer timeout for POST.
type methodTransport struct{ get, post http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t methodTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		return t.post.RoundTrip(r)
	}
	return t.get.RoundTrip(r)
}

func (a *demoAPI) noAnswer(w http.ResponseWriter, _ *http.Request, err error) {
	adminapi.WriteError(w, http.StatusGatewayTimeout, adminapi.CodeNoAnswer,
		"no response from the node: "+err.Error())
}
