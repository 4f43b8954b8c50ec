// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/tlsnet"
)

type shout struct{ Text string }

type question struct{ N int }

type reply struct{ N int }

// tlsCluster is a cluster of three over TLS on TCP.
type tlsCluster struct {
	nodes [3]*cluster.Node
	heard chan string
}

// loopbackConfigs returns the configurations of three nodes on free ports.
func loopbackConfigs(t *testing.T) []cluster.Config {
	t.Helper()
	configs := make([]cluster.Config, 3)
	var seeds []string
	for i := range configs {
		configs[i] = cluster.WANConfig() // its timeouts suit a busy machine
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // keep the port in use until every node has a port
		configs[i].Addr = l.Addr().String()
		seeds = append(seeds, configs[i].Addr)
	}
	for i := range configs {
		c := &configs[i]
		c.Name, c.Size, c.Seeds = fmt.Sprint("n", i+1), 3, seeds
	}
	return configs
}

func startOverTLS(t *testing.T, configs []cluster.Config) *tlsCluster {
	t.Helper()
	c := &tlsCluster{heard: make(chan string, 16)}
	started := make(chan error, len(configs))
	for i, cfg := range configs {
		rx := receiver.NewMux()
		receiver.Handle(rx, func(_ context.Context, from member.Member, m shout) error {
			c.heard <- fmt.Sprintf("n%d %s %s", i+1, from.Name, m.Text)
			return nil
		})
		receiver.HandleRequest(rx, func(
			_ context.Context, _ member.Member, q question,
		) (reply, error) {
			return reply{q.N + 1}, nil
		})
		receiver.HandleStream(rx, "echo", func(
			_ context.Context, _ member.Member, s receiver.Stream,
		) error {
			_, err := io.Copy(s, s)
			return errors.Join(err, s.CloseWrite())
		})
		cfg.Receiver = rx
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var err error
			c.nodes[i], err = cluster.Start(ctx, cfg, cluster.WithTransport(tlsnet.Open),
				cluster.WithLogger(slog.New(slog.DiscardHandler)))
			started <- err
		}()
	}
	for range configs {
		if err := <-started; err != nil {
			t.Fatalf("Start: %v", err)
		}
	}
	for _, n := range c.nodes {
		t.Cleanup(func() { _ = n.Close() }) // the test may have closed the node
		if err := n.WaitActive(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// exerciseCluster uses each way of sending, then closes the leader and waits for the next one.
func exerciseCluster(t *testing.T, c *tlsCluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.nodes[0].Broadcast(ctx, shout{"roar"}); err != nil {
		t.Errorf("Broadcast: %v", err)
	}
	for range 2 {
		select {
		case <-c.heard:
		case <-ctx.Done():
			t.Fatal("the broadcast did not arrive")
		}
	}
	to := c.nodes[1].Self().Address
	r, err := cluster.Request[reply](ctx, c.nodes[2], to, question{41})
	if err != nil || r.N != 42 {
		t.Errorf("Request: got %v, %v", r, err)
	}
	s, err := c.nodes[2].OpenStream(ctx, to, "echo")
	if err != nil {
		t.Fatalf("OpenStream: %v", err)
	}
	sent := bytes.Repeat([]byte("0123456789"), 200_000)
	go func() {
		_, err := s.Write(sent)
		if err = errors.Join(err, s.CloseWrite()); err != nil {
			t.Errorf("write of the stream: %v", err)
		}
	}()
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the echo of the stream: %d bytes, %v; want %d", len(got), err, len(sent))
	}
	old, err := c.nodes[0].WaitLeader(ctx) // a busy machine may interrupt its authority
	if err != nil {
		t.Fatal(err)
	}
	var left []*cluster.Node
	for _, n := range c.nodes {
		if n.Self().Address.String() != old.Leader() {
			left = append(left, n)
			continue
		}
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for term := range left[0].Terms(ctx) {
		if term.Leader() != old.Leader() {
			if !old.Token().Less(term.Token()) {
				t.Errorf("tokens: got %v after %v", term.Token(), old.Token())
			}
			return
		}
	}
	t.Error("no other leader")
}

func TestWholeStackOverTLS(t *testing.T) {
	configs := loopbackConfigs(t)
	secret := cluster.NewSecret()
	for i := range configs {
		configs[i].Secret = secret
	}
	c := startOverTLS(t, configs)
	_, err := cluster.Start(t.Context(), configs[0], cluster.WithTransport(tlsnet.Open))
	if !errors.Is(err, cluster.ErrAddressInUse) {
		t.Errorf("Start on an address in use: got %v", err)
	}
	stranger := configs[0]
	stranger.Addr, stranger.Secret = freePort(t), cluster.NewSecret()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = cluster.Start(ctx, stranger, cluster.WithTransport(tlsnet.Open))
	if !errors.Is(err, transport.ErrCertificate) {
		t.Errorf("Start with another secret: got %v, want ErrCertificate", err)
	}
	exerciseCluster(t, c)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestWholeStackOverTLSWithCertificates(t *testing.T) {
	pki := simnet.NewAuthority(t)
	configs := loopbackConfigs(t)
	for i := range configs {
		c, dir := &configs[i], t.TempDir()
		c.TLSCA, c.TLSCert, c.TLSKey = pki.Path, filepath.Join(dir, "cert"), filepath.Join(dir, "key")
		simnet.WritePair(t, pki.Issue("127.0.0.1", nil), c.TLSCert, c.TLSKey)
	}
	exerciseCluster(t, startOverTLS(t, configs))
}
