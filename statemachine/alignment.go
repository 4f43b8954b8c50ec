// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// onAlignment takes a whole state from its leader.
func (m *Machine) onAlignment(in message.Message, b message.ClusterAlignment) {
	c := member.Claim{Chosen: in.Claim.Chosen, Version: b.State.Version, Leader: b.State.Leader}
	if in.Claim != c || c.Leader != in.From.Address {
		m.drop(in, message.ReasonOtherLeader)
		return
	}
	if !c.Chosen {
		m.takeSoft(in, b.State)
		return
	}
	if reason := m.mayTakeFrom(in.From.Address, b.State); reason != message.ReasonNone {
		m.drop(in, reason)
		return
	}
	m.takeAndFollow(b.State, in.From)
}

// onMemberStatusUpdate applies one changed entry to the revision before it.
func (m *Machine) onMemberStatusUpdate(in message.Message, b message.MemberStatusUpdate) {
	if !m.isNextRevision(in, b.Number) {
		return
	}
	s := m.state()
	next := s.Next(s.Roster.With(b.Member))
	if !m.choosable(next) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	m.takeAndFollow(next, in.From)
}

// isNextRevision reports whether an update of the leader followed is of the revision after the
// held state.
func (m *Machine) isNextRevision(in message.Message, n member.Number) bool {
	held := m.state().Number
	var reason message.Reason
	switch {
	case m.role != member.Following || in.From != m.follow.leader || in.Claim != m.leader,
		!m.leader.Chosen: // a provisional one sends its state whole
		reason = message.ReasonOtherLeader
	case m.leader.Version < m.durable.Bound():
		reason = message.ReasonBound
	case n.Version != m.leader.Version:
		reason = message.ReasonOtherVersion
	case n.Compare(held) <= 0:
		reason = message.ReasonOldState
	case n != member.Number{Version: held.Version, Revision: held.Revision + 1}:
		reason = message.ReasonRevisionGap
	default:
		return true
	}
	m.drop(in, reason)
	// A gap asks for alignment at once, but only once each.
	if reason == message.ReasonRevisionGap && m.follow.askedGap.Less(n) {
		m.follow.askedGap = n
		m.sendKeepAlive()
	}
	return false
}

// takeSoft shows the state of the provisional leader that is followed.
func (m *Machine) takeSoft(in message.Message, s member.State) {
	if !m.plausible(s) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	if m.role != member.Following || m.leader != in.Claim {
		m.drop(in, message.ReasonOtherLeader)
		return
	}
	if !s.Roster.Has(m.self) {
		// Its number does not matter: a leader that declared itself again starts from 0.
		m.soft = member.State{}
		m.askForPlace(in.Claim)
		return
	}
	if !m.soft.Number.Less(s.Number) && !m.soft.IsZero() {
		m.drop(in, message.ReasonOldState)
		return
	}
	m.soft = s
	m.shown.moved = true
	m.sendKeepAlive()
}

// takeAndFollow takes a chosen leader's state, follows it when it is the best
// leader known, and shows it that the state arrived.
func (m *Machine) takeAndFollow(s member.State, from member.Identity) {
	m.take(s)
	if m.stopped || m.role == member.Leading {
		return
	}
	m.followState(s, from)
}

// followState follows the leader of a state that was just taken.
func (m *Machine) followState(s member.State, leader member.Identity) {
	c := s.Claim()
	switch {
	case m.leader.BetterThan(c) || c.Leader == m.self.Address:
	case !s.Roster.Has(m.self):
		// It names another run of this node, or none: ask for a place.
		if m.join.target != c {
			m.askForPlace(c)
		}
	case m.role == member.Following && m.leader == c && m.follow.leader == leader:
		m.sendKeepAlive()
	default:
		m.becomeFollower(c, leader)
	}
}
