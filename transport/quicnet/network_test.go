// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/internal/handshakes"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

var (
	addrA = member.Address{Host: "10.0.0.1", Port: 7000}
	addrB = member.Address{Host: "10.0.0.2", Port: 7000}
)

// inWorld runs a test in a bubble, on a simulated network.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

func (w *world) join(
	t *testing.T, at member.Address, incarnation uint64, edit func(*Config),
) *node {
	t.Helper()
	cfg := w.config(at)
	if edit != nil {
		edit(&cfg)
	}
	return startWith(t, cfg, at, incarnation)
}

// TestSilentConnectionIsReplaced restarts a peer that does not dial and sends no resets for
// its old connections. The node must dial it again long before QUIC gives up the old
// connection.
func TestSilentConnectionIsReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		w.Kill(addrB)
		b = w.join(t, addrB, 2, func(c *Config) { c.ResetKey = [32]byte{9} })
		start := time.Now()
		for len(b.frames[transport.System]) == 0 && time.Since(start) < time.Minute {
			a.Notify(addrB, make([]byte, wire.MinKeepAliveBytes))
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the new run was reached after %v, want at most 1 s", took)
		}
		if got := a.Stats().Connections; got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
	})
}

// TestRestartIsNoticedAtOnce restarts a peer that keeps its key and does not dial. The next
// heartbeat is answered with a reset, and the heartbeat after that arrives.
func TestRestartIsNoticedAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		time.Sleep(time.Second)
		w.Kill(addrB)
		b = w.join(t, addrB, 2, nil)
		start := time.Now()
		a.Notify(addrB, make([]byte, wire.MinKeepAliveBytes))
		err := a.nextReport(t, mesh.ReportLost)
		if took := time.Since(start); took != 2*delay {
			t.Errorf("the end of the connection was reported after %v, want %v: %v", took, 2*delay, err)
		}
		start = time.Now()
		a.Notify(addrB, []byte("again"))
		next(t, b.frames[transport.System], "frame")
		// The handshake and the greetings take one round trip each; the frame then takes one more delay.
		if took := time.Since(start); took != 5*delay {
			t.Errorf("the next frame arrived after %v, want %v", took, 5*delay)
		}
	})
}

// TestQuietConnectionLasts checks that a connection survives a long time without traffic.
func TestQuietConnectionLasts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		time.Sleep(10 * time.Minute)
		if err := a.Send(t.Context(), addrB, []byte("still there")); err != nil {
			t.Errorf("Send: %v", err)
		}
		if got := a.Stats().Dials; got != 1 {
			t.Errorf("%d dials, want 1", got)
		}
	})
}

// TestSendErrorsAreSurvived makes the socket fail to send for a while, like a firewall or
// an interface that is down. QUIC then ends the connection immediately.
func TestSendErrorsAreSurvived(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		broken := &brokenSocket{}
		a := w.join(t, addrA, 1, func(c *Config) {
			broken.PacketConn, c.Conn = c.Conn, broken
		})
		b := w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		broken.failing.Store(true)
		start := time.Now()
		for time.Since(start) < 2*time.Second {
			a.Notify(addrB, []byte("lost"))
			time.Sleep(100 * time.Millisecond)
		}
		if got := a.Stats(); got.Connections != 0 || got.Dials > 40 {
			t.Errorf("after 2 s without the network: %d connections, %d dials; want 0, at most 40",
				got.Connections, got.Dials)
		}
		if err := a.nextReport(t, mesh.ReportUnreachable); !errors.Is(err, syscall.EPERM) {
			t.Errorf("got %v, want an error that wraps EPERM", err)
		}
		broken.failing.Store(false)
		a.Notify(addrB, []byte("back"))
		start = time.Now()
		for string(next(t, b.frames[transport.System], "frame")) != "back" {
		}
		if took := time.Since(start); took > 400*time.Millisecond {
			t.Errorf("connected %v after the network came back", took)
		}
	})
}

// TestLostByOneSide breaks the connection only at the end of the node with the greater address.
// That is the hardest case. The peer dialed the connection, still has it, and would keep it in a
// crossing. It sends nothing that could be answered with a reset.
func TestLostByOneSide(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		broken := &brokenSocket{}
		a := w.join(t, addrA, 1, nil)
		b := w.join(t, addrB, 1, func(c *Config) {
			broken.PacketConn, c.Conn = c.Conn, broken
		})
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		broken.failing.Store(true)
		b.Notify(addrA, []byte("lost"))
		time.Sleep(50 * time.Millisecond)
		broken.failing.Store(false)
		start := time.Now()
		b.Notify(addrA, []byte("again"))
		for string(next(t, a.frames[transport.System], "frame")) != "again" {
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("connected again after %v", took)
		}
	})
}

func TestNamesAreResolvedAtEachDial(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		name := member.Address{Host: "db-1.local", Port: 7000}
		var lookups atomic.Int32
		a := w.join(t, addrA, 1, func(c *Config) {
			c.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
				if host != name.Host {
					t.Errorf("resolved %q", host)
				}
				if lookups.Add(1) < 3 {
					// The resolver fails like this, with a different port each time.
					return nil, &net.DNSError{Err: "no such host", Server: "10.0.0.9:53", Name: host}
				}
				return []netip.Addr{
					netip.MustParseAddr("fd00::2"), // of a different family than the socket
					netip.MustParseAddr(addrB.Host),
				}, nil
			}
		})
		b := startWith(t, w.config(addrB), name, 1)
		a.Notify(name, []byte("hello"))
		err := a.nextReport(t, mesh.ReportUnreachable)
		want := "transport: unknown host (no such host)"
		if !errors.Is(err, transport.ErrUnknownHost) || err.Error() != want {
			t.Errorf("a name that is not known: got %v, want %s", err, want)
		}
		next(t, b.frames[transport.System], "frame")
		if got := lookups.Load(); got != 3 {
			t.Errorf("%d lookups, want 3", got)
		}
	})
}

// TestSilentNameIsReportedWithItsAddress checks that the report about a name that leads to a host
// that does not answer has the address, unless there are several.
func TestSilentNameIsReportedWithItsAddress(t *testing.T) {
	for _, several := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			ips := []netip.Addr{netip.MustParseAddr("10.0.0.99")}
			if several {
				ips = append(ips, netip.MustParseAddr("10.0.0.98"))
			}
			a := w.join(t, addrA, 1, func(c *Config) {
				c.Resolve = func(context.Context, string) ([]netip.Addr, error) { return ips, nil }
			})
			a.Notify(member.Address{Host: "db-1.local", Port: 7000}, []byte("hello"))
			err := a.nextReport(t, mesh.ReportUnreachable)
			at, ok := errors.AsType[*net.OpError](err)
			if !errors.Is(err, transport.ErrNoAnswer) || ok == several ||
				ok && at.Addr.String() != "10.0.0.99:7000" {
				t.Errorf("leads to %v: got %v", ips, err)
			}
		})
	}
}

// TestLastAddressOfNameIsDialed lets the links of two nodes end while their names are not resolved:
// the resolver refuses, or hangs. They are connected again before it answers.
func TestLastAddressOfNameIsDialed(t *testing.T) {
	for what, refuse := range map[string]bool{"refuses": true, "hangs": false} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { testLastAddress(t, w, refuse) })
		})
	}
}

func testLastAddress(t *testing.T, w *world, refuse bool) {
	hosts := map[string]member.Address{"db-1.local": addrA, "db-2.local": addrB}
	var silent atomic.Bool
	resolve := func(ctx context.Context, host string) ([]netip.Addr, error) {
		switch {
		case !silent.Load():
			return []netip.Addr{netip.MustParseAddr(hosts[host].Host)}, nil
		case !refuse:
			<-ctx.Done()
		}
		return nil, &net.DNSError{Err: "no answer of the servers", Name: host}
	}
	nameA := member.Address{Host: "db-1.local", Port: addrA.Port}
	nameB := member.Address{Host: "db-2.local", Port: addrB.Port}
	start := func(at, name member.Address) *node {
		cfg := w.config(at)
		cfg.Resolve = resolve
		return startWith(t, cfg, name, 1)
	}
	a, b := start(addrA, nameA), start(addrB, nameB)
	a.Notify(nameB, []byte("hello"))
	next(t, b.frames[transport.System], "frame")

	silent.Store(true)
	w.Cut(addrA, addrB)
	w.Cut(addrB, addrA)
	for begin := time.Now(); time.Since(begin) < 50*time.Second; time.Sleep(500 * time.Millisecond) {
		a.Notify(nameB, []byte("lost"))
		b.Notify(nameA, []byte("lost"))
	}
	w.Heal(addrA, addrB)
	w.Heal(addrB, addrA)
	healed := time.Now()
	for len(a.frames[transport.System]) == 0 || len(b.frames[transport.System]) == 0 {
		if time.Since(healed) > 2*time.Second {
			t.Fatal("not connected again within 2 s, want the last address to be dialed")
		}
		a.Notify(nameB, []byte("again"))
		b.Notify(nameA, []byte("again"))
		time.Sleep(100 * time.Millisecond)
	}
}

func TestSendable(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for local, want := range map[string]int{
		"127.0.0.1:1": 1, "0.0.0.0:1": 1, "[::1]:1": 1, "[::]:1": 2,
	} {
		addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(local))
		if got := len(sendableAddrs(addr, []netip.Addr{v4, v6})); got != want {
			t.Errorf("from %s: %d of an IPv4 and an IPv6 address can be reached, want %d", local, got, want)
		}
	}
}

// TestOtherFamilyIsUnreachable checks that a socket for IPv4 reports an IPv6 address immediately.
// Otherwise the packets would be lost and the dial time out.
func TestOtherFamilyIsUnreachable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, addrA, 1, func(*Config) {})
		begin := time.Now()
		a.Notify(member.Address{Host: "fd00::2", Port: 7000}, []byte("hello"))
		err := a.nextReport(t, mesh.ReportUnreachable)
		if !errors.Is(err, transport.ErrUnknownHost) || !strings.Contains(err.Error(), "listen on all") ||
			time.Since(begin) > 0 {
			t.Errorf("after %v: got %v, want an unknown host and advice", time.Since(begin), err)
		}
	})
}

// TestHandshakesAreBounded checks the gate, which it calls like quic.Transport does.
func TestHandshakesAreBounded(t *testing.T) {
	synctest.Test(t, testHandshakesAreBounded)
}

func testHandshakesAreBounded(t *testing.T) {
	g := newGate(3, 2, func(net.Addr, error) {})
	var contexts []context.Context
	var ends []context.CancelFunc
	enter := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		// Each handshake is from a different host.
		host := net.IPv4(10, 0, 0, byte(len(ends)))
		ctx, err := g.enter(ctx, &quic.ClientInfo{RemoteAddr: &net.UDPAddr{IP: host}})
		contexts, ends = append(contexts, ctx), append(ends, cancel)
		return err
	}
	for i := range 3 {
		if got, want := g.needsProof(nil), i >= 2; got != want {
			t.Errorf("with %d handshakes: needsProof %v, want %v", i, got, want)
		}
		if err := enter(); err != nil {
			t.Errorf("handshake %d: %v", i, err)
		}
	}
	if err := enter(); !errors.Is(err, errTooManyHandshakes) {
		t.Errorf("handshake 4 of 3: got %v, want errTooManyHandshakes", err)
	}
	endHandshake(contexts[0]) // handshake complete
	endHandshake(contexts[0])
	ends[0]() // connection closed later
	synctest.Wait()
	if err := enter(); err != nil {
		t.Errorf("after one is done: %v", err)
	}
	if err := enter(); !errors.Is(err, errTooManyHandshakes) {
		t.Errorf("one was removed twice: got %v, want errTooManyHandshakes", err)
	}
	for _, end := range ends {
		end() // handshake failed
	}
	synctest.Wait()
	if n := g.pending.Pending(); n != 0 {
		t.Errorf("%d handshakes are pending after all have ended", n)
	}
}

// TestOneHostLeavesRoomForOthers checks that a host with many addresses leaves room for
// other prefixes, and that a single address also leaves room for its neighbors.
func TestOneHostLeavesRoomForOthers(t *testing.T) {
	for _, c := range []struct {
		host  func(i int) string
		most  int // of 16
		other string
	}{
		{func(int) string { return "10.0.0.1" }, 8, "10.0.0.2"},
		{func(i int) string { return []string{"10.0.0.1", "::ffff:10.0.0.1"}[i%2] }, 8, "10.0.0.2"},
		{func(int) string { return "2001:db8::1" }, 8, "2001:db8::2"},
		{func(i int) string { return fmt.Sprintf("2001:db8::%x:1", i) }, 10, "2001:db8:0:1::1"},
		{func(i int) string { return fmt.Sprintf("fe80::%x%%eth%d", i, i) }, 10, "::1"},
	} {
		g := newGate(16, 16, func(net.Addr, error) {})
		enter := func(from string) error {
			at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 7000))
			_, err := g.enter(t.Context(), &quic.ClientInfo{RemoteAddr: at})
			return err
		}
		got := 0
		for got < 16 && enter(c.host(got)) == nil {
			got++
		}
		if got != c.most {
			t.Errorf("%s and so on: %d handshakes of 16 for one host, want %d", c.host(0), got, c.most)
		}
		if err := enter(c.other); err != nil {
			t.Errorf("%s and so on: handshake of %s: got %v, want nil", c.host(0), c.other, err)
		}
	}
}

// TestSpoofedAndOneHostLeaveRoom checks that an attacker with forged addresses and one host
// cannot keep members out.
func TestSpoofedAndOneHostLeaveRoom(t *testing.T) {
	const size = 3
	for name, own := range map[string]func(i byte) net.IP{
		"one address": func(byte) net.IP { return net.IPv4(10, 2, 0, 0) },
		"addresses of IPv6": func(i byte) net.IP {
			return net.IP{0: 0x20, 1: 0x01, 15: i}
		},
	} {
		g := newGate(handshakes.Limit(size), unprovenPerMember*size+extraUnproven,
			func(net.Addr, error) {})
		enter := func(from net.IP) error {
			_, err := g.enter(t.Context(), &quic.ClientInfo{RemoteAddr: &net.UDPAddr{IP: from}})
			return err
		}
		for i := byte(0); !g.needsProof(nil); i++ {
			if err := enter(net.IPv4(10, 1, 0, i)); err != nil {
				t.Fatalf("%s: handshake %d: %v", name, i, err)
			}
		}
		for i := byte(0); enter(own(i)) == nil; i++ {
		}
		for i := range byte(size) {
			if err := enter(net.IPv4(10, 3, 0, i)); err != nil {
				t.Errorf("%s: member %d is refused: %v", name, i, err)
			}
		}
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	cfg := transport.Config{Size: 1}
	socket := func() net.PacketConn {
		s, err := Listen("127.0.0.1:0")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		return s
	}
	for name, c := range map[string]Config{
		"Conn": {Config: cfg, TLS: secured(t)},
		"TLS":  {Config: cfg, Conn: socket()},
		"Size": {Conn: socket(), TLS: secured(t)},
	} {
		if m, err := New(c); err == nil {
			t.Errorf("New without %s: got %v, want an error", name, m)
		}
	}
}
