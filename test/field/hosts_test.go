// SPDX-License-Identifier: Apache-2.0

package field

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// hosts is a cluster of three members on hosts that a test chooses. Member i has the name db-i.
type hosts struct {
	*testing.T
	net    *simnet.PacketNet
	dir    string
	names  atomic.Pointer[[3]string]      // the host to which each name leads
	change func(i int, c *cluster.Config) // changes the configuration; may be nil
	// sent returns where the packets of member i to an address go, and seen the address from which
	// those of a host seem to arrive. May be nil.
	sent, seen func(i int, a netip.AddrPort) netip.AddrPort

	nodes   [3]*cluster.Node // nil if not running
	at      [3]string        // the host of each member
	running sync.WaitGroup
}

// onHosts runs a test in a bubble.
func onHosts(t *testing.T, test func(h *hosts)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hosts{T: t, net: simnet.NewPacketNet(time.Millisecond), dir: t.TempDir()}
		defer h.running.Wait()
		defer h.stop(0, 1, 2)
		test(h)
	})
}

func nameOf(i int) member.Address {
	return member.Address{Host: fmt.Sprint("db-", i), Port: 7000}
}

// hostOf returns an address that no other host has.
func hostOf(i, move int) string { return fmt.Sprintf("10.0.%d.%d", move, i+1) }

// form starts all members and waits until they form a cluster.
func (h *hosts) form() {
	h.Helper()
	h.names.Store(&[3]string{hostOf(0, 0), hostOf(1, 0), hostOf(2, 0)})
	for i := range h.nodes {
		h.start(i, hostOf(i, 0))
	}
	h.awaitWithin(10*time.Second, "first cluster", h.isSettled)
}

// start starts member i on a host, without waiting until it has joined.
func (h *hosts) start(i int, host string) {
	h.Helper()
	cfg := cluster.DefaultConfig()
	cfg.Addr, cfg.Advertise, cfg.Size = host+":7000", nameOf(i).String(), len(h.nodes)
	cfg.Secret = []byte("DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg=")
	cfg.DataDir = filepath.Join(h.dir, fmt.Sprint(i))
	for s := range h.nodes {
		cfg.Seeds = append(cfg.Seeds, nameOf(s).String())
	}
	if h.change != nil {
		h.change(i, &cfg)
	}
	listening := make(chan *cluster.Node, 1)
	h.running.Go(func() {
		n, err := cluster.Start(context.WithoutCancel(h.Context()), cfg,
			cluster.WithTransport(func(c transport.Config) (transport.Network, error) {
				return h.listenAt(i, c)
			}),
			cluster.WithClock(time.Now), cluster.WithLogger(slog.New(slog.DiscardHandler)),
			cluster.WithListening(func(n *cluster.Node) { listening <- n }))
		if h.Logf("member %d on %s: Start: %v", i, host, err); n == nil {
			close(listening)
		}
	})
	h.at[i], h.nodes[i] = host, <-listening
	if h.nodes[i] == nil {
		h.Fatalf("member %d does not listen", i)
	}
}

// stop kills members, if they run.
func (h *hosts) stop(members ...int) {
	for _, i := range members {
		if h.nodes[i] != nil {
			h.net.Kill(member.Address{Host: h.at[i], Port: 7000})
			_ = h.nodes[i].Close() // its packets are lost
			h.nodes[i] = nil
		}
	}
}

// listenAt opens the network of member i.
func (h *hosts) listenAt(i int, c transport.Config) (transport.Network, error) {
	socket, err := h.net.Open(c.Addr)
	if err != nil {
		return nil, err
	}
	config, named, err := c.TLS()
	if err != nil {
		return nil, err
	}
	return quicnet.New(quicnet.Config{
		Config: c, Conn: translated{simnet.Socket{PacketConn: socket}, h, i},
		TLS: config, Named: named, ResetKey: [32]byte{1, byte(i)},
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			i := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return nameOf(i).Host == name })
			return []netip.Addr{netip.MustParseAddr(h.names.Load()[i])}, nil
		},
	})
}

// leader returns the member that leads with authority, or -1.
func (h *hosts) leader() int {
	h.Helper()
	leads := -1
	for i, n := range h.nodes {
		if n == nil {
			continue
		}
		if term, ok := n.Leader(); ok && term.Valid() {
			if leads >= 0 {
				h.Fatalf("members %d and %d lead", leads, i)
			}
			leads = i
		}
	}
	return leads
}

// isSettled reports whether all members are active, and each shows the same leader.
func (h *hosts) isSettled() bool {
	h.Helper()
	i := h.leader()
	return i >= 0 && !slices.ContainsFunc(h.nodes[:], func(n *cluster.Node) bool {
		return n == nil || n.View().Leader != nameOf(i) || !n.View().Quorate ||
			n.View().Members.Count(member.Active) != len(h.nodes)
	})
}

// advance lets time pass, in which no two members may lead.
func (h *hosts) advance(d time.Duration) {
	h.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); h.leader() {
		time.Sleep(10 * time.Millisecond)
	}
}

// awaitWithin lets time pass until cond returns true.
func (h *hosts) awaitWithin(limit time.Duration, what string, cond func() bool) {
	h.Helper()
	begin := time.Now()
	for synctest.Wait(); !cond(); synctest.Wait() {
		if time.Since(begin) > limit {
			for i, n := range h.nodes {
				if n != nil {
					h.Logf("member %d on %s: %v %s", i, h.at[i], n.View(), n.Status().NoLeader)
				}
			}
			h.Fatalf("no %s within %v", what, limit)
		}
		time.Sleep(time.Millisecond)
	}
}

// translated is the socket of a member whose packets pass a translation of addresses.
type translated struct {
	simnet.Socket
	h *hosts
	i int
}

func (s translated) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.PacketConn.ReadFrom(b)
	if err == nil && s.h.seen != nil {
		from = net.UDPAddrFromAddrPort(s.h.seen(s.i, from.(*net.UDPAddr).AddrPort()))
	}
	return n, from, err
}

func (s translated) WriteTo(b []byte, to net.Addr) (int, error) {
	if s.h.sent != nil {
		to = net.UDPAddrFromAddrPort(s.h.sent(s.i, to.(*net.UDPAddr).AddrPort()))
	}
	return s.PacketConn.WriteTo(b, to)
}
