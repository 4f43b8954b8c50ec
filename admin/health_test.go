// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/athena-go/athena/admin"
)

// raw sends a raw request, and returns the status and the body of the response.
func raw(t *testing.T, addr, head string) (status int, body string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	return resp.StatusCode, string(all)
}

// TestHealthForLoadBalancers checks that health checks work over HTTP/1.0, without a Host and with
// any Host. A caller without the token or a loopback Host gets only the status and the code.
func TestHealthForLoadBalancers(t *testing.T) {
	token := admin.WithToken(readToken(t, tokenFile(t, tokenText, 0o600)))
	open, closed := serve(t, "127.0.0.1:0", joining()), serve(t, "127.0.0.1:0", joining(), token)
	const (
		ready = `{"status":"ok"}`
		short = `{"error":"service unavailable","code":"not_active"}`
		long  = `{"error":"this node is not an active member of its cluster yet: ` +
			`asked 10.0.0.9:7000 (no answer)","code":"not_active"}`
		bad     = `{"error":"bad request","code":"bad_query"}`
		bearer  = "Authorization: Bearer " + tokenText + "\r\n"
		forgery = "Authorization: Bearer wrong\r\n"
	)
	for _, c := range []struct {
		addr, path, version, header string
		status                      int
		body                        string
	}{
		{open, "/livez", "1.0", "", 200, ready},
		{open, "/livez", "1.1", "Host: lb.example\r\n", 200, ready},
		{open, "/readyz", "1.0", "", 503, short},
		{open, "/readyz?leader", "1.0", "", 503, short},
		{open, "/readyz?quorum", "1.0", "Host: lb.example\r\n", 503, short},
		{open, "/readyz?votes", "1.1", "Host: 10.0.0.1:7070\r\n", 503, short},
		{open, "/readyz?leader", "1.1", "Host: \r\n", 503, short},
		{open, "/readyz?leader", "1.1", "Host: localhost\r\n", 503, long},
		{open, "/readyz?leader", "1.0", "Host: 127.0.0.1\r\n", 503, long},
		{closed, "/livez", "1.0", "", 200, ready},
		{closed, "/readyz", "1.0", "", 503, short},
		{closed, "/readyz", "1.1", "Host: localhost\r\n", 503, short},
		{closed, "/readyz", "1.1", "Host: localhost\r\n" + forgery, 503, short},
		{closed, "/readyz", "1.1", "Host: localhost\r\n" + bearer, 503, long},
		{open, "/readyz?leaders", "1.0", "", 400, bad},
	} {
		head := fmt.Sprintf("GET %s HTTP/%s\r\n%s", c.path, c.version, c.header)
		if status, body := raw(t, c.addr, head); status != c.status || body != c.body+"\n" {
			t.Errorf("%q: %d %s, want %d %s", head, status, body, c.status, c.body)
		}
	}
	for _, head := range []string{"GET /v1/status HTTP/1.0\r\n", "GET / HTTP/1.0\r\n",
		"GET /metrics HTTP/1.0\r\nHost: lb.example\r\n", "GET //livez HTTP/1.0\r\n",
		"GET /livez/../v1/status HTTP/1.0\r\n"} {
		if status, body := raw(t, open, head); status != http.StatusForbidden {
			t.Errorf("%q: %d %s, want 403", head, status, body)
		}
	}
}
