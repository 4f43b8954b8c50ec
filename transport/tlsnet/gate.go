// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"net"
	"net/netip"
	"sync"
)

// Handshakes that other hosts have begun are refused above 4 x Size + 32 at a time, above
// half of that from one address, and above five eighths from one IPv6 prefix of 64 bits: a
// host that begins handshakes and never ends them leaves room for the others. The numbers
// are those of package quicnet.
const handshakesPerMember, handshakesMore = 4, 32

type gate struct {
	limit int

	mu    sync.Mutex
	under int // under way
	hosts map[netip.Prefix]int
}

func newGate(size int) *gate {
	return &gate{
		limit: handshakesPerMember*size + handshakesMore,
		hosts: make(map[netip.Prefix]int),
	}
}

// enter counts a handshake until leave is called; false if there are too many.
func (g *gate) enter(from net.Addr) (leave func(), ok bool) {
	hosts := prefixes(from)
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.under >= g.limit
	for _, h := range hosts {
		limit := g.limit / 2
		if !h.IsSingleIP() {
			limit = g.limit * 5 / 8
		}
		full = full || g.hosts[h] >= limit
	}
	if full {
		return nil, false
	}
	g.add(hosts, 1)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.add(hosts, -1)
	}, true
}

// add changes the counts. g.mu must be held.
func (g *gate) add(hosts []netip.Prefix, n int) {
	g.under += n
	for _, h := range hosts {
		if g.hosts[h] += n; g.hosts[h] == 0 {
			delete(g.hosts, h)
		}
	}
}

// prefixes returns what counts as the host of an address: the address, and its prefix if it
// is IPv6, because a host has as many addresses of its prefix as it likes.
func prefixes(a net.Addr) []netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return nil
	}
	ip := t.AddrPort().Addr().Unmap().WithZone("")
	hosts := []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
	if ip.Is6() {
		hosts = append(hosts, netip.PrefixFrom(ip, 64).Masked())
	}
	return hosts
}
