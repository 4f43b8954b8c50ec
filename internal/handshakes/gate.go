// SPDX-License-Identifier: Apache-2.0

// Package handshakes bounds the pending handshakes that other hosts have started with a listening
// node.
package handshakes

import (
	"net"
	"net/netip"
	"sync"
)

// A node bounds the pending handshakes that others have started. The limit is perMember*Size +
// extra in total. Of what other hosts leave, one address may take half, and one IPv6 prefix five
// eighths. So an attacker with a few hosts always leaves room for the members.
const perMember, extra = 4, 32

// Gate bounds the pending handshakes that others have started, in total and per host, so that one
// that never completes any leaves room for the others. Each address counts as a host, and each IPv6
// prefix, because a host can use any number of addresses in it. The limit of a prefix is higher, to
// leave room for the neighbors of such a host.
type Gate struct {
	limit int

	mu      sync.Mutex
	pending int
	hosts   map[netip.Prefix]int
}

// Limit returns the limit of a node in a cluster of the given size.
func Limit(size int) int { return perMember*size + extra }

// NewGate returns a Gate with a limit.
func NewGate(limit int) *Gate {
	return &Gate{limit: limit, hosts: make(map[netip.Prefix]int)}
}

// Pending returns the number of handshakes in progress.
func (g *Gate) Pending() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pending
}

// Enter counts a handshake until the function leave is called. The caller must call it once. Enter
// returns false if a limit is reached.
func (g *Gate) Enter(from net.Addr) (leave func(), ok bool) {
	hosts := hostsOf(from)
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.pending >= g.limit
	for _, h := range hosts {
		limit := (g.limit - g.pending + g.hosts[h]) / 2 // of what other hosts leave
		if !h.IsSingleIP() {
			limit = limit * 5 / 4
		}
		full = full || g.hosts[h] >= max(limit, 1)
	}
	if full {
		return nil, false
	}
	g.addPending(hosts, 1)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.addPending(hosts, -1)
	}, true
}

// addPending changes the counts. g.mu must be held.
func (g *Gate) addPending(hosts []netip.Prefix, n int) {
	g.pending += n
	for _, h := range hosts {
		if g.hosts[h] += n; g.hosts[h] == 0 {
			delete(g.hosts, h)
		}
	}
}

// hostsOf returns the hosts that an address counts for: the address and, for IPv6, its prefix.
func hostsOf(a net.Addr) []netip.Prefix {
	var at netip.AddrPort
	switch a := a.(type) {
	case *net.UDPAddr:
		at = a.AddrPort()
	case *net.TCPAddr:
		at = a.AddrPort()
	default:
		return nil
	}
	ip := at.Addr().Unmap().WithZone("")
	hosts := []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
	if ip.Is6() {
		hosts = append(hosts, netip.PrefixFrom(ip, 64).Masked())
	}
	return hosts
}
