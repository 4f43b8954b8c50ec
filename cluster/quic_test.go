// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
	"github.com/rs/zerolog"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport/quicnet"
)

// packetNet is a simulated network of packets, 1 ms from node to node, that can
// lose all packets of a node. QUIC and TLS on it are real, time is virtual.
type packetNet struct {
	simnet.PerfectRouter
	mu  sync.Mutex
	cut map[string]bool // IPs
}

// SendPacket implements simnet.Router. Nobody learns that a packet was lost.
func (p *packetNet) SendPacket(packet simnet.Packet) error {
	p.mu.Lock()
	lost := p.cut[ipOf(packet.From)] || p.cut[ipOf(packet.To)]
	p.mu.Unlock()
	if !lost {
		_ = p.PerfectRouter.SendPacket(packet)
	}
	return nil
}

func ipOf(a net.Addr) string { return a.(*net.UDPAddr).IP.String() }

func (p *packetNet) setCut(ip string, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[ip] = cut
}

// socket is one node's end; its link has goroutines that end with it.
type socket struct {
	*simnet.SimConn
	link *simnet.SimulatedLink
	once sync.Once
}

func (s *socket) Close() (err error) {
	s.once.Do(func() { err = errors.Join(s.SimConn.Close(), s.link.Close()) })
	return err
}

func (p *packetNet) open(addr string) (net.PacketConn, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	at.IP = at.IP.To4()
	link := &simnet.SimulatedLink{Latency: time.Millisecond, UploadPacket: p}
	s := &socket{SimConn: simnet.NewBlockingSimConn(at, link), link: link}
	p.AddNode(at, link)
	link.Start()
	return s, nil
}

func quicConfig(i int, secret string) Config {
	c := Config{
		Addr:     fmt.Sprintf("10.0.0.%d:7000", i),
		Name:     fmt.Sprint("n", i),
		Seeds:    []string{"10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"},
		Size:     3,
		Secret:   []byte(secret),
		Receiver: receiver.NewMux(),
	}
	return c
}

const clusterSecret = "the secret of this cluster"

// TestWholeStackOverQUIC: formation, events, a leader that is cut off silently,
// and a stranger with another secret.
func TestWholeStackOverQUIC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &packetNet{cut: map[string]bool{}}
		options := []Option{WithSocket(p.open), WithClock(time.Now), WithLogger(zerolog.Nop())}
		var box mailbox
		nodes := make([]*Node, 3)
		for i := range nodes {
			cfg := quicConfig(i+1, clusterSecret)
			receiver.Handle(cfg.Receiver, func(_ context.Context, from member.Member, m note) error {
				box.add("n%d %s %s", i+1, from.Name, m.Text)
				return nil
			})
			var err error
			if nodes[i], err = Start(t.Context(), cfg, options...); err != nil {
				t.Fatalf("Start of node %d: %v", i+1, err)
			}
			defer nodes[i].Close()
		}
		w := &world{t: t, nodes: nodes}
		for _, n := range nodes {
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		if err := nodes[0].Broadcast(t.Context(), note{Text: "roar"}); err != nil {
			t.Errorf("Broadcast: %v", err)
		}
		time.Sleep(time.Second)
		if got := box.sorted(); len(got) != 2 || got[0] != "n2 n1 roar" || got[1] != "n3 n1 roar" {
			t.Errorf("handlers saw %q, want the roar of n1 twice", got)
		}
		old := w.leader()
		term, _ := old.Leader()
		begin := time.Now()
		p.setCut(old.cfg.self.Host, true)
		<-term.Done()
		var next Term
		for next = range w.others(old)[0].Terms(w.within(time.Minute)) {
			if next.Leader().Address != old.cfg.self {
				break
			}
		}
		if took := time.Since(begin); took > 2*old.cfg.LeaderTimeout {
			t.Errorf("next leader after %v; want within 2 x LeaderTimeout", took)
		}
		if next.Token() <= term.Token() {
			t.Errorf("tokens: got %d after %d", next.Token(), term.Token())
		}
		p.setCut(old.cfg.self.Host, false)
		if err := old.WaitActive(w.within(10*time.Second), 3); err != nil {
			t.Errorf("after the heal: %v", err)
		}
		_, err := Start(w.within(time.Minute), quicConfig(4, "another secret, long enough"), options...)
		if !errors.Is(err, quicnet.ErrCertificate) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start with another secret: got %v, want ErrCertificate before the context ends", err)
		}
	})
}
