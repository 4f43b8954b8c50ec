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
	// A node bounds the handshakes that others have started at the same time:
	// handshakesPerMember*Size + extraHandshakes in total, half of that for one address,
	// and five eighths for one IPv6 prefix. If more than unprovenPerMember*Size +
	// extraUnproven are pending, a dialer must first prove its address. So if an attacker
	// both forges addresses and has a host, at least a quarter of the handshakes is left to
	// the members, or an eighth if its host has many addresses.
	handshakesPerMember, extraHandshakes = 4, 32
	unprovenPerMember, extraUnproven     = 1, 8
)

// gate bounds the handshakes that others have started, in total and per host, so that a
// host that never completes its handshakes leaves room for the others. Each address counts
// as a host, and so does each IPv6 prefix, because a host can use any number of its
// addresses. The limit of a prefix is higher, to leave room for the neighbors of such a
// host.
type gate struct {
	limit, unproven int
	failed          func(from net.Addr, err error) // called for each failed handshake

	mu      sync.Mutex
	pending int // handshakes
	hosts   map[netip.Prefix]int
}

func newGate(limit, unproven int, failed func(from net.Addr, err error)) *gate {
	return &gate{limit: limit, unproven: unproven, failed: failed, hosts: map[netip.Prefix]int{}}
}

// gateKey is the context key of the function that stops counting a handshake.
type gateKey struct{}

var errTooManyHandshakes = errors.New("quicnet: too many pending handshakes")

// needsProof reports whether a dialer must first prove its address.
func (g *gate) needsProof(net.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pending >= g.unproven
}

// enter counts a handshake until endHandshake is called or its connection ends.
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

// add counts one more handshake. It returns false if a limit is reached.
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

// hostsOf returns the hosts that an address counts for: the address and, for IPv6, its
// prefix.
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

// endHandshake stops counting a handshake. ctx is the context of its connection.
func endHandshake(ctx context.Context) {
	if end, ok := ctx.Value(gateKey{}).(func()); ok {
		end()
	}
}
