// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// inquiryState is the question that comes before any proposal: do M voters, this one
// among them, miss a healthy leader too? (protocol.md section 6, 2)
type inquiryState struct {
	id        uint64 // of the open question; 0 for none
	version   uint64 // held when it was asked
	unhealthy []member.Address
	fails     int       // questions in a row that led to no proposal
	nextAt    time.Time // when it is asked (again)
}

// shouldElect reports whether this node should ask and propose: it has a
// vote, may lead, and has no healthy leader. A drained one has no chosen leader at all. One
// that hands over proposes its successors alone until that has ended.
func (m *Machine) shouldElect() bool {
	return m.role != member.Leading && !m.isProposing() && !m.operator.leaving &&
		m.operator.handOverUntil.IsZero() && !m.followsHealthy() &&
		!(m.operator.drained && m.leader.Chosen) && m.isVoter()
}

// candidacyAt is from when this node may ask and propose. A drained one lets all others go
// first, and stands in its turn once it has had no chosen leader for two LeaderTimeouts: if
// it never did, drained voters could leave a cluster without a leader for ever (protocol.md
// section 6, drained). Proposals of others do not put that off, or two drained voters that
// propose at one instant would both wait again. A voter lets a proposer that it voted for
// try first in any case.
func (m *Machine) candidacyAt() time.Time {
	if !m.operator.drained {
		return time.Time{}
	}
	return m.isolation.noChosenSince.Add(m.timing.drainedTimeout() + m.turnDelay())
}

// turnDelay is how long this voter lets those before it in the roster ask first. The leader just
// lost does not count.
func (m *Machine) turnDelay() time.Duration {
	before := 0
	for _, e := range m.durable.Held.Roster {
		if e.Address == m.self.Address || before == maxRank {
			break
		}
		if e.Status == member.Active && e.Address != m.join.suspected.Leader {
			before++
		}
	}
	return m.timing.inquiryTurn(before)
}

func (m *Machine) tickInquiry() {
	if !m.shouldElect() || !m.due(m.inquiry.nextAt) {
		return
	}
	if at := m.candidacyAt(); m.now.Before(at) {
		m.inquiry.nextAt = at
		return
	}
	// Its own vote would be refused, so it asks when it may vote.
	if m.now.Before(m.startWaitEnd) && m.durable.Held.Leader != m.self.Address {
		m.inquiry.nextAt = m.startWaitEnd
		return
	}
	if m.supportsOther(m.self.Voter()) {
		// The support that the others gave ends at about the same time.
		m.inquiry.nextAt = m.support.until.Add(m.turnDelay())
		return
	}
	m.inquiry = inquiryState{
		id:      m.cfg.Rand.Uint64() | 1,
		version: m.heldNumber().Version,
		nextAt:  m.now.Add(m.timing.voteTimeout(m.inquiry.fails)),
		fails:   min(m.inquiry.fails+1, paxos.MaxFailures),
	}
	m.trace(Trace{Kind: Asking})
	for _, e := range m.durable.Held.Roster {
		if e.IsVoter() {
			m.send(e.Address, message.LeaderStatusQuery{ID: m.inquiry.id, Version: m.inquiry.version})
		}
	}
	m.countUnhealthy()
}

// onStatusQuery answers whether this node's leader is healthy.
func (m *Machine) onStatusQuery(in message.Message, b message.LeaderStatusQuery) {
	m.send(in.From.Address, message.LeaderStatusQueryResponse{
		ID:      b.ID,
		Healthy: m.isHealthy() || m.followsHealthy(),
		Held:    m.heldNumber(),
	})
}

// onStatusResponse counts the voters that miss a healthy leader. A healthy answer leads to
// that leader; this node keeps asking until it takes that leader's state.
func (m *Machine) onStatusResponse(in message.Message, b message.LeaderStatusQueryResponse) {
	if b.ID != m.inquiry.id || m.inquiry.id == 0 || m.heldNumber().Version != m.inquiry.version {
		m.drop(in, message.ReasonOtherQuery)
		return
	}
	if b.Healthy {
		m.handleClaim(in.Claim, in.Claim.Leader)
		return
	}
	if !m.durable.Held.Roster.IsVoter(in.From.Voter()) {
		m.drop(in, message.ReasonNotVoter)
		return
	}
	for _, a := range m.inquiry.unhealthy {
		if a == in.From.Address {
			m.drop(in, message.ReasonVotedTwice)
			return
		}
	}
	m.inquiry.unhealthy = append(m.inquiry.unhealthy, in.From.Address)
	m.countUnhealthy()
}

// countUnhealthy proposes once M voters, this one included, miss a healthy
// leader. Case1 of the original design: the version asked at is still held.
func (m *Machine) countUnhealthy() {
	if len(m.inquiry.unhealthy)+1 < m.quorum || !m.shouldElect() {
		return
	}
	m.inquiry.id, m.inquiry.fails = 0, 0
	m.startElection(m.self.Address)
}
