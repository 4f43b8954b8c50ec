// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"
	"net/netip"
	"sync"
)

// Limits of connections.
const (
	// MaxConnections bounds the connections of a server. Each is an open file, and
	// a node whose process has no more of them can save nothing, and ends.
	MaxConnections = 256
	// maxHostConnections bounds those of one other machine: who needs no token to hold
	// all of them would keep probes of health away, and let supervisors end the node.
	maxHostConnections = MaxConnections / 4
)

// limited is a listener that hangs up on who comes when too many are open. It does not
// let them wait: they would be open files all the same.
type limited struct {
	net.Listener

	mu    sync.Mutex
	open  int
	hosts map[netip.Prefix]int // of those that are open; none of this machine
}

func newLimited(l net.Listener) *limited {
	return &limited{Listener: l, hosts: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(c.RemoteAddr())
		if l.enter(host) {
			return &counted{Conn: c, closed: sync.OnceFunc(func() { l.leave(host) })}, nil
		}
		c.Close()
	}
}

// enter counts one connection more, unless there are too many.
func (l *limited) enter(host netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= MaxConnections || l.hosts[host] >= maxHostConnections {
		return false
	}
	l.open++
	if host.IsValid() {
		l.hosts[host]++
	}
	return true
}

func (l *limited) leave(host netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.hosts[host]--; l.hosts[host] <= 0 {
		delete(l.hosts, host)
	}
}

// hostOf is the machine that an address is of, zero for this one. To one machine belong
// as many addresses of IPv6 as it likes, of one prefix.
func hostOf(a net.Addr) netip.Prefix {
	at, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := at.AddrPort().Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		return netip.Prefix{}
	}
	host, err := ip.Prefix(min(ip.BitLen(), 64))
	if err != nil {
		return netip.Prefix{}
	}
	return host
}

// counted is a connection that says once that it is closed.
type counted struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}
