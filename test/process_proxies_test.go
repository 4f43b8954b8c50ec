// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminclient"
)

// proxyNode is a node with an application beside it, which serves requests while the node leads.
type proxyNode struct {
	name   string
	daemon *process
	admin  string
	client *adminclient.Client
	app    *httptest.Server

	mu      sync.Mutex
	resumed chan struct{}  // closed when it continues; nil if it is not stopped
	written map[string]int // how often each write was done
	refused int            // requests while the node did not lead
}

// ServeHTTP answers with the name and the token of the node if it leads. At other paths it does not
// ask the node: /any is answered without a token, /break closes the connection after the write is
// done, and /hang answers nothing.
func (n *proxyNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/any" {
		fmt.Fprint(w, n.name, " 0")
		return
	}
	id := r.URL.Query().Get("id")
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodGet && string(body) != id {
		http.Error(w, "the body is not that of the client", http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/break":
		n.write(id)
		panic(http.ErrAbortHandler)
	case "/hang":
		n.write(id)
		<-r.Context().Done()
		return
	}
	s, err := n.client.Status(context.WithoutCancel(r.Context()))
	for n.awaitResume() { // a process that was stopped looks again
		s, err = n.client.Status(context.WithoutCancel(r.Context()))
	}
	if err != nil || !s.IsLeader() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.refused++
		http.Error(w, "this node does not lead", http.StatusServiceUnavailable)
		return
	}
	n.write(id)
	fmt.Fprint(w, n.name, " ", s.Token)
}

func (n *proxyNode) write(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.written[id]++
}

// kill ends the node and its application.
func (n *proxyNode) kill() {
	n.daemon.signal(syscall.SIGKILL)
	n.app.CloseClientConnections()
	n.app.Close()
}

// proxied is a proxy in front of three nodes.
type proxied struct {
	t           *testing.T
	dir         string
	nodes       []*proxyNode
	leader, any string // addresses of the proxy
	sent        int
	token       uint64 // the highest one of a response
}

// newProxied starts three nodes. If secure is not nil, it returns more flags of node i and options
// of its clients.
func newProxied(
	t *testing.T, secure func(i int) (flags []string, opts []adminclient.Option),
) *proxied {
	t.Helper()
	c := newNodes(t, 3)
	file := c.secret("token", "0123456789-the-token")
	token, err := admin.ReadToken(file)
	if err != nil {
		t.Fatal(err)
	}
	listens, admins := freeAddresses(t, 2), freeAddresses(t, 3)
	p := &proxied{t: t, dir: c.dir, leader: listens[0], any: listens[1]}
	for i, addr := range admins {
		n := &proxyNode{name: fmt.Sprint("n", i+1), admin: addr, written: map[string]int{}}
		flags := []string{"--admin", addr, "--admin-token-file", file, "--admin-write"}
		opts := []adminclient.Option{adminclient.WithToken(token.Current)}
		if secure != nil {
			moreFlags, moreOpts := secure(i + 1)
			flags, opts = append(flags, moreFlags...), append(opts, moreOpts...)
		}
		n.client, err = adminclient.New(addr, opts...)
		if err != nil {
			t.Fatal(err)
		}
		n.app = httptest.NewServer(n)
		t.Cleanup(n.app.Close)
		n.daemon = c.start(i+1, flags...)
		t.Cleanup(n.resume) // before the application is closed, which waits for its requests
		p.nodes = append(p.nodes, n)
	}
	p.awaitLeader()
	return p
}

// config writes the text of a file of deploy with the addresses of this test, after more
// replacements, and returns the path.
func (p *proxied) config(name, text string, more ...string) (path string) {
	p.t.Helper()
	pairs := append(more, ":8001", " "+p.any)
	for i, n := range p.nodes {
		example := fmt.Sprintf("10.0.0.%d:8080", i+1)
		_, port, _ := strings.Cut(n.admin, ":")
		app := strings.TrimPrefix(n.app.URL, "http://")
		pairs = append(pairs, example+" port 7070", app+" port "+port, example, app)
	}
	path = filepath.Join(p.dir, filepath.Base(name))
	text = strings.NewReplacer(pairs...).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// duration returns the value of a setting of a file of deploy.
func (p *proxied) duration(name, setting string) time.Duration {
	p.t.Helper()
	file := readExample(p.t, "deploy/"+name)
	found := regexp.MustCompile(`\b` + setting + `[ =](\w+)`).FindSubmatch(file)
	if found == nil {
		p.t.Fatalf("%s: no %s", name, setting)
	}
	d, err := time.ParseDuration(string(found[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// awaitLeader waits until a node other than the given ones leads.
func (p *proxied) awaitLeader(but ...*proxyNode) (leader *proxyNode) {
	p.t.Helper()
	eventually(p.t, "a leader", func() bool {
		for _, n := range p.nodes {
			if slices.Contains(but, n) {
				continue // it may hang
			}
			if s, err := n.client.Status(p.t.Context()); err == nil && s.IsLeader() {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// answer is the outcome of a request.
type answer struct {
	method       string
	status       int // 0 without a response
	name         string
	token        uint64 // of the node that served it
	began, ended time.Time
}

func (a answer) ok() bool            { return a.status == http.StatusOK }
func (a answer) took() time.Duration { return a.ended.Sub(a.began) }

// request sends a request with an id, which is also the body unless it is a GET.
func (p *proxied) request(method, url, id string) (a answer) {
	a = answer{method: method, began: time.Now()}
	defer func() { a.ended = time.Now() }()
	body := id
	if method == http.MethodGet {
		body = ""
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+url+"?id="+id,
		strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return a
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return a
	}
	a.status = resp.StatusCode
	if a.ok() {
		if _, err := fmt.Sscan(string(text), &a.name, &a.token); err != nil {
			p.t.Errorf("%s %s: %q: %v", method, url, text, err)
		}
	}
	return a
}

// send sends a request with a new id and returns the name of the node that served it, if any.
func (p *proxied) send(method, url string) (name string, ok bool) {
	p.t.Helper()
	p.sent++
	a := p.request(method, url, fmt.Sprint(method, p.sent))
	if a.token != 0 && a.token < p.token {
		p.t.Errorf("%s served with token %d after %d", a.name, a.token, p.token)
	}
	p.token = max(p.token, a.token)
	return a.name, a.ok()
}

// servedBy sends reads and writes to the leader until this node has served both, and checks that
// it served a read within the given time.
func (p *proxied) servedBy(leader *proxyNode, within time.Duration) {
	p.t.Helper()
	began := time.Now()
	for _, method := range []string{"GET", "POST"} {
		eventually(p.t, method+" served by "+leader.name, func() bool {
			name, ok := p.send(method, p.leader)
			return ok && name == leader.name
		})
		took := time.Since(began).Round(time.Millisecond)
		p.t.Logf("%s serves a %s after %v", leader.name, method, took)
		if method == "GET" && took > within {
			p.t.Errorf("%s served after %v, want at most %v", leader.name, took, within)
		}
	}
}

// failOver checks the proxy after the leader is killed, and after the next one is drained. It
// checks at the end that no write was done twice.
func (p *proxied) failOver(within time.Duration) (leaders [3]*proxyNode) {
	p.t.Helper()
	first := p.awaitLeader()
	p.breakWrites()
	p.servedBy(first, within)
	first.kill()
	second := p.awaitLeader(first)
	p.servedBy(second, within)
	if _, err := second.client.Drain(p.t.Context(), ""); err != nil {
		p.t.Fatalf("drain of %s: %v", second.name, err)
	}
	third := p.awaitLeader(first, second)
	p.servedBy(third, within)
	p.checkWrites()
	return [...]*proxyNode{first, second, third}
}

// breakWrites sends writes whose connection breaks after they are done: none may be repeated.
func (p *proxied) breakWrites() {
	p.t.Helper()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		if name, ok := p.send(method, p.leader+"/break"); ok {
			p.t.Errorf("%s served by %q, whose connection broke", method, name)
		}
	}
	p.checkWrites()
}

// checkWrites checks that no write was done twice.
func (p *proxied) checkWrites() {
	p.t.Helper()
	for id, times := range p.timesDone() {
		if !strings.HasPrefix(id, "GET") && times > 1 {
			p.t.Errorf("%s was done %d times", id, times)
		}
	}
}

// timesDone returns how often each write was done, by id.
func (p *proxied) timesDone() map[string]int {
	done := map[string]int{}
	for _, n := range p.nodes {
		n.mu.Lock()
		for id, times := range n.written {
			done[id] += times
		}
		n.mu.Unlock()
	}
	return done
}

// busy is added to bounds of time, because the machine may run other tests.
const busy = 4 * time.Second

// refused returns how many requests reached nodes that do not lead.
func (p *proxied) refused() (sum int) {
	for _, n := range p.nodes {
		n.mu.Lock()
		sum += n.refused
		n.mu.Unlock()
	}
	return sum
}
