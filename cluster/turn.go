// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// persist saves what the machine wants to be durable, before anything else of its output
// is carried out. An error ends the node.
func (n *Node) persist(d *paxos.Durable) error {
	if d == nil {
		return nil
	}
	if err := n.save(*d); err != nil {
		return fmt.Errorf("cluster: the store cannot save, so the node may not go on: %w", err)
	}
	return nil
}

// apply carries out the rest of the output of a turn that began at some time: terms and
// holdings end first, then the view is published, then messages leave, since a message may
// allow another node to act. An error ends the node.
func (n *Node) apply(began time.Time, out statemachine.Output) error {
	now := began
	if out.Persist != nil {
		now = n.clock() // a disk may take longer than the lease runs
	}
	before, after := n.look(), n.takeSnapshot(began, out.Changed)
	newTerm := n.updateTrust(now, &after, out)
	changes := n.observer.Observe(observe.Turn{
		Began: began, Now: now, Traces: out.Trace, Changed: out.Changed, Before: before.view,
		NewTerm: newTerm, State: n.stateOf(&after),
	})
	if out.Changed || newTerm != (observe.Leader{}) || after.rosterLost != before.rosterLost {
		n.publish(after, changes)
	}
	n.records.DeliverAnswers(out.Answers)
	n.send(out)
	n.giveUp(changes)
	return stopError(out.Stop)
}

// takeSnapshot returns what the node sees after a turn, but for its term.
func (n *Node) takeSnapshot(now time.Time, changed bool) sight {
	s := *n.look()
	if changed {
		s = s.seeing(clone(n.machine.View(now)), n.machine.Durable().Held)
		s.votesAt = n.machine.VotesAt()
	}
	s.rosterLost = n.machine.RosterLost()
	return s
}

// updateTrust ends the term and the holdings that the node has lost, and begins new ones. It
// returns the leader of the term that began, zero for none.
func (n *Node) updateTrust(
	now time.Time, s *sight, out statemachine.Output,
) (newTerm observe.Leader) {
	version, until := n.machine.Authority(now)
	began := n.terms.update(now, s.view, authority{version, until})
	if began != nil {
		s.term = began
	}
	n.records.Update(now, n.machine, out.Changed || len(out.Answers) > 0)
	return leaderOfTerm(began)
}

// publish shows readers what the node sees now.
func (n *Node) publish(s sight, c observe.Changes) {
	n.seen.set(s)
	n.hub.publish(s.view, eventsOf(c, s.view))
}

// send hands the messages of a turn to the transport, and asks the host of a lost leader
// whether its process is gone.
func (n *Node) send(out statemachine.Output) {
	for _, m := range out.Send {
		n.sendMessage(m)
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

// sendMessage sends one message. A message that cannot be encoded is as good as lost.
func (n *Node) sendMessage(m message.Message) {
	frame, err := wire.Encode(m)
	if err != nil {
		n.observer.Drop(member.Identity{}, dropUnencodable, nil)
		n.log.Error("cannot encode a message",
			observe.ErrAttr(err), slog.String("kind", m.Body.Kind().String()))
		return
	}
	n.net.Notify(m.To, frame)
}

// dropUnencodable is counted for a message of this node that cannot be sent.
const dropUnencodable = "cannot be encoded"

// giveUp ends what waits for members that are gone: at once if their host reports that the
// process is not there, else when they are removed.
func (n *Node) giveUp(c observe.Changes) {
	for _, m := range c.Members {
		if m.After.Address == n.cfg.self {
			continue
		}
		switch m.After.Status {
		case member.Unreachable:
			n.net.Probe(m.After.Identity, func() {})
		case member.Removed:
			n.messages.Removed(m.After.Address)
		default:
		}
	}
}

// stateOf is what the node sees, for its observer.
func (n *Node) stateOf(s *sight) observe.State {
	return observe.State{
		View:        s.view,
		Held:        s.held,
		Provisional: s.provisional,
		Leader:      leaderOfTerm(s.live()),
		Drained:     n.drained.Load(),
		HandingOver: n.drained.Load() || n.terms.handsOver(),
		RosterLost:  s.rosterLost,
	}
}

// leaderOfTerm is the leader of a term, zero for nil.
func leaderOfTerm(t *tenure) observe.Leader {
	if t == nil {
		return observe.Leader{}
	}
	return observe.Leader{Address: t.leader.Address, Version: t.version}
}

// stopError is the error of this package for the reason why the machine stopped.
func stopError(err error) error {
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
