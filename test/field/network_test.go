// SPDX-License-Identifier: Apache-2.0

package field

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// TestNATChangesThePort changes the source port of member 0 for the others whenever its connections
// have been silent. Packets to a former port are lost, except to the one that member 0 advertises.
// Events in both directions arrive once and in order.
// https://github.com/haproxy/haproxy/issues/3329
func TestNATChangesThePort(t *testing.T) {
	const rounds, each = 20, 15
	type number struct{ N int }
	onHosts(t, func(h *hosts) {
		var port atomic.Uint32 // that member 0 has for the others
		port.Store(7000)
		own := netip.MustParseAddrPort(hostOf(0, 0) + ":7000")
		h.seen = func(i int, from netip.AddrPort) netip.AddrPort {
			if i != 0 && from == own {
				return netip.AddrPortFrom(own.Addr(), uint16(port.Load()))
			}
			return from
		}
		h.sent = func(i int, to netip.AddrPort) netip.AddrPort {
			if i != 0 && to.Addr() == own.Addr() && uint32(to.Port()) == port.Load() {
				return own
			}
			return to
		}
		var got [3]chan int
		h.change = func(i int, c *cluster.Config) {
			got[i] = make(chan int, rounds*each)
			c.Receiver = receiver.NewMux()
			receiver.Handle(c.Receiver, func(_ context.Context, _ member.Member, n number) error {
				got[i] <- n.N
				return nil
			})
		}
		h.form()
		if l := h.leader(); l != 1 { // so that members 0 and 2 have nothing to send to each other
			if err := h.nodes[l].Transfer(h.Context(), nameOf(1)); err != nil {
				h.Fatal(err)
			}
		}
		for round := range rounds {
			h.advance(11 * time.Second)
			port.Store(uint32(50_000 + round))
			for _, i := range []int{0, 2} {
				h.running.Go(func() {
					for n := range each {
						if err := h.nodes[i].Send(h.Context(), nameOf(2-i), number{round*each + n}); err != nil {
							h.Errorf("round %d: member %d: Send: %v", round, i, err)
						}
					}
				})
			}
			h.awaitWithin(15*time.Second, "events of both", func() bool {
				return len(got[0]) >= each && len(got[2]) >= each
			})
			for n := range each {
				for _, i := range []int{0, 2} {
					if got := <-got[i]; got != round*each+n {
						h.Errorf("member %d got event %d, want %d", i, got, round*each+n)
					}
				}
			}
		}
		h.advance(time.Minute)
		if len(got[0])+len(got[2]) > 0 {
			h.Error("events arrived twice")
		}
	})
}

// watched is a socket that keeps the addresses from which packets arrive.
type watched struct {
	simnet.Socket
	from *sync.Map
}

func (s watched) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.PacketConn.ReadFrom(b)
	if err == nil {
		s.from.Store(from.String(), true)
	}
	return n, from, err
}

// TestAnswersLeaveFromTheAskedAddress dials a socket that listens on all addresses, at an address
// that its host would not choose for the answer.
// https://github.com/haproxy/haproxy/issues/3503
// https://github.com/razvandimescu/numa/issues/231
func TestAnswersLeaveFromTheAskedAddress(t *testing.T) {
	var networks [2]transport.Network
	var port int
	from := new(sync.Map)
	for i, addr := range []string{"0.0.0.0:0", "127.0.0.1:0"} {
		socket, err := quicnet.Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		config, err := quicnet.InsecureTLS(time.Now)
		if err != nil {
			t.Fatal(err)
		}
		cfg := quicnet.Config{Config: transport.Config{Size: 2}, Conn: socket, TLS: config}
		if i == 0 {
			port = socket.LocalAddr().(*net.UDPAddr).Port
		} else {
			cfg.Conn = watched{simnet.Socket{PacketConn: socket}, from}
		}
		if networks[i], err = quicnet.New(cfg); err != nil {
			t.Fatal(err)
		}
		defer networks[i].Close()
	}
	asked := member.Address{Host: "127.0.0.2", Port: uint16(port)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // on a busy machine, an attempt may time out
		_, err := networks[1].Dial(ctx, asked)
		if err == nil {
			break
		}
		if t.Log(err); ctx.Err() != nil {
			t.Fatalf("no answer from %v", asked)
		}
	}
	answered, err := networks[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	answered.Close(transport.CodeClosed, "")
	from.Range(func(k, _ any) bool {
		if k != asked.String() {
			t.Errorf("asked at %v, a packet arrived from %v", asked, k)
		}
		return true
	})
}
