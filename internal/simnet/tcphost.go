// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/transport"
)

// TCPHost simulates TCP on a socket of a PacketNet, for package tlsnet in a testing/synctest
// bubble. Its segments are packets. The network may lose, delay, duplicate and reorder them. Lost
// segments are retransmitted after the timeouts of Linux. A TCPHost is a net.Listener.
type TCPHost struct {
	packets net.PacketConn
	waiting chan *tcpConn // established, not yet accepted
	closed  chan struct{} // closed when the host no longer listens
	work    sync.WaitGroup

	mu    sync.Mutex
	deaf  bool // closed is closed
	conns map[tcpKey]*tcpConn
}

// tcpKey identifies a connection at one of its ends. The id stands for the dialer's port.
type tcpKey struct {
	peer   netip.AddrPort
	id     uint64
	dialed bool
}

// maxTCPWaiting bounds the connections that wait to be accepted.
const maxTCPWaiting = 128

// NewTCPHost returns a host that listens on a socket.
func NewTCPHost(packets net.PacketConn) *TCPHost {
	h := &TCPHost{
		packets: packets,
		waiting: make(chan *tcpConn, maxTCPWaiting),
		closed:  make(chan struct{}),
		conns:   make(map[tcpKey]*tcpConn),
	}
	h.work.Go(h.receive)
	return h
}

// Accept implements net.Listener.
func (h *TCPHost) Accept() (net.Conn, error) {
	select {
	case c := <-h.waiting:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (h *TCPHost) Addr() net.Addr { return toTCP(h.packets.LocalAddr()) }

// Close implements net.Listener. The host keeps its connections and refuses new connections.
func (h *TCPHost) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.deaf {
		h.deaf = true
		close(h.closed)
	}
	return nil
}

// Shutdown closes the socket. It ends all connections without notifying the peers.
func (h *TCPHost) Shutdown() error {
	err := h.packets.Close()
	h.work.Wait()
	return err
}

// Host returns a network that behaves like n and also shuts the host down when it is closed.
func (h *TCPHost) Host(n transport.Network) transport.Network { return hosted{n, h} }

type hosted struct {
	transport.Network
	host *TCPHost
}

// Close implements transport.Network.
func (h hosted) Close() error { return errors.Join(h.Network.Close(), h.host.Shutdown()) }

// Dial connects to a host.
func (h *TCPHost) Dial(ctx context.Context, addr string) (net.Conn, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	c := h.newConn(tcpKey{keyOf(to), rand.Uint64(), true}, to)
	c.send(segment{flags: flagSyn})
	c.armTimer()
	h.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !c.established {
			c.fail(context.Cause(ctx))
		}
	})()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !c.established && c.err == nil {
		c.changed.Wait()
	}
	if c.err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: toTCP(to), Err: c.err}
	}
	return c, nil
}

// receive handles segments until the socket is closed.
func (h *TCPHost) receive() {
	buf := make([]byte, 1<<11)
	for {
		n, from, err := h.packets.ReadFrom(buf)
		h.mu.Lock()
		if err != nil {
			for _, c := range h.conns {
				c.fail(syscall.ENETDOWN)
			}
			h.mu.Unlock()
			_ = h.Close() // always returns nil
			return
		}
		if s, ok := parseSegment(buf[:n]); ok {
			h.handle(from, s)
		}
		h.mu.Unlock()
	}
}

// handle passes a segment to its connection. h.mu must be held.
func (h *TCPHost) handle(from net.Addr, s segment) {
	key := tcpKey{keyOf(from), s.id, s.flags&flagDialer == 0}
	c := h.conns[key]
	switch {
	case c == nil && s.flags&flagReset != 0:
	case c == nil && s.flags&flagSyn != 0 && !key.dialed && !h.deaf:
		c = h.newConn(key, from)
		c.send(segment{flags: flagSyn})
		c.armTimer()
	case c == nil:
		h.reset(key, from)
	case s.flags&flagReset != 0 && !c.established && key.dialed:
		c.fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case s.flags&flagReset != 0:
		c.fail(os.NewSyscallError("read", syscall.ECONNRESET))
	case s.flags&flagSyn != 0 && !key.dialed:
		c.send(segment{flags: flagSyn}) // the first answer was lost
	case !c.established && !h.establish(c):
	default:
		c.take(s)
	}
}

// establish is called when the other end of a connection has answered. It returns false if too many
// connections wait to be accepted. h.mu must be held.
func (h *TCPHost) establish(c *tcpConn) bool {
	if !c.key.dialed {
		select {
		case h.waiting <- c:
		default:
			c.fail(syscall.ECONNABORTED)
			return false
		}
	}
	c.established, c.retries, c.due = true, 0, time.Time{}
	c.changed.Broadcast()
	return true
}

// reset sends a reset, for example in answer to a segment of an unknown connection.
func (h *TCPHost) reset(key tcpKey, to net.Addr) {
	s := segment{flags: flagReset, id: key.id}
	if key.dialed {
		s.flags |= flagDialer
	}
	_, _ = h.packets.WriteTo(s.encode(), to) // the segment may be lost
}

func toTCP(a net.Addr) net.Addr { return net.TCPAddrFromAddrPort(keyOf(a)) }

// The flags of a segment.
const (
	flagSyn    byte = 1 << iota // opens a connection, or confirms that it is open
	flagFin                     // no more data follows
	flagReset                   // there is no such connection
	flagDialer                  // sent by the end that dialed
)

// segment is a TCP segment in a packet.
type segment struct {
	flags    byte
	id       uint64
	seq, ack uint64
	latest   uint64 // highest number received, in order or not
	window   uint32
	data     []byte
}

const (
	segmentHeader = 37
	// maxSegmentData limits packets to 1,200 bytes, the size that every path for QUIC supports.
	maxSegmentData = 1200 - segmentHeader
)

func (s segment) encode() []byte {
	b := append(make([]byte, 0, segmentHeader+len(s.data)), s.flags)
	b = binary.BigEndian.AppendUint64(b, s.id)
	b = binary.BigEndian.AppendUint64(b, s.seq)
	b = binary.BigEndian.AppendUint64(b, s.ack)
	b = binary.BigEndian.AppendUint64(b, s.latest)
	b = binary.BigEndian.AppendUint32(b, s.window)
	return append(b, s.data...)
}

func parseSegment(b []byte) (s segment, ok bool) {
	if len(b) < segmentHeader {
		return s, false
	}
	return segment{
		flags: b[0],
		id:    binary.BigEndian.Uint64(b[1:]),
		seq:   binary.BigEndian.Uint64(b[9:]), ack: binary.BigEndian.Uint64(b[17:]),
		latest: binary.BigEndian.Uint64(b[25:]),
		window: binary.BigEndian.Uint32(b[33:]),
		data:   append([]byte(nil), b[segmentHeader:]...),
	}, true
}
