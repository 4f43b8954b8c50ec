// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// onElected takes the initial state of a chosen leader.
func (m *Machine) onElected(in message.Message, b message.LeaderElected) {
	if reason := m.mayTakeFrom(in.From.Address, b.State); reason != message.ReasonNone {
		m.drop(in, reason)
		return
	}
	m.takeAndFollow(b.State, b.State.LeaderIdentity())
}

// mayTakeFrom returns the reason why a chosen state sent from a must not become the held
// one; ReasonNone if it may.
func (m *Machine) mayTakeFrom(a member.Address, s member.State) message.Reason {
	if !m.trustsAddress(a) {
		return message.ReasonUnknownMember
	}
	return m.mayTake(s)
}

// mayTake returns the reason why a chosen state must not become the held one; ReasonNone if
// it may. (S) It must be a newer state of this cluster, and not below the version that the
// node is bound to.
func (m *Machine) mayTake(s member.State) message.Reason {
	switch {
	case !m.choosable(s):
		return message.ReasonNotCandidate
	case s.Version < m.durable.Bound():
		return message.ReasonBound
	case !m.held().Less(s.Number):
		return message.ReasonOldState
	case s.Version == m.held().Version &&
		(s.Leader != m.durable.Held.Leader || m.role == member.Leading):
		// One version has one leader, and only that one makes its states.
		return message.ReasonOtherLeader
	}
	return message.ReasonNone
}

// take makes s, the state of a chosen leader, the held state. mayTake allowed
// it. A leader that takes the state of a later version stops leading. A node that a new
// version names as its leader starts to lead it.
func (m *Machine) take(s member.State) {
	before := m.durable.Held
	if m.role == member.Leading && s.Version > m.leader.Version ||
		m.role == member.Provisional && m.held().IsZero() {
		m.stepDown(member.Claim{}, CauseOutvoted)
	}
	m.hold(s)
	m.traceMoves(before, s)
	if s.Version > before.Version {
		m.dropAttempt()
		m.inquiry.id = 0
		if m.follow.claim == s.Claim() {
			m.follow.healthyAt = m.now
		}
	} else if m.isProposing() {
		// The proposal was built on an older state.
		m.dropAttempt()
	}
	if m.isReplaced(s) {
		m.becomeStopped(ErrAddressInUse)
		return
	}
	if m.role == member.Following && m.leader.Chosen && m.leader.Version < s.Version {
		// Another node sent it, and its leader has not been heard yet.
		m.overruleLeader(CauseOutvoted)
	}
	m.admitted = m.admitted || s.Roster.Has(m.self)
	if s.Version > before.Version && s.LeaderIdentity() == m.self {
		m.becomeLeader(member.Identity{})
	}
}

// hold stores s as the held state.
func (m *Machine) hold(s member.State) {
	before := m.durable.Held
	d := m.durable
	d.Acceptor = d.Take(s)
	m.persist(d)
	m.digest = s.Digest()
	m.shown.moved = true
	m.heldRecords(s)
	if m.role == member.Leading {
		m.heldTable(before, s)
	}
}

// isReplaced reports whether a later run at this address has this node's place, so that
// this run must stop (protocol.md section 3).
func (m *Machine) isReplaced(s member.State) bool {
	e, ok := s.Roster.Find(m.self.Address)
	if !ok || e.Incarnation <= m.self.Incarnation {
		return false
	}
	return e.StoreID == m.self.StoreID || m.admitted
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
