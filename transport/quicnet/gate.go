// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/quic-go/quic-go"
)

const (
	// A node refuses handshakes begun by others above handshakesPerMember*Size +
	// extraHandshakes at a time: above half of that from one address, and above five
	// eighths from one IPv6 prefix. Above unprovenPerMember*Size + extraUnproven a dialer
	// must first prove that its address is its own. So an attacker that forges addresses,
	// and has a host as well, leaves a quarter of the handshakes to the members, or an
	// eighth if its host has many addresses.
	handshakesPerMember, extraHandshakes = 4, 32
	unprovenPerMember, extraUnproven     = 1, 8
)

// gate bounds the handshakes that others have begun, in all and from one host, so that a
// host that never completes its handshakes leaves room for the others. A host is an
// address, and also all addresses of one IPv6 prefix, since a host there has as many as it
// likes. The limit of a prefix is higher, for the neighbors of such a host.
type gate struct {
	limit, unproven int
	failed          func(from net.Addr, err error) // gets each handshake that failed

	mu      sync.Mutex
	pending int // handshakes
	hosts   map[netip.Prefix]int
}

func newGate(limit, unproven int, failed func(from net.Addr, err error)) *gate {
	return &gate{limit: limit, unproven: unproven, failed: failed, hosts: map[netip.Prefix]int{}}
}

// gateKey is the context key of a function that ends the count of a handshake.
type gateKey struct{}

var errTooManyHandshakes = errors.New("quicnet: too many pending handshakes")

// needsProof reports whether a dialer must first prove its address.
func (g *gate) needsProof(net.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pending >= g.unproven
}

// enter counts a handshake until endHandshake, or until its connection has ended.
func (g *gate) enter(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
	hosts := hostsOf(from.RemoteAddr)
	if !g.add(hosts) {
		return nil, errTooManyHandshakes
	}
	stop := context.AfterFunc(ctx, func() {
		g.remove(hosts)
		g.failed(from.RemoteAddr, context.Cause(ctx))
	})
	return context.WithValue(ctx, gateKey{}, func() {
		if stop() {
			g.remove(hosts)
		}
	}), nil
}

// add counts one handshake more. It returns false at a limit.
func (g *gate) add(hosts []netip.Prefix) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.pending >= g.limit
	for _, h := range hosts {
		most := g.limit / 2
		if !h.IsSingleIP() {
			most = g.limit * 5 / 8
		}
		full = full || g.hosts[h] >= most
	}
	if full {
		return false
	}
	g.pending++
	for _, h := range hosts {
		g.hosts[h]++
	}
	return true
}

func (g *gate) remove(hosts []netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	for _, h := range hosts {
		if g.hosts[h]--; g.hosts[h] == 0 {
			delete(g.hosts, h)
		}
	}
}

// hostsOf returns what counts as the host of an address: the address, and for IPv6 its
// prefix too.
func hostsOf(a net.Addr) []netip.Prefix {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return nil
	}
	ip := u.AddrPort().Addr().Unmap().WithZone("")
	hosts := []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
	if ip.Is6() {
		hosts = append(hosts, netip.PrefixFrom(ip, 64).Masked())
	}
	return hosts
}

// endHandshake ends the count of a handshake, given the context of its connection.
func endHandshake(ctx context.Context) {
	if end, ok := ctx.Value(gateKey{}).(func()); ok {
		end()
	}
}
