// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/wire"
)

const (
	// MaxEventBytes bounds an event with its name, as it travels.
	MaxEventBytes = wire.DefaultEventBytes
	// MaxEventValues bounds the values of an event: numbers, strings, keys, lists
	// and so on; a []byte is one. Decoding an event allocates at most about twice
	// this times the size of the largest element that its type has in a slice, in
	// a map or behind a pointer: 64 MiB for elements of 256 bytes.
	MaxEventValues = wire.MaxValues
	// MaxSending bounds the sends of a node that are under way at once.
	MaxSending = 1024
)

// Send gives an event to one active member, which may be this node. It blocks
// while the handlers of that member are slow. A nil error says that the
// connection took the event; it is delivered at most once, in the order sent.
// Errors: ErrNotActive, ErrTooLarge, ErrUnknownType, ErrBusy; to this node itself
// also receiver.ErrUnknown and receiver.ErrMalformed.
//
// A nil error does not say that anybody handles the event. A member without a
// handler for its name drops it and warns in its own log, once for each name and
// sender; it counts each as "no handler" in Status.Dropped. Who needs to know lets
// the handler send an answer.
//
// A handler that answers has its node from WithListening, not from what Start
// returns: events come before that. The example shows how.
func (n *Node) Send(ctx context.Context, to member.Address, event any) error {
	e, err := n.encode(event)
	if err != nil {
		return err
	}
	return n.send(ctx, n.look().view, to, e)
}

// BroadcastOption changes one Broadcast.
type BroadcastOption func(*broadcast)

type broadcast struct{ self bool }

// WithSelf delivers the event to this node's receiver too.
func WithSelf() BroadcastOption { return func(b *broadcast) { b.self = true } }

// Broadcast gives an event to all active members but this one, side by side,
// and blocks until each took it or failed. The error joins those of the members
// that did not get it, each with its address; see Send.
func (n *Node) Broadcast(ctx context.Context, event any, opts ...BroadcastOption) error {
	var b broadcast
	for _, opt := range opts {
		opt(&b)
	}
	e, err := n.encode(event)
	if err != nil {
		return err
	}
	view := n.look().view
	failed := make([]error, len(view.Members))
	var sends sync.WaitGroup
	for i, m := range view.Members {
		if m.Status != member.Active || m.Address == n.cfg.self && !b.self {
			continue
		}
		sends.Go(func() {
			if err := n.send(ctx, view, m.Address, e); err != nil {
				failed[i] = fmt.Errorf("%s: %w", m.Address, err)
			}
		})
	}
	sends.Wait()
	return errors.Join(failed...)
}

// outgoing is an event ready to send.
type outgoing struct {
	raw   receiver.Raw
	frame []byte
}

// encode makes one frame for all who get the event.
func (n *Node) encode(event any) (outgoing, error) {
	raw, err := n.mux.Encode(event)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return outgoing{}, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return outgoing{}, fmt.Errorf("%w: %w", ErrUnknownType, err)
	}
	frame, err := wire.EncodeEvent(wire.Event{Name: raw.Name, Payload: raw.Payload}, MaxEventBytes)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return outgoing{}, fmt.Errorf("%w: %q: %w", ErrTooLarge, raw.Name, err)
	case err != nil:
		return outgoing{}, fmt.Errorf("%w: %w", ErrUnknownType, err)
	}
	return outgoing{raw, frame}, nil
}

// send gives an encoded event to one member.
func (n *Node) send(ctx context.Context, view member.View, to member.Address, e outgoing) error {
	if err := n.over(ctx); err != nil {
		return err
	}
	if n.meter.sending.Add(1) > MaxSending {
		n.meter.sending.Add(-1)
		return ErrBusy
	}
	defer n.meter.sending.Add(-1)
	for _, addr := range []member.Address{view.Self.Address, to} {
		switch m, ok := view.Member(addr); {
		case ok && m.Status == member.Active:
		case addr == view.Self.Address:
			return fmt.Errorf("%w: this node is not active yet", ErrNotActive)
		default:
			return fmt.Errorf("%w: %s", ErrNotActive, addr)
		}
	}
	if to == view.Self.Address {
		return n.deliver(ctx, n.self(view), e.raw)
	}
	err := n.net.Send(ctx, to, e.frame)
	if errors.Is(err, transport.ErrClosed) {
		return ErrClosed
	}
	return err
}
