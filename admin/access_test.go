// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/internal/simnet"
)

// guarded is a further node of a testCluster, whose callers need a token and a certificate.
type guarded struct {
	*testNode
	t      *testing.T
	path   string // of the token
	config atomic.Pointer[tls.Config]
	pki    *simnet.Authority
	cert   *tls.Certificate // of the caller
}

// Events implements Node. The node closes with its listener.
func (g *guarded) Events(context.Context) iter.Seq[cluster.Event] {
	return func(func(cluster.Event) bool) { <-g.closed }
}

func serveGuarded(t *testing.T, a *testCluster) *guarded {
	t.Helper()
	g := &guarded{
		testNode: &testNode{
			saying: a.nodes[0].saying, store: a.table.Store(trioAddress(0).String()),
			dialed: make(chan net.Conn), closed: make(chan struct{}), done: make(chan error, 1),
		},
		t: t, path: filepath.Join(t.TempDir(), "token"), pki: simnet.NewAuthority(t),
	}
	g.writeToken(oldToken())
	token, err := ReadToken(g.path)
	if err != nil {
		t.Fatal(err)
	}
	clients := simnet.NewAuthority(t)
	g.cert = clients.Issue("ops", nil)
	g.config.Store(&tls.Config{
		Certificates: []tls.Certificate{*g.pki.Issue("memory", nil)}, ClientCAs: clients.Pool(),
	})
	var ctx context.Context
	ctx, g.stop = context.WithCancel(context.Background())
	h := New(g, "", WithWrite(g, nil), WithJobs(g.store, a.remaining))
	go func() { g.done <- Serve(ctx, g, h, WithToken(token), WithTLS(g.config.Load)) }()
	return g
}

// writeToken replaces the token.
func (g *guarded) writeToken(text string) {
	g.t.Helper()
	next := g.path + ".new"
	err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, g.path))
	if err != nil {
		g.t.Fatal(err)
	}
}

// removeAuthority replaces the authority of the certificates of callers.
func (g *guarded) removeAuthority() {
	next := g.config.Load().Clone()
	next.ClientCAs = g.pki.Pool()
	g.config.Store(next)
}

func (g *guarded) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	g.dialed <- there
	return here, nil
}

func (g *guarded) clientTLS() *tls.Config {
	return &tls.Config{RootCAs: g.pki.Pool(), Certificates: []tls.Certificate{*g.cert}}
}

func oldToken() string { return strings.Repeat("t", 32) }

// client returns a client with the first token and the certificate.
func (g *guarded) client() *adminclient.Client {
	g.t.Helper()
	c, err := adminclient.New("memory:1", adminclient.WithToken(oldToken),
		adminclient.WithTLS(g.clientTLS()), adminclient.WithDial(g.dial))
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// follow returns the error that ends the events of the node.
func (g *guarded) follow(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		for _, err := range g.client().Events(ctx, "") {
			if err != nil {
				ended <- err
			}
		}
	}()
	return ended
}

// followJob returns the text of the stream of a job when it has ended.
func (g *guarded) followJob(ctx context.Context, job string) <-chan string {
	g.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "https://memory/v1/jobs/"+job+"/events", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+oldToken())
	c := &http.Client{Transport: &http.Transport{
		DialContext: g.dial, TLSClientConfig: g.clientTLS(), DisableKeepAlives: true,
	}}
	text := make(chan string, 1)
	go func() {
		resp, err := c.Do(r)
		if err != nil {
			text <- err.Error()
			return
		}
		defer resp.Body.Close()
		all, _ := io.ReadAll(resp.Body)
		text <- string(all)
	}()
	return text
}

// TestStreamsEndWithTheirCredentials checks that streams end soon after the token or the authority
// of their callers was replaced, and not before. A lock is then free for others.
func TestStreamsEndWithTheirCredentials(t *testing.T) {
	for name, revoke := range map[string]func(*guarded){
		"token":     func(g *guarded) { g.writeToken("another" + oldToken()) },
		"authority": (*guarded).removeAuthority,
	} {
		inCluster(t, func(t *testing.T, a *testCluster) {
			g := serveGuarded(t, a)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			followed, job := g.follow(ctx), g.followJob(ctx, "j")
			holder := a.lock(ctx, g.client(), "j", "x")
			holder.works()
			waiting := a.lock(ctx, g.client(), "j", "x")
			leads := a.elect(ctx, g.client(), "j")
			leads.works()
			other := a.lock(ctx, a.client(1, newNetwork()), "j", "x")
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(holder.ended)+len(leads.ended)+len(waiting.over)+len(followed)+len(job) > 0 {
				t.Fatalf("%s: a stream ended although its credentials are valid", name)
			}
			revoke(g)
			begun := time.Now()
			holder.lost(adminapi.CodeUnauthorized)
			leads.lost(adminapi.CodeUnauthorized)
			for which, err := range map[string]error{"waiting": <-waiting.over, "events": <-followed} {
				refused, ok := errors.AsType[*adminclient.Error](err)
				if !ok || refused.Code != adminapi.CodeUnauthorized {
					t.Errorf("%s, %s: ended with %v, want %s", name, which, err, adminapi.CodeUnauthorized)
				}
			}
			if text := <-job; !strings.Contains(text, "event: lost") ||
				!strings.Contains(text, adminapi.CodeUnauthorized) {
				t.Errorf("%s: the stream of the job:\n%s\nwant it to end with %s",
					name, text, adminapi.CodeUnauthorized)
			}
			took := time.Since(begun).Truncate(time.Second)
			if took > adminapi.KeepAliveInterval {
				t.Errorf("%s: the streams ended after %v, want %v", name, took, adminapi.KeepAliveInterval)
			}
			other.works()
			other.leave <- nil
			<-other.over
			<-holder.over
			<-leads.over
			g.stop()
			<-g.done
			time.Sleep(10 * time.Second) // both ends of each connection say over TLS that they close it
		})
	}
}
