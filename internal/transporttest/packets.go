// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/athena-go/athena/member"
)

// PacketNet is a simulated network of packets, for QUIC in a testing/synctest bubble. It
// loses packets only after Cut or SetPath. Hosts are IPv4 addresses.
type PacketNet struct {
	delay time.Duration

	mu      sync.Mutex
	rand    *rand.Rand
	cut     map[way]bool
	paths   map[way]Path
	sockets map[string][]*socket // open sockets of an address; the last socket gets the packets
}

// way is a direction from one address to another.
type way struct{ from, to string }

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
		delay:   delay,
		rand:    rand.New(rand.NewPCG(1, 2)),
		cut:     make(map[way]bool),
		paths:   make(map[way]Path),
		sockets: make(map[string][]*socket),
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
	link := &simnet.SimulatedLink{Latency: p.delay, UploadPacket: p}
	s := &socket{SimConn: simnet.NewBlockingSimConn(at, link), link: link, net: p}
	link.Start() // start before the socket is registered: packets may arrive immediately afterwards
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sockets[at.String()] = append(p.sockets[at.String()], s)
	return s, nil
}

// Cut drops all packets from one address to another, without an error.
func (p *PacketNet) Cut(from, to member.Address) { p.setCut(from, to, true) }

// Heal undoes a Cut.
func (p *PacketNet) Heal(from, to member.Address) { p.setCut(from, to, false) }

func (p *PacketNet) setCut(from, to member.Address, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[way{from.String(), to.String()}] = cut
}

// SetPath sets the faults of the packets from one address to another.
func (p *PacketNet) SetPath(from, to member.Address, path Path) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths[way{from.String(), to.String()}] = path
}

// Kill closes the socket at an address as if its process had been killed: it sends nothing more.
func (p *PacketNet) Kill(at member.Address) {
	if s := p.socketAt(at.String()); s != nil {
		_ = s.Close() // always returns nil
	}
}

func (p *PacketNet) socketAt(at string) *socket {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open := p.sockets[at]; len(open) > 0 {
		return open[len(open)-1]
	}
	return nil
}

// SendPacket implements simnet.Router. It returns no error for a lost packet.
func (p *PacketNet) SendPacket(packet simnet.Packet) error {
	deliver := func() {
		if s := p.socketAt(packet.To.String()); s != nil {
			s.link.RecvPacket(packet)
		}
	}
	for _, later := range p.draw(packet) {
		if later == 0 {
			deliver()
			continue
		}
		time.AfterFunc(later, deliver)
	}
	return nil
}

// draw returns the additional delay of each copy of a packet.
func (p *PacketNet) draw(packet simnet.Packet) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := way{packet.From.String(), packet.To.String()}
	path := p.paths[w]
	if p.cut[w] || path.LimitBytes > 0 && len(packet.Data) > path.LimitBytes ||
		path.Loss > 0 && p.rand.Float64() < path.Loss {
		return nil
	}
	copies := []time.Duration{path.Delay}
	if path.Twice > 0 && p.rand.Float64() < path.Twice {
		copies = append(copies, path.Delay)
	}
	for i := range copies {
		if path.Jitter > 0 {
			copies[i] += time.Duration(p.rand.Int64N(int64(path.Jitter)))
		}
	}
	return copies
}

// AddNode implements simnet.Router. AddNode does nothing, because Open adds the nodes.
func (p *PacketNet) AddNode(net.Addr, simnet.PacketReceiver) {}

// Socket can be embedded in a socket that injects faults. Its methods prevent a warning of quic-go
// about the size of the buffers.
type Socket struct{ net.PacketConn }

// SetReadBuffer does nothing.
func (Socket) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing.
func (Socket) SetWriteBuffer(int) error { return nil }

// socket is one end of a link. Closing it stops the goroutines of the link.
type socket struct {
	*simnet.SimConn
	link *simnet.SimulatedLink
	net  *PacketNet
	once sync.Once
}

func (s *socket) Close() (err error) {
	s.once.Do(func() {
		s.net.forget(s)
		err = errors.Join(s.SimConn.Close(), s.link.Close())
	})
	return err
}

func (p *PacketNet) forget(s *socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := s.LocalAddr().String()
	p.sockets[at] = slices.DeleteFunc(p.sockets[at], func(o *socket) bool { return o == s })
}
