// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// proposerState is the proposer of this node and its timers (protocol.md 6).
type proposerState struct {
	paxos.Proposer
	sentAt time.Time // when the current proposal was made
}

// isProposing reports whether there is an attempt in progress.
func (m *Machine) isProposing() bool { return !m.propose.Attempt.IsZero() }

// beginElection starts an election of one of the candidates. If proven is set, each of them votes
// only when it hears M voters.
func (m *Machine) beginElection(proven bool, candidates ...member.Address) {
	m.propose.Proposer = m.propose.BeginElection(m.self, m.durable.Acceptor, m.quorum, candidates)
	m.sendProposal(proven)
}

// sendProposal starts the current stage of the attempt. The node votes for its own proposal and
// then sends it to the voters, and in the formal stage also to the voters of the proposed state.
func (m *Machine) sendProposal(proven bool) {
	a := m.propose.Attempt
	m.propose.sentAt = m.now
	t := Trace{Kind: Proposing, Peer: a.Candidates[0], Version: a.ID.Version}
	if a.Stage == paxos.Formal {
		t.Kind, t.Peer = ProposingFormal, a.Value.State.Leader
	}
	m.trace(t)
	p := a.Proposal(m.durable.Held)
	own := m.castVote(m.self, p, m.seeds)
	if !own.Granted {
		// A node that refuses its own proposal does not ask others.
		m.failAttempt()
		return
	}
	body := message.Proposal{
		Stage:      p.Stage,
		ID:         p.ID,
		Founding:   p.Founding,
		SeedDigest: m.seeds,
		Held:       p.Held,
		Base:       p.Base,
		State:      p.State,
	}
	if proven {
		body.Successors = a.Candidates
	}
	for _, to := range m.targets(a.Voters(), addresses(a.Value.State.Roster)) {
		m.send(to, body)
	}
	m.countVote(paxos.Vote{From: m.self, Granted: true, Accepted: own.Accepted})
}

// onVote counts an answer to the proposal in progress.
func (m *Machine) onVote(in message.Message, b message.Vote) {
	hasVote := m.countsVoteOf(in.From.Voter())
	if hasVote {
		m.propose.Proposer = m.propose.SeePromise(b.Promised, m.heldNumber().Version)
	}
	switch {
	case !m.isTrusted(in.From):
	case m.isQuorate(m.now):
		m.findLater(in, b.State) // it was chosen by voters that have forgotten it
	case m.role == member.Following && m.claim().Chosen: // the vote is late
	case m.learnState(in.From, b.State):
		return
	}
	a := m.propose.Attempt
	switch {
	case !b.Accepted.IsZero() && !m.isValidValue(b.Accepted):
		m.drop(in, message.ReasonNotCandidate)
	case !a.Expects(b.ID, b.Stage):
		m.drop(in, message.ReasonOtherBallot)
	case a.Founding && (b.Reason == message.ReasonOtherSeeds || !b.Held.IsZero()):
		// (S) Any answer that shows a held state or another list of seeds stops a founding
		// (protocol.md 4).
		m.failAttempt()
		m.schedule(foundingStopped)
	default:
		v := paxos.Vote{
			From:     in.From,
			Granted:  b.Granted,
			Waits:    b.Reason == message.ReasonStartWait,
			Unable:   b.Unable,
			Accepted: b.Accepted,
		}
		if hasVote && m.isChoosable(b.State) {
			v.Newer = b.State
		}
		m.countVote(v)
	}
}

// countsVoteOf reports whether this node counts the vote of v. Only a voter whose vote counts may
// raise the numbers of this node's next proposal.
func (m *Machine) countsVoteOf(v member.Voter) bool {
	return m.durable.Held.Roster.IsVoter(v) || m.propose.Attempt.Base.Roster.IsVoter(v)
}

// learnState takes a newer held state that a vote or a pre proposal shows, and starts from it,
// unless this node follows a chosen leader of that version or a later one. It reports whether it
// took the state.
func (m *Machine) learnState(from member.Identity, s member.State) bool {
	if s.IsZero() || m.findsOwnCopy(from, s) || m.mayTake(s) != message.ReasonNone {
		return false
	}
	if m.role == member.Following && m.claim().Chosen && s.Version <= m.claim().Version {
		return false
	}
	m.takeState(s)
	m.schedule(learned)
	return true
}

// countVote counts one vote and acts on the result.
func (m *Machine) countVote(v paxos.Vote) {
	next, why := m.propose.Count(v)
	m.propose.Proposer = next
	if why != paxos.NotRefused {
		m.trace(Trace{
			Kind: Dropped, Reason: reasonOf[why], Event: message.KindVote, Peer: v.From.Address,
		})
		return
	}
	if v.Granted {
		m.trace(Trace{
			Kind: Counted, Peer: v.From.Address,
			Version: next.Attempt.ID.Version, Stage: next.Attempt.Stage,
		})
	}
	next, step := next.Next()
	m.propose.Proposer = next
	switch step {
	case paxos.Wait:
	case paxos.GiveUp:
		m.failAttempt()
	case paxos.Propose:
		m.sendProposal(false)
	case paxos.Elect:
		m.announceLeader(next.Attempt)
	}
}

// announceLeader takes the state of the leader that got M formal votes and sends it to all nodes.
func (m *Machine) announceLeader(a paxos.Attempt) {
	s := a.Value.State
	m.trace(Trace{Kind: Elected, Peer: s.Leader, Version: s.Version})
	old := a.Base.Roster
	var seeds []member.Address
	if a.Founding {
		old, seeds = m.soft.Roster, m.cfg.Seeds
	}
	to := m.targets(addresses(old), addresses(s.Roster), seeds)
	isSelf := s.LeaderIdentity() == m.self
	m.dropAttempt()
	switch {
	case m.role == member.Provisional:
		// The members learn of their leader from LeaderElected.
		m.endLeadership()
	case m.role == member.Leading && !isSelf:
		m.stepDown(member.Claim{}, CauseOutvoted)
	}
	m.setHeld(s)
	m.traceMoves(member.State{Roster: old}, s)
	m.admitted = m.admitted || s.Roster.Has(m.self)
	elected := message.LeaderElected{ID: a.ID, State: s}
	if isSelf {
		m.becomeLeader(m.formerLeader(a.Value.Base))
	}
	for _, t := range to {
		m.send(t, elected)
	}
	if !isSelf {
		m.followState(s, s.LeaderIdentity())
	}
}

// tickPropose fails an attempt that takes too long. If a leader or one of its members is bound to a
// later version, the leader proposes itself above that version.
func (m *Machine) tickPropose() {
	if m.isProposing() {
		if m.due(m.attemptEnd()) {
			m.failAttempt()
		}
		return
	}
	if m.role == member.Leading && m.boundAbove() && m.due(m.inquiry.nextAt) {
		m.propose.Proposer = m.propose.SeeVersion(m.lead.boundSeen + 1)
		m.beginElection(false, m.self.Address)
	}
}

// boundAbove reports whether this leader, or a node that it needs, is bound to a version above
// its own (protocol.md 6, 8).
func (m *Machine) boundAbove() bool {
	return max(m.lead.boundSeen, m.durable.Least()) > m.claim().Version
}

func (m *Machine) electionDeadline(d *deadline) {
	switch {
	case m.isProposing():
		d.add(m.attemptEnd())
	case m.shouldElect():
		d.add(m.inquiry.nextAt)
	case m.role == member.Leading && m.boundAbove():
		d.addFuture(m.now, m.inquiry.nextAt)
	case m.role == member.Provisional && m.heldNumber().IsZero():
		d.addFuture(m.now, latest(m.inquiry.nextAt, m.startWaitEnd, m.gatheredAt()))
	}
}

// failAttempt ends the attempt and schedules the next one.
func (m *Machine) failAttempt() {
	a := m.propose.Attempt
	m.trace(Trace{
		Kind: GaveUpProposal, Peer: a.Candidates[0], Version: a.ID.Version, Stage: a.Stage,
	})
	m.operator.proven = m.operator.proven &&
		(m.asksNamed() || m.propose.IsInconclusive() && !a.NoneAble())
	m.propose.Proposer = m.propose.Fail()
	m.schedule(failed)
	if a.NoneAble() {
		m.noteRefusals(a)
	}
}

func (m *Machine) dropAttempt() { m.propose.Proposer = m.propose.Drop() }
