// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

var errWrongKind = errors.New("cluster: an event among requests, or a request among events")

// Custom decodes an event and passes it to its handlers, completes the call that an answer belongs
// to, or cancels a handler (mesh.Handler). It blocks while the queue of the handlers is full, but
// not for a request among the answers.
func (m *Messenger) Custom(k transport.Kind, from member.Identity, frame []byte) error {
	switch {
	case wire.IsCancel(frame):
		return m.cancelHandler(from, frame)
	case k == transport.Answer && !wire.IsCall(frame):
		return m.completeCall(from, frame)
	}
	c := m.contactOf(from.Address)
	var names *wire.Names
	if c != nil {
		names = &c.names
	}
	e, err := names.DecodeEvent(frame, MaxEventBytes)
	if err == nil && e.Call.Request != (k == transport.Request || k == transport.Answer) {
		err = errWrongKind
	}
	if err != nil {
		return m.dropFrame(from, DropMalformed, err)
	}
	ctx := context.Background()
	d := newDelivery(from, c, e)
	switch k {
	case transport.Nested:
		d.Depth = 1
	case transport.Answer:
		d.Depth = int(min(max(e.Call.Depth, 1), receiver.MaxDepth))
		ctx = m.canceled
	default:
	}
	if e.Call.ID != 0 {
		d.Call = m.newCall(from.Address, k, e.Call)
	}
	if e.Call.Leader {
		if l := m.node.Leader(); !l.Authority {
			m.refuseCall(from.Address, k, e.Call, notLeader(l))
			return nil
		}
	}
	if from.Address.IsObserver() {
		switch handled, err := m.takeObserved(from, e, d.Call); {
		case err != nil:
			return m.dropFrame(from, DropMalformed, err)
		case handled:
			return nil
		}
		ctx, d.Depth = m.canceled, 0 // an observer never waits for room, and has no handlers
	}
	d.Wait = mesh.SendTimeout
	err = m.deliverEvent(ctx, d)
	if errors.Is(err, receiver.ErrStalled) {
		err = m.deliverStalled(ctx, k, d, err)
	}
	if err != nil {
		m.watches.releaseBytes(from, len(e.Payload)) // no handler will answer
		if d.Call != nil {
			m.refuseCall(from.Address, k, e.Call, err)
		}
		m.dropEvent(from, e.Name, d.Call != nil, err)
	}
	return nil
}

// newDelivery converts an event from a peer for the receiver. c is the contact of the peer, or nil.
func newDelivery(from member.Identity, c *contact, e wire.Event) receiver.Delivery {
	return receiver.Delivery{
		From: entryOf(from, c), Raw: receiver.Raw{Name: e.Name, Payload: e.Payload},
		Metadata: e.Metadata,
	}
}

// entryOf returns the member entry of a peer, whose contact may be nil.
func entryOf(from member.Identity, c *contact) *member.Member {
	if c != nil {
		return c.Member
	}
	// The peer was admitted by its greeting, but this node's view does not contain it yet.
	return &member.Member{Identity: from, Name: from.Address.String()}
}

// deliverStalled delivers an event to handlers that are stuck. Until they take it, the sender
// learns why its events of this kind do not move: an answer with id 0 concerns a kind instead of a
// call.
func (m *Messenger) deliverStalled(
	ctx context.Context, k transport.Kind, d receiver.Delivery, why error,
) error {
	stuck := wire.Answer{Outcome: wire.OutcomeBusy, Text: why.Error(), Payload: []byte{byte(k)}}
	m.sendAnswer(d.From.Address, stuck, true)
	d.Wait = 0
	err := m.deliverEvent(ctx, d)
	m.sendAnswer(d.From.Address, wire.Answer{Payload: []byte{byte(k)}}, true)
	return err
}

var errBadStuck = errors.New("cluster: an answer without a call that names no kind")

// noteStuck records that a member takes no events of a kind for now, or takes them again.
func (m *Messenger) noteStuck(from member.Identity, a wire.Answer) error {
	if len(a.Payload) != 1 {
		return m.dropFrame(from, DropMalformed, errBadStuck)
	}
	k := transport.Kind(a.Payload[0])
	switch k {
	case transport.Custom, transport.Request, transport.Nested:
	default:
		return m.dropFrame(from, DropMalformed, errBadStuck)
	}
	var why error
	if a.Outcome == wire.OutcomeBusy {
		why = errors.New(safetext.PeerText(a.Text))
	}
	m.net.SetStuck(from.Address, k, why)
	return nil
}

// deliverOwn passes an event of this node to its own handlers. In a handler it does not wait for
// room, because that room may depend on the handler.
func (m *Messenger) deliverOwn(ctx context.Context, d receiver.Delivery, depth int) error {
	d.Depth, d.Wait = depth, mesh.SendTimeout
	if depth > 0 {
		ctx = m.canceled
	}
	return m.deliverEvent(ctx, d)
}

// deliverEvent passes an event to the handlers. It also returns when the node shuts down.
func (m *Messenger) deliverEvent(ctx context.Context, d receiver.Delivery) error {
	err := m.mux.Deliver(ctx, d)
	if errors.Is(err, receiver.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Lost fails the calls to a peer whose connection was lost, because the events or their answers may
// be lost too. It also cancels the requests of that peer (mesh.Handler).
func (m *Messenger) Lost(peer member.Identity) {
	lost := fmt.Errorf("the connection to %s was lost", peer.Address)
	m.pending.fail(peer.Address, fmt.Errorf("%w: %w", ErrUnknownOutcome, lost))
	m.mux.CancelAll(peer.Address, lost)
	m.watches.endWatch(peer.Address)
}
