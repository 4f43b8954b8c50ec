// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// network connects nodes within one bubble, with packets and streams.
type network struct {
	delay time.Duration // maximum delay of a packet
	mu    sync.Mutex
	ends  map[netip.AddrPort]*end
	cuts  func(from, to *end) bool // nil cuts nothing
}

// end is the connection of one node to the network. It is the memberlist.Transport of the node.
type end struct {
	net     *network
	index   int
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	down    chan struct{}
	once    sync.Once
}

var _ memberlist.NodeAwareTransport = (*end)(nil)

var errRefused = errors.New("refused")

// connect connects node i, or reconnects it after a restart.
func (n *network) connect(i int, addr netip.AddrPort) *end {
	e := &end{
		net: n, index: i, addr: addr, down: make(chan struct{}),
		packets: make(chan *memberlist.Packet, 4096), streams: make(chan net.Conn),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[addr] = e
	return e
}

// cut replaces the set of links that are cut.
func (n *network) cut(cuts func(from, to *end) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts = cuts
}

// route returns the node at an address, or nil, and whether each direction is cut.
func (e *end) route(addr string) (to *end, there, back bool) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, false, false
	}
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	to, cuts := e.net.ends[at], e.net.cuts
	if to == nil || cuts == nil {
		return to, false, false
	}
	return to, cuts(e, to), cuts(to, e)
}

func (e *end) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	now := time.Now()
	if to, cut, _ := e.route(a.Addr); to != nil && !cut {
		p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(e.addr)}
		time.AfterFunc(rand.N(e.net.delay), func() {
			p.Timestamp = time.Now()
			select {
			case to.packets <- p:
			default: // dropped, as if a socket buffer were full
			}
		})
	}
	return now, nil
}

func (e *end) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to, there, back := e.route(a.Addr)
	if to == nil {
		return nil, errRefused
	}
	wait := time.NewTimer(timeout)
	defer wait.Stop()
	streams := to.streams
	if there || back {
		streams = nil // no answer
	}
	near, far := net.Pipe()
	select {
	case streams <- far:
		return near, nil
	case <-to.down:
	case <-wait.C: // closing the transport of the node does not cancel a dial
	}
	return nil, errRefused
}

func (e *end) WriteTo(b []byte, addr string) (time.Time, error) {
	return e.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (e *end) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return e.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (e *end) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return e.addr.Addr().AsSlice(), int(e.addr.Port()), nil
}

func (e *end) PacketCh() <-chan *memberlist.Packet { return e.packets }
func (e *end) StreamCh() <-chan net.Conn           { return e.streams }
func (e *end) IngestStream(net.Conn) error         { return errRefused }

func (e *end) IngestPacket(net.Conn, net.Addr, time.Time, bool) error { return errRefused }

func (e *end) Shutdown() error {
	e.once.Do(func() {
		close(e.down)
		e.net.mu.Lock()
		defer e.net.mu.Unlock()
		if e.net.ends[e.addr] == e {
			delete(e.net.ends, e.addr)
		}
	})
	return nil
}
