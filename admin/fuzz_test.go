// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

// FuzzHandler sends any request that net/http accepts to nodes in every state. It checks that each
// response is documented and small, and does not redirect to another host.
func FuzzHandler(f *testing.F) {
	for i, path := range []string{
		"/v1/status", "/v1/members", "/v1/leader", "/v1/events?follow=0",
		"/v1/send", "/v1/leave", "/livez", "/readyz?leader", "/readyz?quorum=1",
		"/readyz?leader=maybe", "/livez?%zz", "//evil.example/..", "/v1//status", "/%2e%2e/", "/\x7f",
		"*", "/v1/nodes", "/v1/nodes/n2/status", "/v1/nodes/n1/status", "/v1/nodes/%2f/status",
		"/v1/jobs", "/v1/jobs/a/events", "/v1/jobs/%2f/lock", "/v1/jobs//elect",
		"/", "/ui/main.js", "/ui/../handler.go", "/ui/vendor/",
	} {
		f.Add(uint8(i), []byte("GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		f.Add(uint8(i), []byte("POST "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"))
	}
	f.Add(uint8(1), []byte("POST /v1/send HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"+
		"Content-Length: 36\r\n\r\n{\"name\": \"a\", \"to\": \"n1\", \"payload\":1}"))
	f.Add(uint8(0), []byte("CONNECT a:1 HTTP/1.0\r\n\r\n"))
	f.Add(uint8(0),
		[]byte("OPTIONS * HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, node uint8, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(raw))))
		if err != nil {
			return // net/http responds to invalid requests itself
		}
		nodes := []fake{leading(t), joining(), leaderless(t), provisional(t), following(t)}
		h := admin.New(nodes[int(node)%len(nodes)], "v0.1", admin.WithWrite(&acting{}, func() {}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		checkAnswer(t, r, w)
	})
}

// documented lists the codes of 503 responses by path.
var documented = map[string][]string{
	"/v1/leader": {adminapi.CodeNoQuorum},
	"/readyz":    {adminapi.CodeNoQuorum, adminapi.CodeNotLeader, adminapi.CodeNotActive},
}

func checkAnswer(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	asked := r.Method + " " + r.URL.String()
	body := w.Body.Bytes()
	if w.Code == http.StatusOK && w.Header().Get("Content-Security-Policy") != "" {
		return // a dashboard file, which has its own tests
	}
	if most := 4096 + 16*len(asked); len(body) > most && r.URL.Path != "/v1/openapi.json" {
		t.Fatalf("%q: response of %d bytes", asked, len(body))
	}
	if at := w.Header().Get("Location"); at != "" {
		// net/http redirects to the clean path; a browser reads //host as another host.
		if !strings.HasPrefix(at, "/") || strings.HasPrefix(at, "//") || strings.HasPrefix(at, `/\`) {
			t.Fatalf("%q: redirected to %q", asked, at)
		}
		return
	}
	var told struct{ Error, Code string }
	switch kind := w.Header().Get("Content-Type"); {
	case w.Code == http.StatusOK && r.URL.Path == "/v1/events" && kind == "text/event-stream":
	case w.Code < 400 && w.Code != http.StatusOK && w.Code != http.StatusAccepted:
		t.Fatalf("%q: %d", asked, w.Code)
	case kind != "application/json" || !json.Valid(body):
		t.Fatalf("%q: %d with %q of %s", asked, w.Code, body, w.Header().Get("Content-Type"))
	case w.Code < 400:
	case json.Unmarshal(body, &told) != nil || told.Error == "" || told.Code == "":
		t.Fatalf("%q: %d with %q, want an error with its code", asked, w.Code, body)
	case w.Code == http.StatusGatewayTimeout && strings.HasPrefix(r.URL.Path, "/v1/nodes/") &&
		told.Code == adminapi.CodeNoAnswer:
	case w.Code > 500 && !slices.Contains(documented[r.URL.Path], told.Code), w.Code == 500:
		t.Fatalf("%q: %d with %q", asked, w.Code, body)
	}
}

// FuzzAddress parses any text as the address of a server and of a client. It checks that servers
// accept only addresses of this machine.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{
		"", "off", "unix:", "unix:/run/a.sock", "127.0.0.1:7070", "[::1]:0", "localhost:1", "LocalHost:x",
		"0.0.0.0:1", "[::ffff:127.0.0.1]:1", "[::1%lo]:1", "127.1:80", "10.0.0.1:65536",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		if _, err := adminclient.New(addr); err != nil && !errors.Is(err, adminapi.ErrAddress) {
			t.Fatalf("NewClient(%q): %v does not wrap ErrAddress", addr, err)
		}
		err := adminapi.CheckListen(addr, false)
		switch path, isPath := strings.CutPrefix(addr, "unix:"); {
		case err != nil && !errors.Is(err, adminapi.ErrAddress):
			t.Fatalf("CheckListen(%q): %v does not wrap ErrAddress", addr, err)
		case err != nil || isPath && path != "":
			return
		}
		host, _, err := net.SplitHostPort(addr)
		ip := net.ParseIP(strings.Split(host, "%")[0])
		if err != nil || !strings.EqualFold(host, "localhost") && !ip.IsLoopback() {
			t.Fatalf("CheckListen accepts %q", addr)
		}
	})
}
