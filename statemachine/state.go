// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"fmt"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// onElected takes the initial state of a chosen leader.
func (m *Machine) onElected(in message.Message, b message.LeaderElected) {
	if reason := m.mayTakeFrom(in.From, b.State); reason != message.ReasonNone {
		m.drop(in, reason)
		return
	}
	m.takeAndFollow(b.State, b.State.LeaderIdentity())
}

// onAlignment takes a whole state from its leader.
func (m *Machine) onAlignment(in message.Message, b message.ClusterAlignment) {
	c := member.Claim{Chosen: in.Claim.Chosen, Version: b.State.Version, Leader: b.State.Leader}
	if in.Claim != c || c.Leader != in.From.Address {
		m.drop(in, message.ReasonOtherLeader)
		return
	}
	if !c.Chosen {
		m.takeSoftState(in, b.State)
		return
	}
	if reason := m.mayTakeFrom(in.From, b.State); reason != message.ReasonNone {
		m.drop(in, reason)
		return
	}
	m.takeAndFollow(b.State, in.From)
}

// onMemberStatusUpdate applies a change of one entry to the revision before it.
func (m *Machine) onMemberStatusUpdate(in message.Message, b message.MemberStatusUpdate) {
	if !m.isNextRevision(in, b.Number) {
		return
	}
	s := m.shownState()
	next := s.Next(s.Roster.With(b.Member))
	if !m.isChoosable(next) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	m.takeAndFollow(next, in.From)
}

// isNextRevision reports whether revision n from the leader follows the held state. If not, it
// drops the message.
func (m *Machine) isNextRevision(in message.Message, n member.Number) bool {
	held := m.shownState().Number
	var reason message.Reason
	switch {
	case m.role != member.Following || in.From != m.follow.leader || in.Claim != m.claim(),
		!m.claim().Chosen: // a provisional leader sends only whole states
		reason = message.ReasonOtherLeader
	case m.claim().Version < m.durable.Least():
		reason = message.ReasonBound
	case n.Version != m.claim().Version:
		reason = message.ReasonOtherVersion
	case n.Compare(held) <= 0:
		reason = message.ReasonOldState
	case n != member.Number{Version: held.Version, Revision: held.Revision + 1}:
		reason = message.ReasonRevisionGap
	default:
		return true
	}
	m.drop(in, reason)
	// Ask for alignment once per gap.
	if reason == message.ReasonRevisionGap && m.follow.askedGap.Less(n) {
		m.follow.askedGap = n
		m.sendKeepAlive()
	}
	return false
}

// takeSoftState takes the state of the provisional leader that this node follows.
func (m *Machine) takeSoftState(in message.Message, s member.State) {
	if !m.isPlausible(s) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	if !m.follows(in.From) || m.claim() != in.Claim {
		m.drop(in, message.ReasonOtherLeader)
		return
	}
	if !s.Roster.Has(m.self) {
		// The number does not matter: a leader that has declared itself again counts from 0.
		m.soft = member.State{}
		m.askForPlace(in.Claim)
		return
	}
	if !m.soft.Number.Less(s.Number) && !m.soft.IsZero() {
		m.drop(in, message.ReasonOldState)
		return
	}
	m.soft = s
	m.shown.changed = true
	m.sendKeepAlive()
}

// takeAndFollow takes the state of a chosen leader and follows that leader if it is the best one
// known.
func (m *Machine) takeAndFollow(s member.State, from member.Identity) {
	m.takeState(s)
	if m.stopped || m.role == member.Leading {
		return
	}
	m.followState(s, from)
}

// followState follows the leader of a state that was just taken.
func (m *Machine) followState(s member.State, leader member.Identity) {
	c := s.Claim()
	switch {
	case m.claim().BetterThan(c) || c.Leader == m.self.Address:
	case !s.Roster.Has(m.self):
		// The state lists another run of this node, or does not list the node.
		if m.join.target != c {
			m.askForPlace(c)
		}
	case m.role == member.Following && m.claim() == c && m.follow.leader == leader:
		m.sendKeepAlive()
	default:
		m.becomeFollower(c, leader)
	}
}

// mayTakeFrom returns the reason not to take a chosen state that a process sent, or ReasonNone.
func (m *Machine) mayTakeFrom(from member.Identity, s member.State) message.Reason {
	if !m.isTrusted(from) {
		return message.ReasonUnknownMember
	}
	if m.findsOwnCopy(from, s) {
		return message.ReasonRestored
	}
	return m.mayTake(s)
}

// mayTake returns the reason not to take a chosen state, or ReasonNone. (S) The state must
// be newer, of this cluster, and not below the version to which the node is bound.
func (m *Machine) mayTake(s member.State) message.Reason {
	switch {
	case !m.isChoosable(s):
		return message.ReasonNotCandidate
	case s.Version < m.durable.Bound():
		return message.ReasonBound
	case !m.heldNumber().Less(s.Number):
		return message.ReasonOldState
	case m.heldOfAnother(s.Version, s.LeaderIdentity()),
		s.Version == m.heldNumber().Version && m.role == member.Leading:
		// A version has one leader, and only that leader makes its states.
		return message.ReasonOtherLeader
	}
	return message.ReasonNone
}

// heldOfAnother reports whether this node holds a state of a version that another run leads. If
// that version has a leader again, a majority of the stores was restored from copies. This node
// then continues to show its state, so that the leader finds it.
func (m *Machine) heldOfAnother(version uint64, leader member.Identity) bool {
	return version == m.heldNumber().Version && leader != m.durable.Held.LeaderIdentity()
}

// takeState makes s, which mayTake allowed, the held state. A leader that takes a state of a later
// version stops leading. If that state names this node as its leader, the node starts to lead.
func (m *Machine) takeState(s member.State) {
	before := m.durable.Held
	if m.role == member.Leading && s.Version > m.claim().Version ||
		m.role == member.Provisional && m.heldNumber().IsZero() {
		m.stepDown(member.Claim{}, CauseOutvoted)
	}
	m.setHeld(s)
	m.traceMoves(before, s)
	m.dropAttempt() // the attempt is based on an older state
	if s.Version > before.Version {
		m.inquiry.id = 0
		if m.follow.claim == s.Claim() {
			m.follow.healthyAt = m.now
		}
	}
	if m.isReplaced(s) {
		m.becomeStopped(ErrAddressInUse)
		return
	}
	if m.role == member.Following && m.claim().Chosen && m.claim().Version < s.Version {
		// The state came from another node; its leader has not sent anything yet.
		m.overruleLeader(CauseOutvoted)
	}
	m.admitted = m.admitted || s.Roster.Has(m.self)
	if s.Version > before.Version && s.LeaderIdentity() == m.self {
		m.becomeLeader(member.Identity{})
		// Another node proposed this leader, and sends its state to all members now. So their first
		// keep-alives can echo a stamp: authority begins a round trip sooner.
		m.sendAcks(true)
	}
}

// setHeld makes s the held state. It panics unless s is newer, so no leader leads its version, or
// an earlier one, again.
func (m *Machine) setHeld(s member.State) {
	before := m.durable.Held
	if !before.Less(s.Number) {
		panic(fmt.Sprintf("statemachine: %v is not newer than the held %v", s.Number, before.Number))
	}
	d := m.durable
	d.Acceptor = d.Take(s)
	m.persist(d)
	m.digest = s.Digest()
	m.shown.changed = true
	if before.Version < s.Version {
		m.inquiry.yieldUntil = m.now // the election that this node voted in has ended
	}
	m.dropLostRecords(before)
	m.showRecords()
	if m.role == member.Leading {
		m.updateOwners(before, s)
	}
}

// traceMoves traces each change of a member's status.
func (m *Machine) traceMoves(before, after member.State) {
	for _, e := range after.Roster {
		old, ok := before.Roster.Find(e.Address)
		if !ok || old.Shown() != e.Shown() {
			m.trace(Trace{Kind: MemberMoved, Peer: e.Address, Status: e.Shown()})
		}
	}
	for _, e := range before.Roster {
		if _, ok := after.Roster.Find(e.Address); !ok {
			m.trace(Trace{Kind: MemberMoved, Peer: e.Address, Status: member.None})
		}
	}
}

// Limits of the numbers in messages. Greater numbers are refused. Otherwise one message could use
// up the numbers that receivers accept (member.MaxCount), or move the fencing token beyond what
// fits into one integer (member.Token.Int64).
const (
	// maxRunJump is how far a member's incarnation may be above the known one. An incarnation is
	// the time in milliseconds since 1970, or one more than the last incarnation if that is
	// greater.
	maxRunJump = 1 << 44
	// maxRunLead is how far the incarnation of a joiner may be above the leader's, 278 years. It is
	// less than maxRunJump, so that any other store can still exceed a joiner at its address.
	maxRunLead = 1 << 43
	// maxRunsBetween is how far it may in any case be above the known run of the address: a process
	// may be started that often before it joins again.
	maxRunsBetween = 1 << 10
)

// isPlausible reports whether a leader of a cluster of this size could have made s.
func (m *Machine) isPlausible(s member.State) bool {
	leader, ok := s.Roster.Find(s.Leader)
	return ok && leader.Status == member.Active && len(s.Roster) <= m.cfg.Size &&
		s.Version > 0 && s.Version <= member.MaxVersion
}

// isChoosable reports whether M votes could have chosen the leader of s in this node's cluster. A
// founding starts with M voters, and no change leaves fewer.
func (m *Machine) isChoosable(s member.State) bool {
	return m.isPlausible(s) && !s.Cluster.IsZero() && s.Roster.Voters() >= m.quorum &&
		(m.clusterID().IsZero() || s.Cluster == m.clusterID())
}

// isValidValue reports whether a value that was proposed or accepted is internally consistent.
func (m *Machine) isValidValue(a paxos.Accepted) bool {
	founded := a.Base.IsZero() && a.ID.Version == 1 && a.State.Version <= paxos.MaxFloor+1
	return m.isChoosable(a.State) && (a.State.Version == a.ID.Version || founded) &&
		a.State.Revision == 0 && a.Base.Version < a.ID.Version
}
