// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/athena-go/athena/member"
)

// PacketNet is a simulated network of packets, for QUIC in a testing/synctest
// bubble: nothing is lost but what a cut takes. Hosts are IPv4 addresses.
type PacketNet struct {
	router simnet.PerfectRouter
	delay  time.Duration

	mu      sync.Mutex
	cut     map[[2]string]bool // from, to
	sockets map[string]*socket // the last one opened at an address
}

// NewPacketNet makes a network on which every packet takes delay.
func NewPacketNet(delay time.Duration) *PacketNet {
	return &PacketNet{
		delay:   delay,
		cut:     make(map[[2]string]bool),
		sockets: make(map[string]*socket),
	}
}

// Open opens a socket at host:port. Once it is closed, another one may be
// opened there.
func (p *PacketNet) Open(addr string) (net.PacketConn, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("transporttest: open a socket: %w", err)
	}
	at.IP = at.IP.To4()
	link := &simnet.SimulatedLink{Latency: p.delay, UploadPacket: p}
	s := &socket{SimConn: simnet.NewBlockingSimConn(at, link), link: link}
	link.Start() // before it is known: packets may come at once
	p.AddNode(at, link)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sockets[at.String()] = s
	return s, nil
}

// Cut takes all packets that one address sends to another, without a word.
func (p *PacketNet) Cut(from, to member.Address) { p.setCut(from, to, true) }

// Heal undoes a Cut.
func (p *PacketNet) Heal(from, to member.Address) { p.setCut(from, to, false) }

func (p *PacketNet) setCut(from, to member.Address, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[[2]string{from.String(), to.String()}] = cut
}

// Kill closes the socket at an address under its user, as the end of a process
// does: nothing more is sent from there, not even a goodbye.
func (p *PacketNet) Kill(at member.Address) {
	p.mu.Lock()
	s := p.sockets[at.String()]
	p.mu.Unlock()
	if s != nil {
		_ = s.Close() // it always returns nil
	}
}

// SendPacket implements simnet.Router.
func (p *PacketNet) SendPacket(packet simnet.Packet) error {
	p.mu.Lock()
	cut := p.cut[[2]string{packet.From.String(), packet.To.String()}]
	p.mu.Unlock()
	if !cut {
		_ = p.router.SendPacket(packet) // nobody learns that there is no such node
	}
	return nil
}

// AddNode implements simnet.Router.
func (p *PacketNet) AddNode(addr net.Addr, r simnet.PacketReceiver) { p.router.AddNode(addr, r) }

// socket is one end; its link has goroutines that end with it.
type socket struct {
	*simnet.SimConn
	link *simnet.SimulatedLink
	once sync.Once
}

// Close implements net.PacketConn.
func (s *socket) Close() (err error) {
	s.once.Do(func() { err = errors.Join(s.SimConn.Close(), s.link.Close()) })
	return err
}
