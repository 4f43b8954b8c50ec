// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"net"
	"sync"
)

// cutter opens a socket that drops what goes to some addresses and what comes from
// them.
type cutter struct {
	mu  sync.Mutex
	off map[string]bool
}

func (c *cutter) openSocket(addr string) (net.PacketConn, error) {
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	return &cutConn{conn, c}, nil
}

// setCut cuts these addresses off, and no others.
func (c *cutter) setCut(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = map[string]bool{}
	for _, a := range addresses {
		c.off[a] = true
	}
}

func (c *cutter) isOff(a net.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.off) > 0 && c.off[a.String()]
}

type cutConn struct {
	net.PacketConn
	cut *cutter
}

// ReadFrom implements net.PacketConn.
func (c *cutConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(b)
		if err != nil || !c.cut.isOff(from) {
			return n, from, err
		}
	}
}

// WriteTo implements net.PacketConn.
func (c *cutConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.cut.isOff(to) {
		return len(b), nil
	}
	return c.PacketConn.WriteTo(b, to)
}
