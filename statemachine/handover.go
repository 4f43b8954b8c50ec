// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"errors"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// operatorState records the request of an operator: leave, hand over, or let others lead
// (protocol.md 6, leaving leader and drained).
type operatorState struct {
	drained bool
	leaving bool
	until   time.Time // when a leaving node stops at the latest
	nextAt  time.Time // when to send MemberLeave again
	// successors are proposed instead of this node until handOverUntil, in order of preference. If
	// named is set, only the first successor is proposed.
	successors    []member.Address
	named         bool
	handOverUntil time.Time
	handOverAt    time.Time // when to propose a successor next
}

// Errors of Transfer.
var (
	// ErrNotLeader means that the node is not a chosen leader.
	ErrNotLeader = errors.New("statemachine: not the leader")
	// ErrNotActive means that the successor is drained or is not an active member.
	ErrNotActive = errors.New("statemachine: not an active member that may lead")
)

// Leave starts to leave the cluster in an orderly way. When the node has left, after LeaderTimeout
// at the latest, Output.Stop is ErrLeft. A second call has no effect.
func (m *Machine) Leave(now time.Time) Output {
	m.beginCall(now)
	if !m.stopped && !m.operator.leaving {
		m.operator.leaving = true
		m.operator.until = m.now.Add(m.timing.LeaderTimeout)
		m.operator.nextAt = m.now
		switch m.role {
		case member.Leading:
			m.handOver(m.findSuccessors(), false)
		case member.Provisional:
			m.stepDown(member.Claim{}, CauseHandOver)
		case member.Seeking, member.Following:
		}
	}
	return m.endCall()
}

// Transfer hands leadership to the member at the given address, or to any suitable member if it is
// zero. If that member does not vote within HeartbeatInterval, another member is elected instead.
// Transfer returns ErrNotLeader or ErrNotActive.
func (m *Machine) Transfer(now time.Time, to member.Address) (Output, error) {
	m.beginCall(now)
	if m.stopped || m.role != member.Leading {
		return m.endCall(), ErrNotLeader
	}
	able := m.findSuccessors()
	if !to.IsZero() {
		able = slices.DeleteFunc(able, func(a member.Address) bool { return a == to })
		e, _ := m.durable.Held.Roster.Find(to)
		if !m.maySucceed(e) {
			return m.endCall(), ErrNotActive
		}
		able = slices.Insert(able, 0, to)
	} else if len(able) == 0 {
		return m.endCall(), ErrNotActive
	}
	m.handOver(able, true)
	m.operator.named = !to.IsZero()
	return m.endCall(), nil
}

// Drain asks the node to let other nodes lead for the rest of this run. A leader hands over as soon
// as there is a successor. The node stands for election only if no other node stands.
func (m *Machine) Drain(now time.Time) Output {
	m.beginCall(now)
	m.operator.drained = true
	return m.endCall()
}

// drainLeader hands leadership over if the node is drained.
func (m *Machine) drainLeader() {
	if m.operator.drained && m.role == member.Leading && m.isHealthy() {
		if able := m.findSuccessors(); len(able) > 0 {
			m.handOver(able, true)
		}
	}
}

// findSuccessors returns the members to which this leader can hand over. The members that showed
// the newest state come first.
func (m *Machine) findSuccessors() []member.Address {
	var able []*peer
	for _, e := range m.durable.Held.Roster {
		if p := m.lead.peer(e.Address); m.maySucceed(e) &&
			m.now.Sub(p.heard) < m.timing.HeartbeatTimeout {
			able = append(able, p)
		}
	}
	slices.SortStableFunc(able, func(a, b *peer) int { return b.number.Compare(a.number) })
	out := make([]member.Address, len(able))
	for i, p := range able {
		out[i] = p.id.Address
	}
	return out
}

// maySucceed reports whether this leader may hand over to a member of the held state: the member is
// active and not drained, and has shown a state of this leadership.
func (m *Machine) maySucceed(e member.Member) bool {
	p := m.lead.peer(e.Address)
	return e.Shown() == member.Active && p != nil && p.follows(e) && !p.drained
}

// handOver ends this leadership, which frees its followers, and then proposes one of the
// successors. The argument stays is true if this node remains a member.
func (m *Machine) handOver(successors []member.Address, stays bool) {
	given := m.leader
	var to member.Address
	if len(successors) > 0 {
		to = successors[0]
	}
	m.trace(Trace{Kind: SteppedDown, Peer: to, Version: given.Version, Cause: CauseHandOver})
	m.endLeadership(given)
	// As in stepDown, the headers carry no claim.
	for _, e := range m.durable.Held.Roster {
		m.send(e.Address, message.MemberLeave{GivenUp: given, Successor: to, Stays: stays})
	}
	m.join.nextAt = m.now.Add(m.timing.RetryInterval)
	if to.IsZero() {
		m.inquiry.nextAt = m.now
		return
	}
	m.operator.successors, m.operator.named = successors, false
	m.operator.handOverUntil = m.now.Add(m.timing.LeaderTimeout)
	m.inquiry.nextAt = m.operator.handOverUntil
	m.operator.handOverAt = m.now
}

// tickLeave proposes a successor, sends MemberLeave, and stops a node that has left.
func (m *Machine) tickLeave() {
	o := &m.operator
	if !o.handOverUntil.IsZero() {
		switch {
		case m.hasChosenLeader() || m.due(o.handOverUntil) || !m.isVoter():
			o.handOverUntil, o.handOverAt = time.Time{}, time.Time{}
		case !m.isProposing() && m.due(o.handOverAt):
			o.handOverAt = m.now.Add(m.timing.handOverInterval())
			candidates := o.successors
			if o.named {
				candidates, o.named = candidates[:1], false
			}
			m.startElection(candidates...)
		}
	}
	if !o.leaving {
		return
	}
	e, _ := m.durable.Held.Roster.Find(m.self.Address)
	handing := !o.handOverUntil.IsZero()
	gone := m.role == member.Following && m.leader.Chosen && e.Status == member.Leaving && e.Resigned
	alone := m.role == member.Seeking && !handing
	if gone || alone || m.due(o.until) {
		m.trace(Trace{Kind: Left, Peer: m.self.Address})
		m.becomeStopped(ErrLeft)
		return
	}
	if m.role == member.Following && m.due(o.nextAt) {
		o.nextAt = m.now.Add(m.timing.HeartbeatInterval)
		m.send(m.leader.Leader, message.MemberLeave{})
	}
}

// hasChosenLeader reports whether this node leads or follows a chosen leader. A provisional leader
// does not end a hand-over: nodes that were cut off may follow one while a successor is being
// proposed (protocol.md 6, leaving leader).
func (m *Machine) hasChosenLeader() bool {
	if m.role == member.Following {
		return m.leader.Chosen
	}
	return m.role != member.Seeking
}

func (m *Machine) leaveDeadline(d *deadline) {
	d.add(m.operator.handOverUntil)
	if !m.isProposing() {
		d.add(m.operator.handOverAt)
	}
	if m.operator.leaving {
		d.add(m.operator.until)
		if m.role == member.Following {
			d.add(m.operator.nextAt)
		}
	}
}

// onMemberLeave handles MemberLeave from a member that leaves or from a leader that hands over.
// Such a leader frees the support of its followers and then proposes its successor.
func (m *Machine) onMemberLeave(in message.Message, b message.MemberLeave) {
	if b.GivenUp.IsZero() {
		m.markMemberLeaving(in)
	} else {
		m.leaveGivenUp(in, b.GivenUp, CauseHandOver, m.timing.successorTimeout())
	}
}

// markMemberLeaving changes the status of a member that announced that it leaves.
func (m *Machine) markMemberLeaving(in message.Message) {
	e, ok := m.shownState().Roster.Find(in.From.Address)
	switch {
	case m.role != member.Leading && m.role != member.Provisional:
		m.drop(in, message.ReasonNotLeader)
	case !ok || e.Identity != in.From:
		m.drop(in, message.ReasonUnknownMember)
	case !m.mayChange():
		m.drop(in, message.ReasonLeaderBound)
	case e.Status == member.Leaving && e.Resigned:
		// already marked
	case e.Status == member.Joining || m.role == member.Provisional:
		m.changeRoster(m.shownState().Roster.Without(e.Address), member.Address{})
	default:
		e.Status, e.Resigned = member.Leaving, true
		m.changeRoster(m.shownState().Roster.With(e), e.Address)
	}
}
