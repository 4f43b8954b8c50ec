// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"errors"
	"net"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/internal/handshakes"
)

// If more than unprovenPerMember*Size + extraUnproven handshakes are pending, a dialer must first
// prove its address. So even if an attacker forges addresses and also has a host, the members can
// use at least a quarter of the handshakes. If the host has many addresses, they can use at least
// an eighth.
const unprovenPerMember, extraUnproven = 1, 8

// gate counts handshakes by the contexts of their QUIC connections.
type gate struct {
	pending  *handshakes.Gate
	unproven int
	failed   func(from net.Addr, err error) // called for each failed handshake
}

func newGate(limit, unproven int, failed func(from net.Addr, err error)) *gate {
	return &gate{pending: handshakes.NewGate(limit), unproven: unproven, failed: failed}
}

// gateKey is the context key of the function that stops counting a handshake.
type gateKey struct{}

var errTooManyHandshakes = errors.New("quicnet: too many pending handshakes")

// needsProof reports whether a dialer must first prove its address.
func (g *gate) needsProof(net.Addr) bool { return g.pending.Pending() >= g.unproven }

// enter counts a handshake until endHandshake is called or its connection ends.
func (g *gate) enter(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
	leave, ok := g.pending.Enter(from.RemoteAddr)
	if !ok {
		return nil, errTooManyHandshakes
	}
	stop := context.AfterFunc(ctx, func() {
		leave()
		g.failed(from.RemoteAddr, context.Cause(ctx))
	})
	return context.WithValue(ctx, gateKey{}, func() {
		if stop() {
			leave()
		}
	}), nil
}

// endHandshake stops counting a handshake. ctx is the context of its connection.
func endHandshake(ctx context.Context) {
	if end, ok := ctx.Value(gateKey{}).(func()); ok {
		end()
	}
}
