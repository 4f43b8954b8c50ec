// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

// auditLog collects the lines of an admin API.
type auditLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *auditLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines returns the lines since the last call.
func (l *auditLog) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.text.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		all = append(all, fields)
	}
	l.text.Reset()
	return all
}

// serveAudited serves an API with write requests, and returns its log.
func serveAudited(
	t *testing.T, addr string, actor admin.Actor, opts ...admin.AccessOption,
) (at string, log *auditLog) {
	t.Helper()
	l, err := admin.Listen(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	log = &auditLog{}
	opts = append(opts, admin.WithLog(slog.New(slog.NewJSONHandler(log, nil))))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	h := admin.New(leading(t), "v0.1", admin.WithWrite(actor, func() {}))
	go func() { ended <- admin.Serve(ctx, l, h, opts...) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return admin.AddrOf(l), log
}

// TestAudit checks the line and the event of each action: its request, outcome and caller.
func TestAudit(t *testing.T) {
	s := newSecured(t)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(strings.Repeat("t", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := admin.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	at, log := serveAudited(t, "127.0.0.1:0", &acting{},
		admin.WithTLS(s.current.Load), admin.WithToken(token))
	c := s.client(t, at, s.clients.Issue("ops", nil), adminclient.WithToken(token.Current))
	const caller = "certificate CN=node of a test, token"
	if _, err := c.Transfer(t.Context(), "n2"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Transfer(t.Context(), "nobody"); err == nil {
		t.Fatal("transfer to an unknown member: no error")
	}
	event := adminapi.SendRequest{Name: "Pay", Payload: json.RawMessage(`"secret"`), To: "nobody"}
	if _, err := c.Send(t.Context(), event); err == nil {
		t.Fatal("send to an unknown member: no error")
	}
	if _, err := s.client(t, at, nil).Drain(t.Context(), ""); err == nil {
		t.Fatal("drain without a certificate: no error")
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`transfer {"to":"n2"} ok ` + caller,
		`transfer {"to":"nobody"} not_active ` + caller,
		`send {"name":"Pay","payload":null,"to":"nobody"} not_active ` + caller,
		`drain  unauthorized `,
	}
	got := log.lines(t)
	if len(got) != len(want) {
		t.Fatalf("got %v, want %d lines", got, len(want))
	}
	for i, f := range got {
		line := fmt.Sprintf("%v %v %v %v", f["action"], f["request"], f["outcome"], f["by"])
		if line != want[i] || f["msg"] != "admin action" || f["level"] != "INFO" {
			t.Errorf("got %v, want %s", f, want[i])
		}
		if host, _, err := net.SplitHostPort(f["remote"].(string)); err != nil || host != "127.0.0.1" {
			t.Errorf("remote %v: want an address of 127.0.0.1", f["remote"])
		}
		if agent, _ := f["user_agent"].(string); !strings.HasPrefix(agent, "Go-http-client") {
			t.Errorf("user_agent %v: want that of a Go client", f["user_agent"])
		}
	}
	var events []string
	for e, err := range c.Recent(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Action != nil {
			events = append(events, fmt.Sprintf("%s %s %s %s", e.Action.Action, e.Action.Request,
				e.Action.Outcome, e.Action.Caller))
		}
	}
	if got, want := strings.Join(events, "\n"), strings.Join(want[:2], "\n"); got != want {
		t.Errorf("events:\n%s\nwant:\n%s", got, want)
	}
}

// TestAuditOfSocket checks that the line of a request over a Unix socket names the process.
func TestAuditOfSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows which process has connected")
	}
	at, log := serveAudited(t, "unix:"+filepath.Join(t.TempDir(), "admin"), &acting{})
	c, err := adminclient.New(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("uid %d, pid %d", os.Getuid(), os.Getpid())
	if got := log.lines(t); len(got) != 1 || got[0]["by"] != want || got[0]["action"] != "leave" {
		t.Errorf("got %v, want one line of leave by %s", got, want)
	}
}

// TestAuditOfCertificates checks that the lines of callers differ if only the SPIFFE IDs of their
// certificates do, and that other certificates have their subject or an alternative name.
func TestAuditOfCertificates(t *testing.T) {
	s := newSecured(t)
	at, log := serveAudited(t, "127.0.0.1:0", &acting{}, admin.WithTLS(s.current.Load))
	for _, c := range []struct{ name, organization, want string }{
		{"spiffe://example.org/alice", "SPIRE", "spiffe://example.org/alice"},
		{"spiffe://example.org/bob", "SPIRE", "spiffe://example.org/bob"},
		{"https://example.org/bob", "SPIRE", "O=SPIRE"},
		{"https://example.org/bob", "", "https://example.org/bob"},
		{"ops.example.org", "", "ops.example.org"},
	} {
		cert := s.clients.Issue(c.name, func(x *x509.Certificate) {
			x.Subject = pkix.Name{}
			if c.organization != "" {
				x.Subject.Organization = []string{c.organization}
			}
		})
		if _, err := s.client(t, at, cert).Transfer(t.Context(), "n2"); err != nil {
			t.Fatal(err)
		}
		if got := log.lines(t); len(got) != 1 || got[0]["by"] != "certificate "+c.want {
			t.Errorf("certificate of %s, %s: got %v, want one line by %s",
				c.name, c.organization, got, c.want)
		}
	}
}

// TestAuditOfHostileCaller sends requests whose path, headers and body try to forge or to fill the
// log. Refused requests are logged 64 times; an accepted one is logged nevertheless.
func TestAuditOfHostileCaller(t *testing.T) {
	at, log := serveAudited(t, "127.0.0.1:0", &acting{})
	send := func(path, body string, header ...string) {
		t.Helper()
		req, err := http.NewRequest("POST", "http://"+at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	defer http.DefaultClient.CloseIdleConnections()
	long := strings.Repeat("x", 2<<10)
	for range 100 {
		send("/v1/drain", "{}", "Origin", "http://elsewhere", "Sec-Fetch-Site", "cross-site")
		send("/v1/"+long+"%0a%1b[31m", "{}", "User-Agent", long, "X-Request-ID", "\x80"+long)
	}
	if got := len(log.lines(t)); got != 64 {
		t.Errorf("200 refused requests: %d lines, want 64", got)
	}
	send("/v1/transfer", `{"to":"\u001b[31m\u202e`+long+`"}`, "X-Request-ID", "job-\x80"+long)
	got := log.lines(t)
	if len(got) != 1 || got[0]["outcome"] != adminapi.CodeNotActive {
		t.Fatalf("got %v, want one line of a transfer", got)
	}
	for name, value := range got[0] {
		text := fmt.Sprint(value)
		if len(text) > 256 || strings.ContainsAny(text, "\x1b\u202e") ||
			!utf8.ValidString(text) {
			t.Errorf("field %s: %q, want at most 256 printable bytes", name, text)
		}
	}
}
