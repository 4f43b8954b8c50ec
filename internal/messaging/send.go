// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// Send sends an event to one active member, as cluster.Node.Send documents.
func (m *Messenger) Send(ctx context.Context, to member.Address, event any, o Options) error {
	e, err := m.encode(event, o)
	if err != nil {
		return err
	}
	defer e.release()
	return m.send(ctx, to, e, o)
}

// Result is the result of a Broadcast at one member.
type Result struct {
	To  member.Member
	Err error // nil if the member accepted the event
}

// Broadcast sends an event to all active members concurrently, as cluster.Node.Broadcast documents,
// and returns the results sorted by address. It fails only if the event cannot be encoded.
func (m *Messenger) Broadcast(ctx context.Context, event any, o Options) ([]Result, error) {
	e, err := m.encode(event, o)
	if err != nil {
		return nil, err
	}
	defer e.release()
	var results []Result
	for _, to := range m.node.Members() {
		if to.Status == member.Active && (to.Address != m.self || o.Self) {
			results = append(results, Result{To: to})
		}
	}
	var sends sync.WaitGroup
	for i := range results {
		r := &results[i]
		if m.trySend(ctx, r.To.Address, e, o) {
			continue
		}
		sends.Go(func() { r.Err = m.send(ctx, r.To.Address, e, o) })
	}
	sends.Wait()
	return results, nil
}

func (m *Messenger) send(ctx context.Context, to member.Address, e *outgoing, o Options) error {
	if o.Idempotent {
		return errIdempotent
	}
	if o.BestEffort {
		return m.sendBestEffort(ctx, to, e)
	}
	c, err := m.checkSend(ctx, to)
	if err != nil {
		return err
	}
	if o.Outcome != nil {
		return m.sendWithOutcome(ctx, c, e, o.Outcome)
	}
	depth := receiver.Depth(ctx)
	if to == m.self {
		return deliveryError(ctx, m.deliverOwn(ctx, e.delivery(c.Member), depth))
	}
	return m.sendFrame(ctx, c, eventKind(depth), e.Frame(), sendMode(depth))
}

// eventKind returns the kind of an event that is sent at a depth. Events of handlers do not wait
// behind others: the handlers of the others may wait for them.
func eventKind(depth int) transport.Kind {
	if depth > 0 {
		return transport.Nested
	}
	return transport.Custom
}

// sendMode returns how an event waits for room. The handlers of nested events do not wait, so that
// others can wait for them.
func sendMode(depth int) mesh.SendMode { return mesh.SendMode{Try: depth > 1} }

// sendFrame sends a frame unless too many are being sent.
func (m *Messenger) sendFrame(
	ctx context.Context, to *contact, k transport.Kind, frame []byte, mode mesh.SendMode,
) error {
	if m.sending.Add(1) > MaxSending {
		m.sending.Add(-1)
		return fmt.Errorf("%w: %d sends are waiting", ErrBusy, MaxSending)
	}
	defer m.sending.Add(-1)
	return sendError(to.to.Send(ctx, k, frame, mode))
}

// sendWithOutcome is like send, but for a sender that waits for the outcome.
func (m *Messenger) sendWithOutcome(
	ctx context.Context, to *contact, e *outgoing, report func(to member.Address, err error),
) error {
	// Stop sending once the outcome is known.
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	settle := func(a wire.Answer, err error) {
		if err == nil {
			err = m.answerError(to.Address, a)
		}
		stop(err)
		report(to.Address, err)
	}
	kind := eventKind(receiver.Depth(ctx))
	id, err := m.pending.add(ctx, m.cfg.Quit, pendingCall{to.Address, kind, settle})
	if err != nil {
		return err
	}
	err = m.sendCall(sending, to, e, kind, wire.Call{ID: id})
	if err != nil && !m.pending.remove(id) {
		return nil // settle reports it
	}
	return err
}

// trySend sends an encoded event to one member if it can do so without waiting.
func (m *Messenger) trySend(
	ctx context.Context, to member.Address, e *outgoing, o Options,
) bool {
	if o.Outcome != nil || o.BestEffort || o.Idempotent || to == m.self {
		return false
	}
	c, err := m.checkSend(ctx, to)
	return err == nil && c.to.TrySend(eventKind(receiver.Depth(ctx)), e.Frame(), mesh.SendMode{})
}

// checkSend returns the contact of a member, or an error if nothing can be sent to it now.
func (m *Messenger) checkSend(ctx context.Context, to member.Address) (*contact, error) {
	if err := m.ctxErr(ctx); err != nil {
		return nil, err
	}
	d := m.currentDirectory()
	switch c := d.contacts[to]; {
	case !isActive(d.self) && !m.cfg.Observer:
		return nil, fmt.Errorf("%w: this node is not active yet", ErrNotActive)
	case to.IsZero():
		return nil, fmt.Errorf("%w: the address is the zero Address: use one from View", ErrNotActive)
	case !isActive(c):
		return nil, fmt.Errorf("%w: %s", ErrNotActive, to)
	default:
		return c, nil
	}
}

func isActive(c *contact) bool { return c != nil && c.Status == member.Active }

// deliveryError translates the reason why the node's own receiver did not accept an event.
func deliveryError(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%w: %w", ErrNotDelivered, err)
	case errors.Is(err, receiver.ErrUnknown), errors.Is(err, receiver.ErrMalformed):
		return fmt.Errorf("%w: %w", ErrUnknownType, err)
	case errors.Is(err, receiver.ErrBusy):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	default:
		return err
	}
}

// sendError translates the reason why the transport did not accept a frame.
func sendError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mesh.ErrClosed):
		return ErrClosed
	case errors.Is(err, mesh.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	case errors.Is(err, mesh.ErrNoRoom):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, ErrNotActive):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrNotDelivered, err)
	}
}
