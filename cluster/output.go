// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// persist saves the part of an output that must be durable before apply is called. An error stops
// the node.
func (n *Node) persist(now time.Time, in diagnosis.Input, out statemachine.Output) error {
	if n.recorder != nil {
		if err := n.recorder.RecordTurn(now, in, out); err != nil {
			return fmt.Errorf("cluster: stopping: cannot record a turn: %w", err)
		}
	}
	if out.Persist == nil {
		return nil
	}
	if err := n.saveDurable(*out.Persist); err != nil {
		return fmt.Errorf("cluster: stopping: cannot save state: %w", err)
	}
	n.machine.NoteSaved(n.clock())
	return nil
}

// apply applies the output of a turn, except the part that persist has saved. It ends terms and
// leases first, then publishes the view, and sends messages last, because a message may allow
// another node to act. An error stops the node.
func (n *Node) apply(began time.Time, out statemachine.Output) error {
	now := began
	if out.Persist != nil {
		now = n.clock() // the save may have taken longer than the lease lasts
	}
	before, after := n.currentSnapshot(), n.takeSnapshot(began, out.Changed)
	newTerm := n.updateLeases(now, &after, out)
	changes := n.observeTurn(&after, diagnosis.Turn{
		Began: began, Now: now, Traces: out.Trace, Changed: out.Changed, Before: before.view,
		NewTerm: newTerm,
	})
	if out.Changed || newTerm != (diagnosis.Leader{}) || after.rosterLost != before.rosterLost {
		n.publishSnapshot(after, changes)
	}
	if after.view.Self.StoreID != before.view.Self.StoreID {
		n.net.ReplaceConns() // each connection proves one store
	}
	n.records.DeliverAnswers(out.Answers)
	n.works.deliverAnswers(out.Relayed, n.machine)
	n.sendOutput(out)
	n.handleLostMembers(changes)
	return n.stopError(out.Stop)
}

// takeSnapshot returns a snapshot of the node after a turn, but with the term from before the turn.
func (n *Node) takeSnapshot(now time.Time, changed bool) snapshot {
	s := *n.currentSnapshot()
	if changed {
		s = s.withView(cloneView(n.machine.View(now)), n.machine.Durable().Held)
		s.votesAt, s.traits = n.machine.VotesAt(), n.machine.Traits()
	}
	s.rosterLost = n.machine.RosterLost()
	return s
}

// updateLeases updates the term and the leases of records. If a term began, it returns the leader.
func (n *Node) updateLeases(
	now time.Time, s *snapshot, out statemachine.Output,
) (newTerm diagnosis.Leader) {
	version, until := n.machine.Authority(now)
	began := n.terms.updateTerm(now, s.view, version, until)
	if began != nil {
		s.term = began
	}
	n.records.Update(now, n.machine, out.Changed || len(out.Answers) > 0)
	return leaderOfTerm(began)
}

// observeTurn completes a turn with what the node knows after it, and observes it.
func (n *Node) observeTurn(after *snapshot, t diagnosis.Turn) diagnosis.Changes {
	t.State = n.stateOf(after, after.liveTerm())
	t.QuorateUntil = n.machine.QuorateUntil(t.Began)
	return n.reporter.Observe(t)
}

// publishSnapshot publishes a snapshot and the events that led to it.
func (n *Node) publishSnapshot(s snapshot, c diagnosis.Changes) {
	n.snapshots.store(s)
	n.hub.publishEvents(s.view, eventsOf(c, s.view))
}

// sendOutput hands the messages of a turn to the transport, and prepares the connections that an
// election needs. A probe asks the host of a late leader whether the leader's process is still
// running; an election may follow soon.
func (n *Node) sendOutput(out statemachine.Output) {
	for _, m := range out.Send {
		n.sendMessage(m)
	}
	if out.Changed || out.Probe != nil {
		n.net.Prepare(n.machine.FirstToAsk(), out.Probe != nil)
	}
	if p := out.Probe; p != nil {
		n.net.Probe(p.Leader, func() {
			select {
			case n.refusals <- *p:
			case <-n.life.Done():
			}
		})
	}
}

// sendMessage sends one message. A message that cannot be encoded counts as lost.
func (n *Node) sendMessage(m message.Message) {
	frame, err := wire.Encode(m)
	if err != nil {
		n.reporter.DropFrame(member.Identity{}, dropUnencodable, nil)
		n.log.Error("cannot encode a message",
			diagnosis.ErrAttr(err), slog.String("kind", m.Body.Kind().String()))
		return
	}
	n.net.Notify(m.To, frame)
}

// dropUnencodable is the reason for dropping a message of this node that cannot be encoded.
const dropUnencodable = "cannot be encoded"

// handleLostMembers ends what waits for members that are no longer active. It also probes
// unreachable members: if the host refuses packets to the port, the leader learns it sooner.
func (n *Node) handleLostMembers(c diagnosis.Changes) {
	for _, m := range c.Members {
		if m.After.Address == n.cfg.self {
			continue
		}
		switch m.After.Status {
		case member.Unreachable:
			n.net.Probe(m.After.Identity, func() {})
			n.messages.Inactive(m.After)
		case member.Removed:
			n.messages.Inactive(m.After)
		default:
		}
	}
}

// stateOf converts a snapshot for the observer. The caller checks once whether its term lives.
func (n *Node) stateOf(s *snapshot, live *clusterTerm) diagnosis.State {
	return diagnosis.State{
		View:        s.view,
		Held:        s.held,
		Provisional: s.provisional,
		Leader:      leaderOfTerm(live),
		Drained:     n.drained.Load(),
		Preference:  s.traits.Preference,
		RosterLost:  s.rosterLost,
	}
}

// leaderOfTerm returns the leader of a term, or the zero Leader if t is nil.
func leaderOfTerm(t *clusterTerm) diagnosis.Leader {
	if t == nil {
		return diagnosis.Leader{}
	}
	return diagnosis.Leader{Address: t.leader, Version: t.version}
}

// laterRun returns what other nodes reported about the process that replaced this run, or "".
func (n *Node) laterRun() string {
	if reason := n.replacedBy.Load(); reason != nil {
		return " (" + safetext.PeerText(*reason) + ")"
	}
	return ""
}

// stopError returns the error of this package for the reason that the machine stopped.
func (n *Node) stopError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, statemachine.ErrLeft):
		return ErrLeft
	case errors.Is(err, statemachine.ErrAddressInUse):
		return fmt.Errorf("%w: a later run has joined as %s%s: another process has a copy of the data "+
			"directory, or took the place while this node was silent: stop the one that does not run at "+
			"this address, remove its data directory, and start the other one again",
			ErrAddressInUse, n.cfg.self, n.laterRun())
	case errors.Is(err, statemachine.ErrSplitVersion):
		return ErrSplitVersion
	default:
		return err
	}
}
