// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// loopCall is an operation on the machine that a caller of the API waits for.
type loopCall struct {
	verb  func(now time.Time) (statemachine.Output, error)
	reply chan error // of capacity 1, so that the loop does not block
}

// runInLoop calls a verb in the event loop and returns its error. The output of the verb has been
// applied when runInLoop returns.
func (n *Node) runInLoop(
	ctx context.Context, verb func(now time.Time) (statemachine.Output, error),
) error {
	c := loopCall{verb, make(chan error, 1)}
	select {
	case n.calls <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.life.Done():
		return n.Err()
	}
	return <-c.reply // the loop answers every call that it receives
}

// runLoop is the event loop: the one goroutine that uses the machine. Each turn takes one
// input and then reads the clock once, because the wait for the input may be long.
func (n *Node) runLoop() {
	defer n.shutdown()
	timer := time.NewTimer(0) // the machine sends its first queries immediately
	defer timer.Stop()
	for {
		var in diagnosis.Input
		var out statemachine.Output
		var now time.Time
		answer := func(error) {}
		select {
		case <-n.life.Done():
			return
		case m := <-n.inbox:
			m.leaveRooms()
			now, in.Woke = n.readTurnClock()
			in.Message = m.Message
			out = n.machine.Step(now, m.Message)
		case p := <-n.refusals:
			now, in.Woke = n.readTurnClock()
			in.Refused = p
			out = n.machine.Refused(now, p)
		case c := <-n.claims:
			now, in.Woke = n.readTurnClock()
			in.Order = true
			out = n.machine.AskPeer(now, c.peer, c.store)
		case m := <-n.relays:
			now, in.Woke = n.readTurnClock()
			in.Order = true
			out = n.machine.Relay(now, m)
		case c := <-n.calls:
			now, in.Woke = n.readTurnClock()
			in.Order = true
			var err error
			out, err = c.verb(now)
			answer = func(unsaved error) { c.reply <- cmp.Or(err, unsaved) }
		case <-timer.C:
			now, in.Woke = n.readTurnClock()
			out = n.machine.Advance(now)
		}
		err := n.persist(now, in, out)
		unsaved := err
		if err == nil {
			err = n.apply(now, out)
		}
		answer(unsaved) // an error of apply stops the node, but the call has succeeded
		if err != nil {
			n.stop(err)
			return
		}
		n.armTimer(timer)
	}
}

// readTurnClock reads the clock for a turn. If the wall clock was set forward since the last turn,
// a hypervisor may have paused this machine together with its clocks. The node then gives up its
// lease and stops relying on its records (protocol.md section 5).
func (n *Node) readTurnClock() (now time.Time, woke bool) {
	now, step := n.steps.Read(n.clock)
	if step > 0 {
		n.machine.EndTrust(now)
		n.reporter.Metrics.AddClockStep()
		n.log.Warn("the wall clock was set forward: lease and records are invalid until confirmed",
			slog.Float64("step_ms", diagnosis.Milliseconds(step)))
	}
	return now, step > 0
}

// armTimer sets the timer to the machine's deadline.
func (n *Node) armTimer(timer *time.Timer) {
	if at := n.machine.Deadline(); at.IsZero() {
		timer.Stop()
	} else {
		timer.Reset(at.Sub(n.clock()))
	}
}

// closeTimeout is how long the node waits for handlers after their contexts have ended.
const closeTimeout = 5 * time.Second

// shutdown stops everything that the node started. It ends terms and leases before it gives up
// leadership and closes the socket, because others may replace this node sooner then (protocol.md
// section 6).
func (n *Node) shutdown() {
	cause := n.Err()
	n.terms.closeTerms(cause)
	n.records.EndLeases(cause)
	n.stopLeading()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	n.closeErr = errors.Join(n.messages.Close(ctx), n.store.Close())
	n.work.Wait()
	if errors.Is(cause, ErrClosed) || errors.Is(cause, ErrLeft) {
		n.log.Info("ended", diagnosis.ErrAttr(n.closeErr))
	} else {
		n.log.Error("node failed", diagnosis.ErrAttr(errors.Join(cause, n.closeErr)))
	}
	close(n.done)
}

// stopLeading gives up the leadership of a node that has not left, so that the others elect a
// leader in a few round trips instead of after a silence. Only what is saved is given up: after a
// failed save, the machine may lead a version that its store does not hold.
func (n *Node) stopLeading() {
	led := n.currentSnapshot().view
	if led.Role != member.Leading && led.Role != member.Provisional {
		return
	}
	n.terms.waitGuard(context.Background())
	now := n.clock()
	if n.machine.View(now).Version != led.Version {
		return
	}
	out := n.machine.StopLeading(now)
	if n.persist(now, diagnosis.Input{Order: true}, out) == nil {
		_ = n.apply(now, out) // ErrStopped
	}
}

// deliverEvents delivers the events of the node to its own receiver. If the receiver is slow,
// it gets Lagged like any other reader.
func (n *Node) deliverEvents() {
	ctx := context.Background() // Events and Emit end when the node stops
	for e := range n.Events(ctx) {
		if n.mux.Emit(ctx, n.Self(), e) != nil {
			return
		}
	}
}
