// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// rotation is a cluster whose credentials change while each node sends events to all others.
type rotation struct {
	t        *testing.T
	nodes    []*Node
	configs  []Config
	book     *book
	mu       sync.Mutex
	received map[string][]string // texts by "SENDER to RECEIVER"
	refused  uint64              // handshakes before the change
	stop     context.CancelFunc
	senders  sync.WaitGroup
	sent     [3]int // by each node to each other node
}

func (r *rotation) noteEvent(from, to, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received[from+" to "+to] = append(r.received[from+" to "+to], text)
}

// inRotation runs a test with a formed cluster. config returns the configuration of node i, from 1.
func inRotation(
	t *testing.T, config func(t *testing.T, i int) Config, test func(r *rotation),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		r := &rotation{t: t, book: newBook(t), received: map[string][]string{}}
		for i := 1; i <= 3; i++ {
			cfg := config(t, i)
			cfg.Receiver = receiver.NewMux()
			receiver.Handle(cfg.Receiver, func(_ context.Context, from member.Member, m note) error {
				r.noteEvent(from.Name, cfg.Name, m.Text)
				return nil
			})
			n, err := Start(t.Context(), cfg, WithSocket(p.Open), WithClock(time.Now),
				WithLogger(logTo(zerolog.New(r.book))))
			if err != nil {
				t.Fatalf("Start of node %d: %v", i, err)
			}
			defer n.Close()
			r.nodes, r.configs = append(r.nodes, n), append(r.configs, cfg)
		}
		for _, n := range r.nodes {
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		r.refused = r.countRefused()
		test(r)
	})
}

func withSecret(_ *testing.T, i int) Config { return quicConfig(i, clusterSecret) }

// sendEvents sends an event in each interval from each node to all others, until finishSending is
// called.
func (r *rotation) sendEvents(interval time.Duration) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop = cancel
	for i, n := range r.nodes {
		r.senders.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				if err := n.Broadcast(r.t.Context(), note{Text: fmt.Sprint(k)}); err != nil {
					r.t.Errorf("Broadcast %d of node %d: %v", k, i+1, err)
				}
				r.sent[i] = k + 1
				time.Sleep(interval)
			}
		})
	}
}

// finishSending stops sendEvents and checks that every event has arrived once and in order.
func (r *rotation) finishSending() {
	r.t.Helper()
	r.stop()
	r.senders.Wait()
	time.Sleep(time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent[0] < 100 || len(r.received) != 6 {
		r.t.Fatalf("%d events sent; %d pairs, want at least 100 and 6", r.sent[0], len(r.received))
	}
	for pair, texts := range r.received {
		for i, text := range texts {
			if text != fmt.Sprint(i) {
				r.t.Fatalf("%s: event %s arrived as number %d", pair, text, i)
			}
		}
		if want := r.sent[pair[1]-'1']; len(texts) != want {
			r.t.Errorf("%s: %d of %d events arrived", pair, len(texts), want)
		}
	}
}

// rotateCredentials gives node after node other credentials, with a pause after each.
func (r *rotation) rotateCredentials(pause time.Duration, edit func(i int, c *Config)) {
	r.t.Helper()
	for i, n := range r.nodes {
		edit(i+1, &r.configs[i])
		if err := n.SetCredentials(r.configs[i]); err != nil {
			r.t.Fatalf("SetCredentials of node %d: %v", i+1, err)
		}
		time.Sleep(pause)
	}
}

// checkLeader checks that the leader is still the one of the token, and that no handshake was
// refused.
func (r *rotation) checkLeader(token member.Token) {
	r.t.Helper()
	for i, n := range r.nodes {
		s := n.Status()
		if s.Token != token || s.View.Members.Count(member.Active) != 3 {
			r.t.Errorf("node %d: token %v, %d active; want %v and 3", i+1, s.Token,
				s.View.Members.Count(member.Active), token)
		}
	}
	if got := r.countRefused() - r.refused; got > 0 {
		r.t.Errorf("%d handshakes were refused, want none", got)
	}
}

// countRefused counts the handshakes that the nodes refused. One that its dialer no longer needed
// may count as failed.
func (r *rotation) countRefused() (n uint64) {
	for _, node := range r.nodes {
		counts := node.Status().Transport.Handshakes
		for _, result := range []string{"refused", "refused by peer", "certificate refused"} {
			n += counts[result]
		}
	}
	return n
}

// TestSecretInTwoRounds replaces the secret of a running cluster: first all nodes get both secrets,
// then only the new one. No event is lost, no leader is replaced and no connection is refused.
func TestSecretInTwoRounds(t *testing.T) {
	for _, pause := range []time.Duration{
		0, time.Millisecond, 700 * time.Millisecond, 15 * time.Second,
	} {
		t.Run(pause.String(), func(t *testing.T) {
			inRotation(t, withSecret, func(r *rotation) {
				token := r.nodes[0].Status().Token
				r.sendEvents(10 * time.Millisecond)
				time.Sleep(time.Second)
				r.rotateCredentials(pause, func(i int, c *Config) { // the order of the two does not matter
					c.OtherSecret = []byte(otherSecret)
					if i == 2 {
						c.Secret, c.OtherSecret = c.OtherSecret, c.Secret
					}
				})
				r.rotateCredentials(pause, func(_ int, c *Config) {
					c.Secret, c.OtherSecret = []byte(otherSecret), nil
				})
				time.Sleep(2 * time.Second)
				r.checkLeader(token)
				time.Sleep(30 * time.Second)
				r.checkLeader(token)
				r.finishSending()
			})
		})
	}
}

// TestAuthorityInTwoRounds replaces the authority and the certificates of a running cluster.
func TestAuthorityInTwoRounds(t *testing.T) {
	var old, next *simnet.Authority // made when the clock of the test runs
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(path string, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := func(t *testing.T, i int) Config {
		if old == nil {
			old, next = simnet.NewAuthority(t), simnet.NewAuthority(t)
		}
		c := pkiConfig(t, i, old)
		c.TLSCA = c.TLSCert + ".ca"
		write(c.TLSCA, read(old.Path))
		return c
	}
	inRotation(t, config, func(r *rotation) {
		token := r.nodes[0].Status().Token
		r.sendEvents(10 * time.Millisecond)
		time.Sleep(time.Second)
		both := append(read(old.Path), read(next.Path)...)
		r.rotateCredentials(0, func(_ int, c *Config) { write(c.TLSCA, both) })
		r.rotateCredentials(0, func(_ int, c *Config) {
			host, _, _ := strings.Cut(c.Addr, ":")
			simnet.WritePair(r.t, next.Issue(host, nil), c.TLSCert, c.TLSKey)
		})
		r.rotateCredentials(0, func(_ int, c *Config) { write(c.TLSCA, read(next.Path)) })
		time.Sleep(30 * time.Second)
		r.checkLeader(token)
		r.finishSending()
		// A certificate of the same authority replaces no connection.
		before := r.nodes[0].Status().Transport.Handshakes["established"]
		r.rotateCredentials(0, func(_ int, c *Config) {
			host, _, _ := strings.Cut(c.Addr, ":")
			simnet.WritePair(r.t, next.Issue(host, func(x *x509.Certificate) {
				x.NotAfter = time.Now().Add(time.Hour)
			}), c.TLSCert, c.TLSKey)
		})
		time.Sleep(15 * time.Second)
		s := r.nodes[0].Status()
		if got := s.Transport.Handshakes["established"]; got != before {
			t.Errorf("%d connections after new certificates, want the %d from before", got, before)
		}
		if left := time.Until(s.CertificateExpires); left > time.Hour {
			t.Errorf("the certificate ends in %v, want that of the new one", left)
		}
	})
}

// strange is the network of a node that is not what it should be.
type strange struct {
	transport.Network
	kind   transport.Kind // of its streams that call before
	before func() bool
	open   *atomic.Int64 // connections that other nodes have not ended
}

type strangeConn struct {
	transport.Conn
	strange
}

func (s strange) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	c, err := s.Network.Dial(ctx, to)
	return strangeConn{c, s}, err
}

func (s strange) Accept() (transport.Conn, error) {
	c, err := s.Network.Accept()
	return strangeConn{c, s}, err
}

func (s strangeConn) Stream(k transport.Kind) transport.FrameStream {
	stream := s.Conn.Stream(k)
	if k != s.kind {
		return stream
	}
	return strangeStream{stream, s.before}
}

func (s strangeConn) AcceptStream() (transport.RawStream, error) {
	s.open.Add(1)
	defer s.open.Add(-1)
	return s.Conn.AcceptStream()
}

// strangeStream calls before before each write, and writes nothing if the result is false.
type strangeStream struct {
	transport.FrameStream
	before func() bool
}

func (s strangeStream) TryWrite([]byte) (bool, error) { return false, nil }

func (s strangeStream) Write(b []byte) (int, error) {
	if !s.before() {
		return len(b), nil
	}
	return s.FrameStream.Write(b)
}

// startStrange starts nodes 1 and 2 and, with strange streams, node 3. It waits until count nodes
// are active, and then gives the first two nodes another secret. open is the number of connections
// of node 3.
func startStrange(
	t *testing.T, count int, kind transport.Kind, before func() bool,
) (nodes []*Node, open *atomic.Int64) {
	t.Helper()
	open = new(atomic.Int64)
	p := simnet.NewPacketNet(time.Millisecond)
	listen := func(c transport.Config) (transport.Network, error) {
		socket, err := p.Open(c.Addr)
		if err != nil {
			return nil, err
		}
		made, _, err := c.TLS()
		if err != nil {
			return nil, err
		}
		network, err := quicnet.New(quicnet.Config{Config: c, Conn: socket, TLS: made})
		return strange{network, kind, before, open}, err
	}
	quiet := WithLogger(slog.New(slog.DiscardHandler))
	for i := 1; i <= 2; i++ {
		n, err := Start(t.Context(), quicConfig(i, clusterSecret), quiet, WithSocket(p.Open),
			WithClock(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		nodes = append(nodes, n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if n, err := Start(ctx, quicConfig(3, clusterSecret), quiet, WithTransport(listen),
			WithClock(time.Now)); err == nil {
			<-ctx.Done()
			n.Close()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	if err := nodes[0].WaitActive(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	for _, n := range nodes {
		if err := n.SetCredentials(Config{Secret: []byte(otherSecret)}); err != nil {
			t.Fatal(err)
		}
	}
	return nodes, open
}

// testStrange calls startStrange. Node 3 must still have a connection after the time connected,
// unless that is 0, and none after 20 seconds.
func testStrange(
	t *testing.T, count int, kind transport.Kind, before func() bool, connected time.Duration,
) {
	synctest.Test(t, func(t *testing.T) {
		nodes, open := startStrange(t, count, kind, before)
		time.Sleep(connected)
		if connected > 0 && open.Load() == 0 {
			t.Fatal("the node with the removed secret had no connection")
		}
		time.Sleep(20*time.Second - connected)
		if got := open.Load(); got != 0 {
			t.Errorf("the node with the removed secret has %d connections, want none", got)
		}
		for i, n := range nodes {
			if got := n.Status().Transport.Connections; got != 1 {
				t.Errorf("node %d has %d connections, want one with the other new secret", i+1, got)
			}
		}
	})
}

// TestCertificatesExpireUnderTraffic replaces the certificates on disk, without a reload, until the
// first ones have expired several times over.
func TestCertificatesExpireUnderTraffic(t *testing.T) {
	const life = 90 * time.Second
	var pki *simnet.Authority // made when the clock of the test runs
	renew := func(t *testing.T, c Config) {
		host, _, _ := strings.Cut(c.Addr, ":")
		simnet.WritePair(t, pki.Issue(host, func(x *x509.Certificate) {
			x.NotAfter = time.Now().Add(life)
		}), c.TLSCert, c.TLSKey)
	}
	config := func(t *testing.T, i int) Config {
		if pki == nil {
			pki = simnet.NewAuthority(t)
		}
		c := pkiConfig(t, i, pki)
		renew(t, c)
		return c
	}
	inRotation(t, config, func(r *rotation) {
		token := r.nodes[0].Status().Token
		first := r.nodes[0].Status().CertificateExpires
		r.sendEvents(50 * time.Millisecond)
		for time.Since(first) < life {
			time.Sleep(life / 6)
			for _, c := range r.configs {
				renew(r.t, c)
			}
		}
		r.checkLeader(token)
		r.finishSending()
	})
}

// TestRemovedSecretEndsConnections checks that a node which knows only the removed secret loses its
// connections, even if it never finishes them.
func TestRemovedSecretEndsConnections(t *testing.T) {
	testStrange(t, 3, transport.Custom, func() bool { return false }, 5*time.Second)
}

// TestLateGreetWithRemovedSecret checks that a peer cannot keep a connection for which it
// authenticated before its secret was removed, and greeted afterwards.
func TestLateGreetWithRemovedSecret(t *testing.T) {
	testStrange(t, 2, transport.System, func() bool {
		time.Sleep(2 * time.Second)
		return true
	}, 0)
}

// TestSetCredentialsChangesNothingAfterAnError checks the errors of SetCredentials.
func TestSetCredentialsChangesNothingAfterAnError(t *testing.T) {
	inRotation(t, withSecret, func(r *rotation) {
		pki := simnet.NewAuthority(r.t)
		n, before := r.nodes[0], r.nodes[0].credentials.Load()
		for want, edit := range map[string]func(c *Config){
			"has at most 6 random": func(c *Config) { c.Secret = []byte("password") },
			"OtherSecret is set":   func(c *Config) { c.Secret, c.OtherSecret = nil, c.Secret },
			"no such file":         func(c *Config) { c.Secret, c.SecretFile = nil, "/no/such/file" },
			"Secret is empty":      func(c *Config) { c.Secret = nil },
			"stop all nodes, and start them": func(c *Config) {
				files := pkiConfig(r.t, 1, pki)
				c.Secret, c.TLSCA, c.TLSCert, c.TLSKey = nil, files.TLSCA, files.TLSCert, files.TLSKey
			},
		} {
			c := r.configs[0]
			edit(&c)
			if err := n.SetCredentials(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
			if n.credentials.Load() != before {
				t.Errorf("%s: the credentials changed", want)
			}
		}
		r.book.wants("loaded the secrets or TLS files again", 0)
		c := r.configs[0]
		if err := n.SetCredentials(c); err != nil {
			t.Error(err)
		}
		r.book.wants("loaded the secrets or TLS files again", 1)
		c.Secret = []byte("password")
		if _, ok := errors.AsType[*FieldError](n.SetCredentials(c)); !ok {
			t.Error("an invalid secret is not a FieldError")
		}
	})
}
