// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// call is a verb of the API on its way to the machine.
type call struct {
	verb  func(now time.Time) (statemachine.Output, error)
	reply chan error // has room for the answer
}

// do runs a verb on the loop and returns what the machine said to it. Its
// effects are carried out when it returns.
func (n *Node) do(
	ctx context.Context, verb func(now time.Time) (statemachine.Output, error),
) error {
	c := call{verb, make(chan error, 1)}
	select {
	case n.calls <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.quit:
		return n.cause
	}
	// The loop took it, so it answers.
	return <-c.reply
}

// run is the loop: the one goroutine that owns the machine. Each turn reads the
// clock once and takes one input, in this order: the wait for an input may last.
func (n *Node) run() {
	defer n.shutdown()
	timer := time.NewTimer(0) // the machine sends its first queries at once
	defer timer.Stop()
	for {
		var out statemachine.Output
		var now time.Time
		answer := func(error) {}
		select {
		case <-n.quit:
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
		err := n.keep(out.Persist)
		unsaved := err
		if err == nil {
			err = n.carryOut(now, out)
		}
		answer(unsaved) // what else ends the node is no fault of a verb
		if err != nil {
			n.stop(err)
			return
		}
		n.arm(timer)
	}
}

// readClock reads the clock for a turn. When the wall clock was set forward meanwhile, this
// machine may have been stopped with its clocks: the node then trusts nothing that it knew
// before (protocol.md section 5).
func (n *Node) readClock() time.Time {
	now, step := n.steps.read(n.clock)
	if step > 0 {
		n.machine.EndTrust(now)
		n.tally.stepped()
		n.log.Warn("the wall clock was set forward: lease and records end until they are confirmed",
			slog.Float64("step_ms", milliseconds(step)))
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

// keep makes durable what the machine wants, before anybody sees anything of it. An
// error ends the node.
func (n *Node) keep(d *paxos.Durable) error {
	if d == nil {
		return nil
	}
	if err := n.save(*d); err != nil {
		return fmt.Errorf("cluster: the store cannot save, so the node may not go on: %w", err)
	}
	return nil
}

// carryOut does what else the machine wants, in its order: visible here, then sent,
// then told. An error ends the node.
func (n *Node) carryOut(now time.Time, out statemachine.Output) error {
	n.elections.why.traced(now, out.Trace)
	n.tally.traced(out.Trace)
	seen := *n.look()
	before := seen.view
	if out.Changed {
		seen = seen.seeing(clone(n.machine.View(now)), n.machine.Durable().Held)
		seen.votesAt = n.machine.VotesAt()
		n.heard.needs(seen.view.Members, seen.held.Roster)
	}
	if out.Persist != nil {
		// A disk may take longer than the lease runs.
		now = n.clock()
	}
	version, until := n.machine.Authority(now)
	began := n.terms.update(now, seen.view, authority{version, until})
	if began != nil {
		seen.term = began
	}
	n.holdings.update(now, n.machine, out.Changed || len(out.Answers) > 0)
	n.table.set(n.machine.Records())
	cause, ended := n.elections.leads(now, seen.view, began)
	if out.Changed || began != nil {
		n.seen.set(seen)
	}
	n.asked.answered(out.Answers)
	for _, m := range out.Send {
		frame, err := wire.Encode(m)
		if err != nil {
			// One message that cannot be said is as one that was lost.
			n.meter.drop(dropUnsayable)
			n.log.Error("cannot encode a message",
				errAttr(err), slog.String("kind", m.Body.Kind().String()))
			continue
		}
		n.net.Notify(m.To, frame)
	}
	if out.Probe != nil {
		n.probe(*out.Probe)
	}
	if out.Changed {
		events := changes(before, seen.view, cause)
		n.hub.publish(seen.view, events)
		n.tally.happened(events)
		n.giveUp(events)
	}
	n.logTraces(out.Trace, ended)
	if ended {
		e := n.elections.newest()
		n.tally.ended(e, n.cfg.self)
		n.logElection(e)
	}
	for _, m := range restocked(before, seen.view) {
		n.logTaken(m.Address, takenStore)
	}
	n.noteRosterLost(n.machine.RosterLost())
	n.complain(now, ended)
	return stopped(out.Stop)
}

// giveUp ends what waits for members that are gone: at once where their host says
// that the process is not there, else when they are members no more.
func (n *Node) giveUp(events []Event) {
	for _, e := range events {
		c, ok := e.(MemberChanged)
		if !ok || c.Member.Address == n.cfg.self {
			continue
		}
		switch c.Member.Status {
		case member.Unreachable:
			n.net.Probe(c.Member.Identity, func() {})
		case member.Removed:
			n.messages.Removed(c.Member.Address)
		default:
		}
	}
}

// probe asks the host of a leader whether its process is gone.
func (n *Node) probe(p statemachine.Probe) {
	n.net.Probe(p.Leader, func() {
		select {
		case n.refusals <- p:
		case <-n.quit:
		}
	})
}

// noteRosterLost tells people once that they must act.
func (n *Node) noteRosterLost(lost bool) {
	if n.meter.rosterLost.Swap(lost) != lost && lost {
		n.log.Error("nobody can be elected any more; "+
			"bring the lost stores back, or let every node forget this cluster (athena recover)",
			errAttr(ErrRosterLost))
	}
}

// stopped says in the words of this package why the machine stopped.
func stopped(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, statemachine.ErrLeft):
		return ErrLeft
	case errors.Is(err, statemachine.ErrAddressInUse):
		return fmt.Errorf("%w by a later run of a node: stop one of the two", ErrAddressInUse)
	case errors.Is(err, statemachine.ErrSplitVersion):
		return ErrSplitVersion
	default:
		return err
	}
}

// closeTimeout bounds how long ending waits for handlers whose context ended.
const closeTimeout = 5 * time.Second

// shutdown ends everything the node started. Authority ends before the socket
// closes (protocol.md section 6).
func (n *Node) shutdown() {
	n.terms.close(n.cause)
	n.holdings.close(context.Background(), n.cause, 0)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	n.closeErr = errors.Join(n.messages.Close(ctx), n.store.Close())
	n.work.Wait()
	n.logStop()
	close(n.done)
}

// pump hands the node's own events to its receiver. A slow receiver lags.
func (n *Node) pump() {
	ctx := context.Background() // Events and Emit end with the node
	for e := range n.Events(ctx) {
		if n.mux.Emit(ctx, n.Self(), e) != nil {
			return
		}
	}
}
