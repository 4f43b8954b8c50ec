// SPDX-License-Identifier: Apache-2.0

package supervised

import (
	"net"
	"slices"
	"sync"
)

// cutter loses packets, as a network does that is cut: nobody is told.
type cutter struct {
	mu  sync.Mutex
	cut []string // host:port of peers
}

// set replaces the peers to and from which every packet is lost.
func (c *cutter) set(peers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = peers
}

func (c *cutter) loses(peer net.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.cut) > 0 && slices.Contains(c.cut, peer.String())
}

// through returns the socket behind the cutter.
func (c *cutter) through(socket *net.UDPConn) net.PacketConn { return &cutConn{socket, socket, c} }

// cutConn shows of the socket only what cannot go past the cutter.
type cutConn struct {
	net.PacketConn
	socket *net.UDPConn
	cutter *cutter
}

// SetReadBuffer is what QUIC looks for to have room for bursts.
func (c *cutConn) SetReadBuffer(bytes int) error { return c.socket.SetReadBuffer(bytes) }

// SetWriteBuffer is its counterpart.
func (c *cutConn) SetWriteBuffer(bytes int) error { return c.socket.SetWriteBuffer(bytes) }

// ReadFrom implements net.PacketConn.
func (c *cutConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(p)
		if err != nil || !c.cutter.loses(from) {
			return n, from, err
		}
	}
}

// WriteTo implements net.PacketConn.
func (c *cutConn) WriteTo(p []byte, to net.Addr) (int, error) {
	if c.cutter.loses(to) {
		return len(p), nil
	}
	return c.PacketConn.WriteTo(p, to)
}
