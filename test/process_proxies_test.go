// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
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
	written map[string]int // how often each write was done
	refused int            // requests while the node did not lead
}

// ServeHTTP answers with the name and the token of the node if it leads, and /any without one.
func (n *proxyNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/any" {
		fmt.Fprint(w, n.name, " 0")
		return
	}
	s, err := n.client.Status(r.Context())
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || !s.IsLeader() {
		n.refused++
		http.Error(w, "this node does not lead", http.StatusServiceUnavailable)
		return
	}
	n.written[r.URL.Query().Get("id")]++
	fmt.Fprint(w, n.name, " ", s.Token)
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

func newProxied(t *testing.T) *proxied {
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
		n.client, err = adminclient.New(addr, adminclient.WithToken(token.Current))
		if err != nil {
			t.Fatal(err)
		}
		n.app = httptest.NewServer(n)
		t.Cleanup(n.app.Close)
		n.daemon = c.start(i+1, "--admin", addr, "--admin-token-file", file, "--admin-write")
		p.nodes = append(p.nodes, n)
	}
	p.awaitLeader()
	return p
}

// config writes a file of deploy with the addresses of this test, after more replacements, and
// returns its path.
func (p *proxied) config(name string, more ...string) (path string) {
	p.t.Helper()
	text := string(readExample(p.t, "deploy/"+name))
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
	found := regexp.MustCompile(setting + `[ =](\w+)`).FindSubmatch(readExample(p.t, "deploy/"+name))
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
			if s, err := n.client.Status(p.t.Context()); err == nil && s.IsLeader() {
				leader = n
			}
		}
		return leader != nil && !slices.Contains(but, leader)
	})
	return leader
}

// send sends a request with a new id and returns the name of the node that served it, if any.
func (p *proxied) send(method, url string) (name string, ok bool) {
	p.t.Helper()
	p.sent++
	id := fmt.Sprint(method, p.sent)
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+url+"?id="+id, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", false
	}
	var token uint64
	if _, err := fmt.Sscan(string(body), &name, &token); err != nil {
		p.t.Fatalf("%s %s: %q: %v", method, url, body, err)
	}
	if token != 0 && token < p.token {
		p.t.Errorf("%s served with token %d after %d", name, token, p.token)
	}
	p.token = max(p.token, token)
	return name, true
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
	p.servedBy(first, within)
	first.kill()
	second := p.awaitLeader(first)
	p.servedBy(second, within)
	if _, err := second.client.Drain(p.t.Context(), ""); err != nil {
		p.t.Fatalf("drain of %s: %v", second.name, err)
	}
	third := p.awaitLeader(first, second)
	p.servedBy(third, within)
	done := map[string]int{}
	for _, n := range p.nodes {
		n.mu.Lock()
		for id, times := range n.written {
			if done[id] += times; strings.HasPrefix(id, "POST") && done[id] > 1 {
				p.t.Errorf("%s was done %d times", id, done[id])
			}
		}
		n.mu.Unlock()
	}
	return [...]*proxyNode{first, second, third}
}

// busy is added to bounds of time, because the machine may run other tests.
const busy = time.Second

// refused returns how many requests reached nodes that do not lead.
func (p *proxied) refused() (sum int) {
	for _, n := range p.nodes {
		n.mu.Lock()
		sum += n.refused
		n.mu.Unlock()
	}
	return sum
}
