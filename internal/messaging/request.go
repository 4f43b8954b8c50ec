// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// Request sends a request to an active member and decodes the answer into resp, a pointer,
// as cluster.Request documents.
func (m *Messenger) Request(
	ctx context.Context, to member.Address, req, resp any, o Options,
) error {
	if o.Idempotent {
		return errIdempotent
	}
	return m.request(ctx, to, req, resp, nil, o)
}

// RequestLeader is like Request, but to the leader, as cluster.RequestLeader documents.
func (m *Messenger) RequestLeader(ctx context.Context, req, resp any, o Options) error {
	for {
		led, err := m.node.WaitLeader(ctx)
		if err != nil {
			return err
		}
		err = m.request(ctx, led.Leader, req, resp, &led, o)
		if !m.waitRetry(ctx, err, led.Changed, o) {
			return err
		}
	}
}

// RequestOwner is like RequestLeader, but to the member that owner returns, as cluster.RequestShard
// documents. changed receives a value when the owner may have changed.
func (m *Messenger) RequestOwner(
	ctx context.Context, owner func() (member.Address, error), changed <-chan struct{},
	req, resp any, o Options,
) error {
	for {
		to, err := owner()
		switch over := m.ctxErr(ctx); {
		case err == nil:
			err = m.request(ctx, to, req, resp, nil, o)
		case over != nil:
			return fmt.Errorf("%w: %w: %w", ErrNotDelivered, err, over)
		default:
			err = fmt.Errorf("%w: %w", ErrNotDelivered, err)
		}
		if !m.waitRetry(ctx, err, changed, o) {
			return err
		}
	}
}

// waitRetry reports whether a request that ended with err may be sent again, and waits until then.
// This node may learn of the next leader or owner later or earlier than others, so it retries when
// changed is closed or receives a value, and periodically.
func (m *Messenger) waitRetry(
	ctx context.Context, err error, changed <-chan struct{}, o Options,
) bool {
	retry := canRetry(err) || o.Idempotent && errors.Is(err, ErrUnknownOutcome)
	if !retry || m.ctxErr(ctx) != nil {
		return false
	}
	pause := time.NewTimer(m.cfg.HeartbeatInterval)
	defer pause.Stop()
	select {
	case <-changed:
	case <-pause.C:
	case <-ctx.Done():
	case <-m.cfg.Quit:
	}
	return true
}

// canRetry reports whether a request may be sent to the next leader or owner, because no handler
// has run.
func canRetry(err error) bool {
	_, moved := errors.AsType[*leader.NotLeaderError](err)
	return moved || errors.Is(err, ErrNotDelivered) || errors.Is(err, ErrNotActive)
}

// request sends a request to one member. If the term led is not nil, that member must be the
// leader, and request stops sending when the leadership ends.
func (m *Messenger) request(
	ctx context.Context, to member.Address, req, resp any, led *Leadership, o Options,
) (err error) {
	if o.BestEffort {
		return errRequestBestEffort
	}
	if o.Outcome != nil {
		return errRequestOutcome
	}
	if err := m.mux.CheckAnswer(resp); err != nil {
		return encodeError("", err)
	}
	e, err := m.encode(req, o)
	if err != nil {
		return err
	}
	defer e.release()
	defer func(name string) { m.requests.add(name, err) }(e.name)
	contact, err := m.checkSend(ctx, to)
	if err != nil {
		return err
	}
	done := make(chan struct{ err error }, 1)
	settle := func(a wire.Answer, err error) {
		if err == nil {
			err = m.readAnswer(to, a, resp)
		}
		done <- struct{ err error }{err}
	}
	depth := receiver.Depth(ctx)
	kind := requestKind(depth, e.name)
	id, err := m.pending.add(ctx, m.cfg.Quit, pendingCall{to, kind, settle})
	if err != nil {
		return err
	}
	c := wire.Call{ID: id, Request: true, Leader: led != nil, Depth: uint64(depth)}
	if at, ok := ctx.Deadline(); ok {
		c.Timeout = max(time.Until(at), 1)
	}
	sending, sent := withLeadership(ctx, led)
	err = m.sendCall(sending, contact, e, kind, c)
	sent()
	if err != nil {
		if !m.pending.remove(id) {
			<-done // wait for settle, which is writing to resp: after the return resp belongs to the caller
		}
		return err
	}
	select {
	case end := <-done:
		done <- end
	case <-m.cfg.Quit: // wait below, because Close settles all requests
	case <-ctx.Done():
		if m.pending.remove(id) {
			settle(wire.Answer{}, fmt.Errorf("%w: %s: %w", ErrUnknownOutcome, to, m.ctxErr(ctx)))
		}
	}
	if err = (<-done).err; errors.Is(err, ErrUnknownOutcome) { // Close may be about to settle it
		m.cancelCall(to, kind, id) // also after a loss: the frame may be on the next connection
	}
	return err
}

// requestKind returns the kind of a request. The receiver refuses a request among the answers if it
// would have to wait for room, so these requests do not wait for handlers: neither those of
// handlers, nor those of Athena, which an operator needs most when a handler hangs.
func requestKind(depth int, name string) transport.Kind {
	if depth > 0 || eventname.IsReserved(name) {
		return transport.Answer
	}
	return transport.Request
}

// withLeadership returns a copy of ctx that is also canceled when the leadership ends, and its
// cancel function. If led is nil, it returns ctx.
func withLeadership(ctx context.Context, led *Leadership) (context.Context, func()) {
	if led == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-led.Done:
			cancel(led.Lost)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// readAnswer decodes an answer into resp. If the answer contains an error, readAnswer returns the
// error.
func (m *Messenger) readAnswer(from member.Address, a wire.Answer, resp any) error {
	if err := m.answerError(from, a); err != nil {
		return err
	}
	if raw, ok := resp.(*receiver.Raw); ok {
		raw.Payload = slices.Clone(a.Payload)
		return nil
	}
	if err := m.mux.DecodeAnswer(a.Payload, resp); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBadAnswer, from, err)
	}
	return nil
}

// answerError returns the error that an answer contains, or nil.
func (m *Messenger) answerError(from member.Address, a wire.Answer) error {
	switch a.Outcome {
	case wire.OutcomeDone:
		return nil
	case wire.OutcomeUnknown:
		return fmt.Errorf("%w: %s: %w", ErrUnknownType, from, remoteError{a.Text, receiver.ErrUnknown})
	case wire.OutcomeMalformed:
		return fmt.Errorf("%w: %s: %w", ErrUnknownType, from, remoteError{a.Text, receiver.ErrMalformed})
	case wire.OutcomeBusy:
		return fmt.Errorf("%w: %s: %w", ErrBusy, from, remoteError{a.Text, receiver.ErrBusy})
	case wire.OutcomeNotLeader:
		return &leader.NotLeaderError{Leader: m.node.Leader().Address, Asked: from}
	case wire.OutcomeNotRun:
		return fmt.Errorf("%w: %s: %s", ErrNotDelivered, from, safetext.PeerText(a.Text))
	case wire.OutcomeUnsaid:
		return fmt.Errorf("%w: %s: the answer cannot be sent: %s",
			ErrBadAnswer, from, safetext.PeerText(a.Text))
	default:
		return &receiver.HandlerError{Member: from, Text: a.Text}
	}
}

// sendCall sends the event of a pending call.
func (m *Messenger) sendCall(
	ctx context.Context, to *contact, e *outgoing, k transport.Kind, c wire.Call,
) error {
	depth := receiver.Depth(ctx)
	if to.Address == m.self {
		return m.deliverCall(ctx, to.Member, e, c, depth)
	}
	// The sends of a broadcast share e, but each has its own call.
	own := getBuffer()
	defer own.release()
	var err error
	if own.b, err = e.AppendCall(own.b, c, MaxEventBytes); err != nil {
		return fmt.Errorf("%w: %q: %w: use OpenStream", ErrTooLarge, e.name, err)
	}
	// If this is the only call, no other frame is likely to share the packet, so flush.
	mode := mesh.SendMode{Flush: c.Request && m.pending.isOnly(), Try: !c.Request && depth > 1}
	return m.sendFrame(ctx, to, k, own.b, mode)
}

// deliverCall passes a call to this node's own receiver.
func (m *Messenger) deliverCall(
	ctx context.Context, self *member.Member, e *outgoing, c wire.Call, depth int,
) error {
	d := e.delivery(self)
	d.Call = m.newCall(m.self, transport.Request, c)
	if c.Leader {
		if l := m.node.Leader(); !l.Authority {
			return notLeader(l)
		}
	}
	err := m.deliverOwn(ctx, d, depth)
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	if err := deliveryError(ctx, err); errors.Is(err, ErrNotDelivered) {
		return err
	}
	return m.answerError(m.self, answerTo(c, false, err))
}
