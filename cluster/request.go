// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// Request asks an active member, which may be this node, and blocks until its
// handler has answered, ctx ends, or the connection is lost. The handler is one
// of receiver.HandleRequest for the type of req. It gets the deadline of ctx, and
// its context ends when this one does.
//
// At most one handler runs, once. Errors say what happened: ErrNotActive,
// ErrTooLarge, ErrBusy, ErrNotDelivered and ErrClosed that none ran, and so does
// ErrUnknownType, of a type that cannot travel or that the member has no handler
// for; *HandlerError that it ran and failed; ErrBadAnswer that it ran and its answer
// is lost; ErrUnknownOutcome that it may have run or still runs, with the cause of ctx
// where that ended. A ctx that had ended before is its own cause alone, and none ran.
// Where none ran the request can be repeated. Without a deadline the handler has none
// either, and one that hangs keeps the request waiting.
func Request[Resp any](
	ctx context.Context, n *Node, to member.Address, req any, opts ...SendOption,
) (Resp, error) {
	var resp Resp
	err := n.request(ctx, to, req, &resp, nil, newSending(opts))
	return resp, err
}

// RequestLeader is Request to the quorate leader. A member that has no authority when
// the request comes refuses it; the handler, and what it changes elsewhere, has the
// token of its Term to go by. It waits for a leader, and asks the next one where a
// leader was lost or replaced before its handler ran, until ctx ends. An outcome that
// is not known is an error: it never asks twice then. Errors: those of Request, and
// ErrNoQuorum with the cause of ctx where there was no leader.
func RequestLeader[Resp any](
	ctx context.Context, n *Node, req any, opts ...SendOption,
) (Resp, error) {
	var resp Resp
	err := n.requestLeader(ctx, req, &resp, newSending(opts))
	return resp, err
}

func (n *Node) requestLeader(ctx context.Context, req, resp any, s sending) error {
	for {
		term, err := n.WaitLeader(ctx)
		if err != nil {
			return err
		}
		_, changed := n.seen.get()
		err = n.request(ctx, term.Leader().Address, req, resp, term.Done(), s)
		if !canFollow(err) || n.over(ctx) != nil {
			return err
		}
		// This node may be the last to learn of the next leader, or the first.
		pause := time.NewTimer(n.cfg.HeartbeatInterval)
		select {
		case <-changed:
		case <-pause.C:
		case <-ctx.Done():
		case <-n.quit:
		}
		pause.Stop()
	}
}

// canFollow reports whether a request of the leader can be asked of the next one.
func canFollow(err error) bool {
	_, moved := errors.AsType[*NotLeaderError](err)
	return moved || errors.Is(err, ErrNotDelivered) || errors.Is(err, ErrNotActive)
}

// request asks one member and decodes its answer into resp. With led, only while
// that member leads: what no connection has taken when led is closed is not sent.
func (n *Node) request(
	ctx context.Context, to member.Address, req, resp any, led <-chan struct{}, s sending,
) (err error) {
	if s.bestEffort {
		return errRequestBestEffort
	}
	if s.outcome != nil {
		return errRequestOutcome
	}
	e, err := n.encodeWith(req, s)
	if err != nil {
		return err
	}
	defer e.release()
	defer func(name string) { n.tally.requests.ended(name, err) }(e.name)
	seen := n.look()
	if err := n.maySend(ctx, seen, to); err != nil {
		return err
	}
	done := make(chan struct{ err error }, 1)
	settle := func(a wire.Answer, err error) {
		if err == nil {
			err = n.readAnswer(to, a, resp)
		}
		done <- struct{ err error }{err}
	}
	id, err := n.awaited.open(ctx, n.quit, awaited{to, true, settle})
	if err != nil {
		return err
	}
	c := wire.Call{ID: id, Request: true, Leader: led != nil}
	if at, ok := ctx.Deadline(); ok {
		c.Timeout = max(time.Until(at), 1)
	}
	sending, taken := whileLed(ctx, led)
	err = n.sendCall(sending, seen, to, e, c)
	taken()
	if err != nil {
		if !n.awaited.close(id) {
			<-done // resp is the caller's when this returns
		}
		return err
	}
	select {
	case end := <-done:
		return end.err
	case <-n.quit: // which takes all requests back
	case <-ctx.Done():
		if n.awaited.close(id) {
			n.takeBack(to, id)
			return fmt.Errorf("%w: %s: %w", ErrUnknownOutcome, to, n.over(ctx))
		}
	}
	return (<-done).err // it is there, or about to be
}

// whileLed is ctx, which ends too when led is closed; not for nil.
func whileLed(ctx context.Context, led <-chan struct{}) (context.Context, func()) {
	if led == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-led:
			cancel(ErrSuperseded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// readAnswer says what became of a request.
func (n *Node) readAnswer(from member.Address, a wire.Answer, resp any) error {
	if err := n.outcome(from, a); err != nil {
		return err
	}
	if err := n.mux.DecodeAnswer(a.Payload, resp); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBadAnswer, from, err)
	}
	return nil
}

// outcome is the error that an answer tells of; nil when the handlers returned.
func (n *Node) outcome(from member.Address, a wire.Answer) error {
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
		return &NotLeaderError{Leader: n.look().view.Leader, Asked: from}
	case wire.OutcomeNotRun:
		return fmt.Errorf("%w: %s: %s", ErrNotDelivered, from, member.PeerText(a.Text))
	case wire.OutcomeUnsaid:
		return fmt.Errorf("%w: %s: it cannot be sent: %s", ErrBadAnswer, from, member.PeerText(a.Text))
	default:
		return &HandlerError{Member: from, Text: a.Text}
	}
}

// sendCall sends an event whose outcome is awaited.
func (n *Node) sendCall(
	ctx context.Context, seen *sight, to member.Address, e *outgoing, c wire.Call,
) error {
	if to == n.cfg.self {
		d := e.delivery(seen.members[to])
		d.Call = n.callOf(to, c)
		if c.Leader && !n.leads() {
			return notLeader(n.look())
		}
		err := n.deliver(ctx, d)
		if err == nil || errors.Is(err, ErrClosed) {
			return err
		}
		if err := untaken(ctx, err); errors.Is(err, ErrNotDelivered) {
			return err
		}
		return n.outcome(to, answerOf(c, false, err))
	}
	if n.meter.sending.Add(1) > MaxSending {
		n.meter.sending.Add(-1)
		return ErrBusy
	}
	defer n.meter.sending.Add(-1)
	// A broadcast has a number for each member, and shares e.
	own := getBuffer()
	defer own.release()
	var err error
	if own.b, err = e.AppendCall(own.b, c, MaxEventBytes); err != nil {
		return fmt.Errorf("%w: %q: %w", ErrTooLarge, e.name, err)
	}
	if c.Request && n.awaited.alone() {
		return n.notDelivered(n.net.SendNow(ctx, transport.Custom, to, own.b))
	}
	return n.notDelivered(n.net.Send(ctx, to, own.b))
}

// sendAwaited is send for an event whose sender wants to know what becomes of it.
func (n *Node) sendAwaited(
	ctx context.Context, seen *sight, to member.Address, e *outgoing,
	told func(to member.Address, err error),
) error {
	// What is known of needs no connection any more.
	sending, known := context.WithCancelCause(ctx)
	defer known(nil)
	settle := func(a wire.Answer, err error) {
		if err == nil {
			err = n.outcome(to, a)
		}
		known(err)
		told(to, err)
	}
	id, err := n.awaited.open(ctx, n.quit, awaited{to, false, settle})
	if err != nil {
		return err
	}
	err = n.sendCall(sending, seen, to, e, wire.Call{ID: id})
	if err != nil && !n.awaited.close(id) {
		return nil // told knows
	}
	return err
}

// leads reports whether this node has authority at this moment.
func (n *Node) leads() bool {
	t := n.look().live()
	return t != nil && t.own && t.remaining() > 0
}

// takeBack tells a member that nobody waits for its answer any more.
func (n *Node) takeBack(to member.Address, id uint64) {
	if to == n.cfg.self {
		n.mux.Cancel(to, id)
		return
	}
	c := takenBack{to, wire.AppendCancel(nil, id)}
	if n.net.TrySend(to, c.frame) {
		return
	}
	select {
	case n.takenBack <- c:
	default: // its deadline or the end of the connection tells it
	}
}

// takeAllBack takes back the requests of a node that ends, while its connections
// still work: who asked may find that too late.
func (n *Node) takeAllBack() {
	for id, c := range n.awaited.end() {
		n.takeBack(c.to, id)
		c.settle(wire.Answer{}, fmt.Errorf("%w: %s: %w", ErrUnknownOutcome, c.to, n.cause))
	}
}

// takenBack is the cancel of a call for a member that takes nothing at the moment.
type takenBack struct {
	to    member.Address
	frame []byte
}

// maxTakenBack bounds the cancels that wait, and once more those that members are
// just being told of.
const maxTakenBack = 1024

// tellTakenBack tells members of calls that were taken back, until the node ends. Who
// takes nothing holds up no other.
func (n *Node) tellTakenBack() {
	var telling sync.WaitGroup
	defer telling.Wait()
	slots := make(chan struct{}, maxTakenBack)
	for {
		select {
		case c := <-n.takenBack:
			slots <- struct{}{}
			telling.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), n.cfg.HeartbeatTimeout)
				defer cancel()
				_ = n.net.Send(ctx, c.to, c.frame) // as takeBack says
				<-slots
			})
		case <-n.quit:
			return
		}
	}
}
