// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

// PacketNet is a simulated network of packets, for QUIC in a testing/synctest bubble. It
// loses packets only after Cut or SetPath. Hosts are IPv4 addresses.
type PacketNet struct {
	delay time.Duration

	mu    sync.Mutex // guards everything below, and the fields of hosts and sockets
	rand  *rand.Rand
	cut   map[way]bool
	paths map[way]Path
	hosts map[netip.AddrPort]*packetHost
}

// way is a direction from one address to another.
type way struct{ from, to netip.AddrPort }

// packetHost is an address.
type packetHost struct {
	coming  []packet  // on the way to it, in the order of their arrival
	sockets []*socket // that are open; the last socket gets the packets
}

// packet is a packet on its way.
type packet struct {
	at   time.Time // when it arrives
	from *net.UDPAddr
	data []byte
}

// maxPacket is the size of the largest packet that passes.
const maxPacket = 1400

// Path describes the faults on the way from one address to another. The zero Path has no faults.
type Path struct {
	// Delay is an additional delay of each packet. Jitter bounds a further, random delay, so packets
	// can overtake each other.
	Delay, Jitter time.Duration
	// Loss and Twice are the fractions of packets, from 0 to 1, that are lost or arrive
	// twice.
	Loss, Twice float64
	// LimitBytes is the largest packet that passes; 0 means no limit.
	LimitBytes int
}

// NewPacketNet returns a network that delays every packet.
func NewPacketNet(delay time.Duration) *PacketNet {
	return &PacketNet{
		delay: delay,
		rand:  rand.New(rand.NewPCG(1, 2)),
		cut:   make(map[way]bool),
		paths: make(map[way]Path),
		hosts: make(map[netip.AddrPort]*packetHost),
	}
}

// Open opens a socket at host:port. If several sockets are open there, the last socket gets all
// packets, as when another machine takes over an address.
func (p *PacketNet) Open(addr string) (net.PacketConn, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("transporttest: open a socket: %w", err)
	}
	at.IP = at.IP.To4()
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hostLocked(at.AddrPort())
	// A packet that arrived before belongs to an earlier socket.
	h.coming = slices.DeleteFunc(h.coming, func(c packet) bool { return !c.at.After(time.Now()) })
	s := &socket{net: p, host: h, at: at, wake: time.NewTimer(0)}
	h.sockets = append(h.sockets, s)
	s.armLocked()
	return s, nil
}

// hostLocked returns the host at an address. p.mu must be held.
func (p *PacketNet) hostLocked(at netip.AddrPort) *packetHost {
	h := p.hosts[at]
	if h == nil {
		h = &packetHost{}
		p.hosts[at] = h
	}
	return h
}

// keyOf returns the form of an address in which addresses can be compared.
func keyOf(a net.Addr) netip.AddrPort {
	at := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// wayOf returns the direction from one address to another.
func wayOf(from, to member.Address) way {
	return way{netip.MustParseAddrPort(from.String()), netip.MustParseAddrPort(to.String())}
}

// Cut drops all packets from one address to another, without an error.
func (p *PacketNet) Cut(from, to member.Address) { p.setCut(from, to, true) }

// Heal undoes a Cut.
func (p *PacketNet) Heal(from, to member.Address) { p.setCut(from, to, false) }

func (p *PacketNet) setCut(from, to member.Address, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[wayOf(from, to)] = cut
}

// SetPath sets the faults of the packets from one address to another.
func (p *PacketNet) SetPath(from, to member.Address, path Path) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths[wayOf(from, to)] = path
}

// Kill closes the socket at an address as if its process had been killed: it sends nothing more.
func (p *PacketNet) Kill(at member.Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.hostLocked(netip.MustParseAddrPort(at.String())).newestSocket(); s != nil {
		s.closeLocked()
	}
}

// newestSocket returns the socket that gets the packets, or nil if none is open.
func (h *packetHost) newestSocket() *socket {
	if len(h.sockets) == 0 {
		return nil
	}
	return h.sockets[len(h.sockets)-1]
}

// sendLocked sends a packet. p.mu must be held.
func (p *PacketNet) sendLocked(from *net.UDPAddr, to netip.AddrPort, data []byte) {
	h := p.hostLocked(to)
	for _, delay := range p.drawLocked(way{from.AddrPort(), to}, len(data)) {
		c := packet{time.Now().Add(delay), from, slices.Clone(data)}
		i := len(h.coming)
		for i > 0 && h.coming[i-1].at.After(c.at) {
			i--
		}
		h.coming = slices.Insert(h.coming, i, c)
		if s := h.newestSocket(); s != nil && i == 0 {
			s.armLocked()
		}
	}
}

// drawLocked returns the delay of each copy of a packet. p.mu must be held.
func (p *PacketNet) drawLocked(w way, size int) []time.Duration {
	path := p.paths[w]
	if p.cut[w] || size > maxPacket || path.LimitBytes > 0 && size > path.LimitBytes ||
		path.Loss > 0 && p.rand.Float64() < path.Loss {
		return nil
	}
	copies := []time.Duration{p.delay + path.Delay}
	if path.Twice > 0 && p.rand.Float64() < path.Twice {
		copies = append(copies, copies[0])
	}
	for i := range copies {
		if path.Jitter > 0 {
			copies[i] += time.Duration(p.rand.Int64N(int64(path.Jitter)))
		}
	}
	return copies
}

// Socket can be embedded in a socket that injects faults. Its methods prevent a warning of quic-go
// about the size of the buffers.
type Socket struct{ net.PacketConn }

// SetReadBuffer does nothing.
func (Socket) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing.
func (Socket) SetWriteBuffer(int) error { return nil }

// socket is an open socket. One goroutine at a time may read from it.
type socket struct {
	net  *PacketNet
	host *packetHost
	at   *net.UDPAddr
	wake *time.Timer // when the reader must look again

	closed   bool
	deadline time.Time // of ReadFrom
}

// armLocked wakes the reader when it has something to return. s.net.mu must be held.
func (s *socket) armLocked() {
	next := s.deadline
	if s.closed {
		next = time.Now()
	} else if c := s.host.coming; len(c) > 0 && s.host.newestSocket() == s &&
		(next.IsZero() || c[0].at.Before(next)) {
		next = c[0].at
	}
	if next.IsZero() {
		s.wake.Stop()
		return
	}
	s.wake.Reset(time.Until(next))
}

// ReadFrom implements net.PacketConn.
func (s *socket) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	for {
		if c, ok, err := s.takePacket(); err != nil {
			return 0, nil, err
		} else if ok {
			return copy(b, c.data), c.from, nil
		}
		<-s.wake.C
	}
}

// takePacket removes the next packet if it has arrived.
func (s *socket) takePacket() (c packet, ok bool, err error) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	h := s.host
	switch now := time.Now(); {
	case s.closed:
		return c, false, net.ErrClosed
	case !s.deadline.IsZero() && !now.Before(s.deadline):
		return c, false, os.ErrDeadlineExceeded
	case len(h.coming) > 0 && h.newestSocket() == s && !h.coming[0].at.After(now):
		c, h.coming[0] = h.coming[0], packet{}
		h.coming = h.coming[1:]
		return c, true, nil
	}
	s.armLocked()
	return c, false, nil
}

// WriteTo implements net.PacketConn. It returns no error for a lost packet.
func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	s.net.sendLocked(s.at, keyOf(to), b)
	return len(b), nil
}

// Close implements net.PacketConn.
func (s *socket) Close() error {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	s.closeLocked()
	return nil
}

// closeLocked is Close if s.net.mu is held.
func (s *socket) closeLocked() {
	h := s.host
	s.closed = true
	s.armLocked()
	h.sockets = slices.DeleteFunc(h.sockets, func(o *socket) bool { return o == s })
	if older := h.newestSocket(); older != nil {
		older.armLocked()
	}
}

// LocalAddr implements net.PacketConn.
func (s *socket) LocalAddr() net.Addr { return s.at }

// SetReadDeadline implements net.PacketConn.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	s.deadline = t
	s.armLocked()
	return nil
}

// SetDeadline implements net.PacketConn. A write never blocks.
func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// SetWriteDeadline implements net.PacketConn.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
