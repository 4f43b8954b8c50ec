// SPDX-License-Identifier: Apache-2.0

package supervised

import (
	"net"
	"slices"
	"sync"
)

// packetFilter silently drops the packets to and from blocked peers, as a broken network would.
type packetFilter struct {
	mu      sync.Mutex
	blocked []string // host:port of peers
}

// setBlocked replaces the list of blocked peers.
func (f *packetFilter) setBlocked(peers []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocked = peers
}

func (f *packetFilter) isBlocked(peer net.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.blocked) > 0 && slices.Contains(f.blocked, peer.String())
}

// wrap returns the socket with the filter applied.
func (f *packetFilter) wrap(socket *net.UDPConn) net.PacketConn {
	return &filteredConn{socket, socket, f}
}

// filteredConn hides those methods of the socket that would bypass the filter.
type filteredConn struct {
	net.PacketConn
	socket *net.UDPConn
	filter *packetFilter
}

// SetReadBuffer is called by quic-go, through an interface.
func (c *filteredConn) SetReadBuffer(bytes int) error { return c.socket.SetReadBuffer(bytes) }

// SetWriteBuffer is called by quic-go, through an interface.
func (c *filteredConn) SetWriteBuffer(bytes int) error { return c.socket.SetWriteBuffer(bytes) }

// ReadFrom implements net.PacketConn.
func (c *filteredConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(p)
		if err != nil || !c.filter.isBlocked(from) {
			return n, from, err
		}
	}
}

// WriteTo implements net.PacketConn.
func (c *filteredConn) WriteTo(p []byte, to net.Addr) (int, error) {
	if c.filter.isBlocked(to) {
		return len(p), nil
	}
	return c.PacketConn.WriteTo(p, to)
}
