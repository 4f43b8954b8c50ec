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
	// maxHostConnections bounds those of one other address, and maxPrefixConnections those
	// of one prefix of IPv6, which a machine has as many addresses of as it likes: who
	// needs no token to hold all of them would keep probes of health away, and let
	// supervisors end the node.
	maxHostConnections   = MaxConnections / 4
	maxPrefixConnections = MaxConnections / 2
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
		giveUp(c)
		hosts := hostsOf(c.RemoteAddr())
		if l.enter(hosts) {
			return &counted{Conn: c, closed: sync.OnceFunc(func() { l.leave(hosts) })}, nil
		}
		c.Close()
	}
}

// enter counts one connection more, unless there are too many.
func (l *limited) enter(hosts []netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.open >= MaxConnections
	for _, h := range hosts {
		most := maxHostConnections
		if !h.IsSingleIP() {
			most = maxPrefixConnections
		}
		full = full || l.hosts[h] >= most
	}
	if full {
		return false
	}
	l.open++
	for _, h := range hosts {
		l.hosts[h]++
	}
	return true
}

func (l *limited) leave(hosts []netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	for _, h := range hosts {
		if l.hosts[h]--; l.hosts[h] == 0 {
			delete(l.hosts, h)
		}
	}
}

// hostsOf is what counts as the machine of an address: it, and of IPv6 its prefix;
// nothing for this machine.
func hostsOf(a net.Addr) []netip.Prefix {
	at, ok := a.(*net.TCPAddr)
	if !ok {
		return nil
	}
	ip := at.AddrPort().Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		return nil
	}
	hosts := []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
	if ip.Is6() {
		hosts = append(hosts, netip.PrefixFrom(ip, 64).Masked())
	}
	return hosts
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
