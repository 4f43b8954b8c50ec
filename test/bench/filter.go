// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"net"
	"sync"
)

// packetFilter opens a socket that drops packets to and from some addresses.
type packetFilter struct {
	mu      sync.Mutex
	dropped map[string]bool
}

func (c *packetFilter) openSocket(addr string) (net.PacketConn, error) {
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	return &filteredConn{conn, c}, nil
}

// dropFor drops packets to and from the given addresses only.
func (c *packetFilter) dropFor(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = map[string]bool{}
	for _, a := range addresses {
		c.dropped[a] = true
	}
}

func (c *packetFilter) isDropped(a net.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.dropped) > 0 && c.dropped[a.String()]
}

type filteredConn struct {
	net.PacketConn
	filter *packetFilter
}

// ReadFrom implements net.PacketConn.
func (c *filteredConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(b)
		if err != nil || !c.filter.isDropped(from) {
			return n, from, err
		}
	}
}

// WriteTo implements net.PacketConn.
func (c *filteredConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.filter.isDropped(to) {
		return len(b), nil
	}
	return c.PacketConn.WriteTo(b, to)
}
