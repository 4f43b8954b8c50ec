// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// handleClaimFrom handles the claim in a message if the sender is trusted.
func (m *Machine) handleClaimFrom(in message.Message, c member.Claim) {
	if !m.isTrustedSender(in) {
		return
	}
	if !c.IsZero() && m.durable.Held.Roster.IsVoter(in.From.Voter()) {
		m.join.vouched = c
	}
	m.handleClaim(c, in.From.Address)
}

// handleClaim compares claim c with that of this node's leader, and joins the better leader
// (protocol.md 7). The claim was sent by from.
func (m *Machine) handleClaim(c member.Claim, from member.Address) {
	switch {
	case c.IsZero() || c.Leader == m.self.Address || m.stopped,
		c.Chosen && c.Version < m.heldNumber().Version,
		c.Chosen && c.Version == m.heldNumber().Version && c.Leader != m.durable.Held.Leader,
		!c.BetterThan(m.claim()),
		c == m.join.unresponsive:
		return
	case m.role == member.Seeking && c == m.join.suspected && from != c.Leader:
		// Nodes that have not noticed the loss still send this claim. It must not bring the leader back.
		return
	case m.role == member.Seeking && (c == m.join.refused || m.awaitsAnswer(c, from)):
		return
	}
	switch m.role {
	case member.Leading, member.Provisional:
		m.stepDown(c, conflictCause(m.claim(), c))
	case member.Following:
		// Every node that knows a better claim sends it to the losing leader.
		if m.claim().Leader != c.Leader {
			m.send(m.claim().Leader, message.LeaderRelieve{Winner: c})
		}
		m.overruleLeader(conflictCause(m.claim(), c))
		m.askForPlace(c)
	case member.Seeking:
		m.askForPlace(c)
	}
}

// awaitsAnswer reports whether this node may still get an answer from the leader that it asked for
// a place. The result is false if c is better than that leader. The request or the answer counts as
// lost if the leader repeats its claim after HeartbeatInterval, unless the leader has answered that
// this node has to wait.
func (m *Machine) awaitsAnswer(c member.Claim, from member.Address) bool {
	s := &m.join
	if s.target.IsZero() || c.BetterThan(s.target) {
		return false
	}
	lost := c == s.target && from == c.Leader && !s.mustWait &&
		m.now.Sub(s.lastAskedAt) >= m.timing.HeartbeatInterval
	return !lost
}

// AskPeer sends a message that every node answers. The node that uses the Machine calls it while
// another process, which has the given store, claims the address of a peer, to learn whether the
// peer is running.
func (m *Machine) AskPeer(now time.Time, peer member.Address, claimant member.StoreID) Output {
	m.beginCall(now)
	for i, o := range m.lead.evicted {
		if o.voter == (member.Voter{Address: peer, StoreID: claimant}) {
			m.lead.evicted[i].heard = m.now
		}
	}
	m.send(peer, message.SeedKeepAlive{})
	return m.endCall()
}

// onSeedKeepAlive answers with this node's claim, and with LeaderRelieve if the sender's claim is
// worse. Step handles a better claim in the header.
func (m *Machine) onSeedKeepAlive(in message.Message) {
	if in.Claim.IsZero() {
		m.noteEnded(in.From)
	}
	if m.claim().BetterThan(in.Claim) {
		m.refuse(in, message.ReasonWorseClaim)
		m.send(in.From.Address, message.LeaderRelieve{Winner: m.claim()})
	}
	m.send(in.From.Address, message.SeedKeepAliveAck{})
}

// stepDown gives up leadership and sends ReJoinCluster to all members, including joining members
// (case4 of the original design). This run never leads this version again.
func (m *Machine) stepDown(winner member.Claim, cause Cause) {
	given := m.claim()
	members := addresses(m.shownState().Roster)
	for _, j := range m.lead.waiting {
		members = append(members, j.Address)
	}
	m.trace(Trace{Kind: SteppedDown, Peer: winner.Leader, Version: given.Version, Cause: cause})
	m.endLeadership()
	// These messages are sent after the leadership has ended. So their headers contain no claim, and
	// the receivers do not ask this node for a place.
	for _, to := range m.targets(members) {
		m.send(to, message.ReJoinCluster{GivenUp: given, Winner: winner})
	}
	if winner.IsZero() {
		m.schedule(steppedDown)
		return
	}
	m.askForPlace(winner)
}

// onReJoin leaves a leader that gave up its leadership, and joins the winner if there is one. It
// ends this node's support only for that leadership of that run.
func (m *Machine) onReJoin(in message.Message, b message.ReJoinCluster) {
	cause := CauseLease // or the leader voted for another candidate
	if !b.Winner.IsZero() {
		cause = conflictCause(b.GivenUp, b.Winner)
	}
	if !m.leaveGivenUp(in, b.GivenUp, cause, leaderLost) {
		return
	}
	if m.role == member.Seeking && m.join.target == b.GivenUp {
		m.join.target = member.Claim{}
	}
	m.handleClaimFrom(in, b.Winner)
}

// leaveGivenUp leaves a leadership that the sender gave up, and ends this node's support for it. If
// the sender was not its leader, leaveGivenUp drops the message and returns false.
func (m *Machine) leaveGivenUp(
	in message.Message, given member.Claim, cause Cause, why waitReason,
) bool {
	if given.Leader != in.From.Address {
		m.drop(in, message.ReasonOtherLeader)
		return false
	}
	m.freeSupport(in.From, given)
	if m.follows(in.From) && m.claim() == given {
		m.suspectLeader(Trace{Event: in.Body.Kind(), Cause: cause}, why)
	}
	return true
}
