// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// handleClaimFrom hears a claim that came with a message if its sender is believed.
func (m *Machine) handleClaimFrom(in message.Message, c member.Claim) {
	if m.isTrustedSender(in) {
		m.handleClaim(c, in.From.Address)
	}
}

// handleClaim compares a claim with the leader followed (protocol.md section 7) and
// joins the better one. from is the sender.
func (m *Machine) handleClaim(c member.Claim, from member.Address) {
	switch {
	case c.IsZero() || c.Leader == m.self.Address || m.stopped:
		return
	case c.Chosen && c.Version < m.heldNumber().Version:
		return
	case c.Chosen && c.Version == m.heldNumber().Version && c.Leader != m.durable.Held.Leader:
		return
	case !c.BetterThan(m.leader):
		return
	case c == m.join.unresponsive:
		return
	case m.role == member.Seeking && c == m.join.suspected && from != c.Leader:
		// Other nodes miss a leader later. Their claims do not bring it back.
		return
	case m.role == member.Seeking && c == m.join.refused:
		return
	case m.role == member.Seeking && m.awaitsAnswer(c, from):
		return
	}
	switch m.role {
	case member.Leading, member.Provisional:
		m.stepDown(c, conflictCause(m.leader, c))
	case member.Following:
		// Every node that knows the better claim sends it to the loser.
		if m.leader.Leader != c.Leader {
			m.send(m.leader.Leader, message.LeaderRelieve{Winner: c})
		}
		m.overruleLeader(conflictCause(m.leader, c))
		m.askForPlace(c)
	case member.Seeking:
		m.askForPlace(c)
	}
}

// awaitsAnswer reports whether a leader that is at least as good was asked for a place and
// may still answer. If it claims itself HeartbeatInterval after the request, the request or
// the answer was lost, unless it answered that this node has to wait.
func (m *Machine) awaitsAnswer(c member.Claim, from member.Address) bool {
	s := &m.join
	if s.target.IsZero() || c.BetterThan(s.target) {
		return false
	}
	lost := c == s.target && from == c.Leader && !s.mustWait &&
		m.now.Sub(s.lastAskedAt) >= m.timing.HeartbeatInterval
	return !lost
}

// onSeedKeepAlive answers with this node's claim, and with LeaderRelieve if the sender's is
// worse. If the sender's is better, this node hears it with the header.
func (m *Machine) onSeedKeepAlive(in message.Message) {
	if m.leader.BetterThan(in.Claim) {
		m.refuse(in, message.ReasonWorseClaim)
		m.send(in.From.Address, message.LeaderRelieve{Winner: m.leader})
	}
	m.send(in.From.Address, message.SeedKeepAliveAck{})
}

// stepDown gives leadership up. All members get ReJoinCluster, joining ones too (case4 of the
// original design), and this run never leads this version again.
func (m *Machine) stepDown(winner member.Claim, cause Cause) {
	given := m.leader
	members := m.targets(addresses(m.shownState().Roster), m.waitingAddresses())
	m.trace(Trace{Kind: SteppedDown, Peer: winner.Leader, Version: given.Version, Cause: cause})
	m.endLeadership(given)
	// Sent only now, the headers claim nothing; otherwise the receivers would join again.
	for _, to := range members {
		m.send(to, message.ReJoinCluster{GivenUp: given, Winner: winner})
	}
	if winner.IsZero() {
		m.join.nextAt = m.now.Add(m.jitter(m.timing.roundJitter()))
		m.inquiry.nextAt = m.now
		return
	}
	m.askForPlace(winner)
}

// onReJoin leaves a leader that gave up. It frees this node's support of just
// that leadership of that run.
func (m *Machine) onReJoin(in message.Message, b message.ReJoinCluster) {
	if b.GivenUp.Leader != in.From.Address {
		m.drop(in, message.ReasonOtherLeader)
		return
	}
	m.freeSupport(in.From, b.GivenUp)
	if m.role == member.Following && m.leader == b.GivenUp {
		cause := CauseLease // or it voted for another leader
		if !b.Winner.IsZero() {
			cause = conflictCause(b.GivenUp, b.Winner)
		}
		m.suspectLeader(Trace{Event: message.KindReJoinCluster, Cause: cause}, 0)
	} else if m.role == member.Seeking && m.join.target == b.GivenUp {
		m.join.target = member.Claim{}
	}
	m.handleClaimFrom(in, b.Winner)
}
