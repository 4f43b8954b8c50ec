// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"cmp"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// inquiryState is the query that precedes a proposal: do M voters, including this one, have no
// healthy leader? (protocol.md 6, 2)
type inquiryState struct {
	id        uint64 // id of the open query; 0 for none
	version   uint64 // held version when the query was sent
	askedAt   time.Time
	again     bool // ask the voters again that have not answered yet, or did not know of an end
	unhealthy []member.Address
	// yieldUntil is the time until which this node neither asks nor proposes, because it voted for
	// another proposer, or a voter before it asks. yields counts such questions since its own.
	yieldUntil time.Time
	yields     int
	answered   bool      // M voters have answered, and this node proposes at nextAt
	fails      int       // queries in a row that led to no proposal
	nextAt     time.Time // when the next query, or proposal without one, is due; see schedule
}

// shouldElect reports whether this node should ask the voters and propose: it has a vote, may lead,
// and has no healthy leader. A witness never leads. A drained node must have no chosen leader at
// all. A leader that hands over only proposes its successors until the hand-over has ended.
func (m *Machine) shouldElect() bool {
	return m.role != member.Leading && !m.isProposing() && !m.operator.leaving &&
		m.operator.handOverUntil.IsZero() &&
		!m.followsHealthyFor(m.outlastSaves(m.timing.LeaderTimeout)) &&
		m.traits.Preference != member.NeverLeads &&
		!(m.operator.drained && m.claim().Chosen) && m.isVoter()
}

// candidacyAt returns the time from which this node may ask and propose; zero for any time. A
// drained node first waits until drainedTimeout has passed without a chosen leader, and then for
// its turn, unless all its successors refused to lead. So every other node goes first. If it waited
// without limit, drained voters could leave a cluster without a leader forever (protocol.md 6,
// drained). Proposals of other nodes do not extend the wait. Otherwise two drained voters that
// propose at the same instant would both wait again. A voter always gives precedence to a proposer
// that it voted for.
func (m *Machine) candidacyAt() time.Time {
	if !m.operator.drained || m.operator.refused {
		return time.Time{}
	}
	return m.isolation.noChosenSince.Add(m.timing.drainedTimeout() + m.turnDelay())
}

// turnDelay returns how long this voter waits before it asks, so that voters with precedence ask
// first. The leader that was just lost is not counted.
func (m *Machine) turnDelay() time.Duration {
	before, wait := 0, time.Duration(0)
	for _, e := range m.durable.Held.Roster {
		if !m.asksWithout(e, m.join.suspected.Leader) || !m.standsBefore(e) {
			continue
		}
		before++
		if e.Preference > m.traits.Preference {
			wait = m.timing.preferenceTurn()
		}
	}
	return wait + m.timing.inquiryTurn(min(before, maxRank))
}

// asksWithout reports whether a member takes its turn to ask the voters after the leader is lost.
func (m *Machine) asksWithout(e member.Member, leader member.Address) bool {
	return e.Status == member.Active && e.Address != leader && e.Preference != member.NeverLeads
}

// standsBefore reports whether a member stands for election before this node: it has a greater
// preference, or the same one and a smaller address.
func (m *Machine) standsBefore(e member.Member) bool {
	return cmp.Or(cmp.Compare(m.traits.Preference, e.Preference),
		e.Address.Compare(m.self.Address)) < 0
}

// comparePreference sorts the most preferred members first.
func comparePreference(a, b member.Member) int { return cmp.Compare(b.Preference, a.Preference) }

// rank returns the number of members that stand for election before this node.
func (m *Machine) rank() int {
	n := 0
	for _, e := range m.durable.Held.Roster {
		if m.standsBefore(e) {
			n++
		}
	}
	return n
}

// FirstToAsk returns the members that ask the voters first once the leader is lost, in that order
// and without this node. Every voter keeps a connection to these members, because they need M
// votes, and it would take long to connect many voters only after the loss (protocol.md 8). A
// leader is connected to all members, so for a leader the result is empty.
func (m *Machine) FirstToAsk() []member.Identity {
	leader := m.join.suspected.Leader
	if m.claim().Chosen {
		leader = m.claim().Leader
	}
	if m.role == member.Leading || !m.isVoter() {
		return nil
	}
	ask := slices.DeleteFunc(slices.Clone(m.durable.Held.Roster), func(e member.Member) bool {
		return !m.asksWithout(e, leader)
	})
	slices.SortStableFunc(ask, comparePreference)
	var first []member.Identity
	for _, e := range ask[:min(len(ask), preparedVoters)] {
		if e.Identity != m.self {
			first = append(first, e.Identity)
		}
	}
	return first
}

func (m *Machine) tickInquiry() {
	if !m.shouldElect() || !m.due(m.inquiry.nextAt) {
		return
	}
	q := &m.inquiry
	answered := q.answered && q.version == m.heldNumber().Version
	q.answered = false
	switch {
	case m.postponeInquiry():
		return
	case answered:
		m.beginElection(false, m.self.Address)
		return
	}
	m.schedule(queried)
	if !q.again || q.id == 0 || q.version != m.heldNumber().Version {
		q.askedAt = m.now
		q.id, q.version, q.unhealthy = m.cfg.Rand.Uint64()|1, m.heldNumber().Version, nil
	}
	q.again = false
	q.fails = min(q.fails+1, paxos.MaxFailures)
	m.trace(Trace{Kind: Asking})
	for _, e := range m.durable.Held.Roster {
		if e.IsVoter() && !slices.Contains(q.unhealthy, e.Address) {
			m.send(e.Address, message.LeaderStatusQuery{ID: m.inquiry.id, Version: m.inquiry.version})
		}
	}
	m.countUnhealthy()
}

// onStatusQuery answers whether this node has a healthy leader.
func (m *Machine) onStatusQuery(in message.Message, b message.LeaderStatusQuery) {
	healthy := m.isHealthy() || m.followsHealthy()
	m.send(in.From.Address, message.LeaderStatusQueryResponse{
		ID:      b.ID,
		Healthy: healthy,
		Held:    m.heldNumber(),
		Save:    m.recentPace(m.pace.own),
	})
	if !healthy {
		m.yieldTurn(in.From)
	}
}

// isCrowded reports whether there are so many voters that their questions delay an election.
func (m *Machine) isCrowded() bool { return m.cfg.Size > smallSize }

// yieldTurn waits when a voter before this node asks: a proposal of that voter probably follows.
// Otherwise many voters ask and propose together if an election takes longer than a turn. A voter
// that asks without success must not delay this node without end, so it yields maxRank times before
// each query.
func (m *Machine) yieldTurn(asker member.Identity) {
	e, _ := m.durable.Held.Roster.Find(asker.Address)
	q := &m.inquiry
	if m.isCrowded() && q.yields < maxRank && e.IsVoter() && e.Voter() == asker.Voter() &&
		m.standsBefore(e) {
		q.yields++
		q.yieldUntil = latest(q.yieldUntil, m.now.Add(m.timing.yieldTime()+m.turnDelay()))
		m.schedule(yielded)
	}
}

// onStatusResponse counts the voters without a healthy leader. If the sender has a healthy leader,
// this node joins it, and keeps asking until it has taken that leader's state.
func (m *Machine) onStatusResponse(in message.Message, b message.LeaderStatusQueryResponse) {
	if b.ID != m.inquiry.id || m.inquiry.id == 0 || m.heldNumber().Version != m.inquiry.version {
		m.drop(in, message.ReasonOtherQuery)
		return
	}
	if b.Healthy {
		switch {
		case !m.isTrustedSender(in):
			m.drop(in, message.ReasonUnknownMember)
		case m.hasEnded(in.Claim):
			m.drop(in, message.ReasonEarlierRun)
			m.inquiry.again = true
			m.schedule(untold)
		default:
			m.handleClaim(in.Claim, in.Claim.Leader)
		}
		return
	}
	if !m.durable.Held.Roster.IsVoter(in.From.Voter()) {
		m.drop(in, message.ReasonNotVoter)
		return
	}
	if slices.Contains(m.inquiry.unhealthy, in.From.Address) {
		m.drop(in, message.ReasonVotedTwice)
		return
	}
	m.inquiry.unhealthy = append(m.inquiry.unhealthy, in.From.Address)
	m.noteTold(b.Save)
	m.countUnhealthy()
}

// countUnhealthy starts an election once M voters, including this one, have no healthy leader. This
// node must still hold the version that it asked about (case1 of the original design).
func (m *Machine) countUnhealthy() {
	if len(m.inquiry.unhealthy)+1 < m.quorum || !m.shouldElect() {
		return
	}
	q := &m.inquiry
	q.id, q.fails = 0, 0
	// A voter that was slow answers all that have asked at the same instant.
	if m.now.Sub(q.askedAt) > m.timing.inquiryTurn(1) {
		q.yieldUntil = latest(q.yieldUntil, m.now.Add(m.turnDelay()))
	}
	if m.now.Before(q.yieldUntil) {
		q.answered, q.nextAt = true, q.yieldUntil
		return
	}
	m.beginElection(false, m.self.Address)
}
