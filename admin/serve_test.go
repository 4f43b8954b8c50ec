// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves the API of a node until the test ends, and returns its address.
func serve(t *testing.T, addr string, node fake, opts ...admin.AccessOption) string {
	t.Helper()
	l, err := admin.Listen(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- admin.Serve(ctx, l, admin.New(node, "v0.1"), opts...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve on %s: %v, want nil after the end of its context", addr, err)
		}
	})
	return admin.AddrOf(l)
}

func TestClient(t *testing.T) {
	node := leading(t)
	for _, addr := range []string{
		"127.0.0.1:0", "localhost:0", "unix:" + filepath.Join(t.TempDir(), "admin"),
	} {
		where := serve(t, addr, node)
		c, err := adminclient.New(where)
		if err != nil {
			t.Fatal(err)
		}
		want := adminapi.StatusOf(node.Status(), "v0.1")
		got, err := c.Status(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Status at %s: %v, -want +got:\n%s", where, err, diff)
		}
		for i, m := range want.View.Members {
			if m.Address == want.Self.Address {
				want.View.Members[i].Build = want.Build
			}
		}
		ms, err := c.Members(t.Context())
		if diff := cmp.Diff(want.View.Members, ms); err != nil || diff != "" {
			t.Errorf("Members at %s: %v, -want +got:\n%s", where, err, diff)
		}
		l, err := c.Leader(t.Context())
		if wantLeader, _ := want.LeaderOf(); err != nil || l != wantLeader {
			t.Errorf("Leader at %s: %v, %v, want %v", where, l, err, wantLeader)
		}
	}
}

func TestClientErrors(t *testing.T) {
	c, err := adminclient.New(serve(t, "127.0.0.1:0", leaderless(t)))
	if err != nil {
		t.Fatal(err)
	}
	var answered *adminclient.Error
	if _, err := c.Leader(t.Context()); !errors.As(err, &answered) ||
		answered.Code != adminapi.CodeNoQuorum || answered.Status != 503 {
		t.Errorf("Leader without one: %v, want 503 %s", err, adminapi.CodeNoQuorum)
	}
	for _, addr := range []string{"", "7070", "unix:", "http://127.0.0.1:7070"} {
		if _, err := adminclient.New(addr); !errors.Is(err, adminapi.ErrAddress) {
			t.Errorf("NewClient(%q): %v, want ErrAddress", addr, err)
		}
	}
	c, err = adminclient.New("unix:" + filepath.Join(t.TempDir(), "nobody"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context()); err == nil || errors.As(err, &answered) {
		t.Errorf("Status without a server: %v, want an error that is not an *Error", err)
	}
}

func TestListenRefuses(t *testing.T) {
	for addr, want := range map[string]string{
		"":                    "must be host:port",
		"7070":                "must be host:port",
		"127.0.0.1:http":      "must be host:port",
		"127.0.0.1:70700":     "must be host:port",
		"unix:":               "must be unix:PATH",
		":7070":               "needs a token",
		"0.0.0.0:7070":        "needs a token",
		"10.0.0.1:7070":       "needs a token",
		"example.org:7070":    "needs a token",
		"[2001:db8::1]:7070":  "needs a token",
		"localhost.evil:7070": "needs a token",

		"unix:/tmp/" + strings.Repeat("x", 110):              "too long",
		"unix:/tmp/" + strings.Repeat("x", 90) + "/a/socket": "too long",
	} {
		l, err := admin.Listen(addr)
		if err == nil {
			l.Close()
		}
		if !errors.Is(err, adminapi.ErrAddress) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Listen(%q): %v, want ErrAddress with %q", addr, err, want)
		}
	}
	taken := serve(t, "127.0.0.1:0", fake{})
	if _, err := admin.Listen(taken); err == nil || errors.Is(err, adminapi.ErrAddress) {
		t.Errorf("Listen(%q) twice: %v, want an error that is not ErrAddress", taken, err)
	}
}

// TestSocket checks the mode of a socket, and whether its file is replaced or removed.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close() // a stale file remains, as after SIGKILL

	l, err := admin.Listen("unix:" + path)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the socket: %v, %v, want 0600", info.Mode(), err)
	}
	if _, err := admin.Listen("unix:" + path); err == nil {
		t.Error("Listen over a socket in use: no error")
	}
	l.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("after Close: %v, %v, want nothing left", left, err)
	}

	if err := os.WriteFile(path, []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Listen("unix:" + path); err == nil {
		t.Error("Listen over a file: no error")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "of another" {
		t.Errorf("the file: %q, %v, want it as before", text, err)
	}
}

// TestHost checks that requests are refused if they use a name that resolves to this machine, as in
// DNS rebinding.
func TestHost(t *testing.T) {
	addr := serve(t, "127.0.0.1:0", leading(t))
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	for host, want := range map[string]int{
		"127.0.0.1:" + port:      200,
		"localhost:" + port:      200,
		"LOCALHOST":              200,
		"[::1]:" + port:          200,
		"[::1]":                  200,
		"evil.example:" + port:   403,
		"evil.example":           403,
		"127.0.0.1.evil.example": 403,
		"localhost.evil.example": 403,
		"192.168.1.1:" + port:    403,
	} {
		req, err := http.NewRequest("GET", "http://"+addr+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("Host %q: %v", host, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Host %q: %d %s, want %d", host, resp.StatusCode, body, want)
		}
	}
}
