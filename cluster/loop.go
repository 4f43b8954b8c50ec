// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/statemachine"
)

// call is a verb of the API on its way to the machine.
type call struct {
	verb  func(now time.Time) (statemachine.Output, error)
	reply chan error // has room for the answer
}

// do runs a verb of the API on the loop and returns the error of the machine. Its effects
// are carried out when do returns.
func (n *Node) do(
	ctx context.Context, verb func(now time.Time) (statemachine.Output, error),
) error {
	c := call{verb, make(chan error, 1)}
	select {
	case n.calls <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.life.Done():
		return n.Err()
	}
	// The loop has taken the call, so it answers.
	return <-c.reply
}

// run is the loop: the one goroutine that owns the machine. Each turn takes one input and
// then reads the clock once, since the wait for an input may be long.
func (n *Node) run() {
	defer n.shutdown()
	timer := time.NewTimer(0) // the machine sends its first queries at once
	defer timer.Stop()
	for {
		var out statemachine.Output
		var now time.Time
		answer := func(error) {}
		select {
		case <-n.life.Done():
			return
		case m := <-n.inbox:
			n.releaseLarge(m.large)
			now = n.readClock()
			out = n.machine.Step(now, m.Message)
		case p := <-n.refusals:
			now = n.readClock()
			out = n.machine.Refused(now, p)
		case c := <-n.calls:
			now = n.readClock()
			var err error
			out, err = c.verb(now)
			answer = func(unsaved error) { c.reply <- cmp.Or(err, unsaved) }
		case <-timer.C:
			now = n.readClock()
			out = n.machine.Advance(now)
		}
		err := n.persist(out.Persist)
		unsaved := err
		if err == nil {
			err = n.apply(now, out)
		}
		answer(unsaved) // other errors end the node, and are not of the verb
		if err != nil {
			n.stop(err)
			return
		}
		n.arm(timer)
	}
}

// readClock reads the clock for a turn. If the wall clock was set forward since the last turn,
// this host may have been stopped together with its clocks: the node then trusts nothing that
// it knew before (protocol.md section 5).
func (n *Node) readClock() time.Time {
	now, step := n.steps.Read(n.clock)
	if step > 0 {
		n.machine.EndTrust(now)
		n.observer.Metrics.AddClockStep()
		n.log.Warn("the wall clock was set forward: lease and records end until they are confirmed",
			slog.Float64("step_ms", observe.Milliseconds(step)))
	}
	return now
}

// arm sets the timer to the machine's deadline.
func (n *Node) arm(timer *time.Timer) {
	if at := n.machine.Deadline(); at.IsZero() {
		timer.Stop()
	} else {
		timer.Reset(at.Sub(n.clock()))
	}
}

// closeTimeout bounds the wait for handlers whose context has ended.
const closeTimeout = 5 * time.Second

// shutdown ends everything that the node started. Authority ends before the socket is closed
// (protocol.md section 6).
func (n *Node) shutdown() {
	n.terms.close(n.Err())
	n.records.CloseLeases(n.life, n.Err())
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	n.closeErr = errors.Join(n.messages.Close(ctx), n.store.Close())
	n.work.Wait()
	n.logStop()
	close(n.done)
}

// pump hands the events of the node to its receiver. A slow receiver lags.
func (n *Node) pump() {
	ctx := context.Background() // Events and Emit end with the node
	for e := range n.Events(ctx) {
		if n.mux.Emit(ctx, n.Self(), e) != nil {
			return
		}
	}
}
