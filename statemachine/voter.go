// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// onProposal answers a proposal with a vote, unless the proposal is invalid or was answered before.
func (m *Machine) onProposal(in message.Message, b message.Proposal) {
	if m.countsVoteOf(in.From.Voter()) {
		m.propose.Proposer = m.propose.SeeRound(b.ID.Ballot.Round)
	}
	if b.ID.Ballot.Run() != in.From {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	value := paxos.Accepted{ID: b.ID, Base: b.Base, State: b.State}
	if b.Stage == message.Formal && !m.isValidValue(value) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	if m.isTrusted(in.From) && m.findsOwnCopy(in.From, b.State) {
		m.drop(in, message.ReasonRestored)
		return
	}
	if b.Stage == message.Pre && b.ID == m.durable.Promised || b.ID == m.durable.Accepted.ID {
		m.drop(in, message.ReasonRepeated)
		return
	}
	if b.Stage == message.Pre {
		m.learnIfVoteless(in.From, b.State)
		if m.mustProve(in.From, b) {
			m.deferred = in
			m.askReach()
			return
		}
	}
	v := m.castVote(in.From, paxos.Proposal{
		Stage:    b.Stage,
		ID:       b.ID,
		Founding: b.Founding,
		Held:     b.Held,
		Base:     b.Base,
		State:    b.State,
	}, b.SeedDigest)
	m.traceVote(in, b, v)
	m.send(in.From.Address, v)
	if !m.stopped && v.Granted {
		m.greetSuccessors(b.Successors)
		m.deferToProposer(b)
	}
}

// mustProve reports whether this node is proposed as the successor of a leader, but does not hear M
// voters. Its vote waits until it does, because the leader proposes a successor that voted.
func (m *Machine) mustProve(from member.Identity, b message.Proposal) bool {
	return slices.Contains(b.Successors, m.self.Address) && !m.hasChosenLeader() &&
		m.durable.Held.Roster.IsVoter(from.Voter()) && !m.refusesToLead(b.Founding) &&
		m.countReached() < m.quorum
}

// greetSuccessors sends a message to each successor, which proves that it hears this voter.
func (m *Machine) greetSuccessors(successors []member.Address) {
	for _, a := range successors {
		if e, _ := m.durable.Held.Roster.Find(a); e.IsVoter() {
			m.send(a, message.SeedKeepAliveAck{})
		}
	}
}

// tickDeferred votes for the proposal that this node deferred, once it hears M voters.
func (m *Machine) tickDeferred() {
	in := m.deferred
	if b, ok := in.Body.(message.Proposal); ok && !m.mustProve(in.From, b) {
		m.deferred = message.Message{}
		m.onProposal(in, b)
	}
}

// refusesToLead reports whether a proposer should propose another node than this one.
func (m *Machine) refusesToLead(founding bool) bool {
	return m.traits.Preference == member.NeverLeads ||
		!founding && (m.operator.drained || m.operator.leaving)
}

// traceVote traces the answer to a proposal.
func (m *Machine) traceVote(in message.Message, b message.Proposal, v message.Vote) {
	t := Trace{Kind: Refused, Reason: v.Reason, Event: message.KindProposal, Peer: in.From.Address}
	if v.Granted {
		t = Trace{Kind: Voted, Peer: in.From.Address, Version: b.ID.Version}
		if b.Stage == message.Formal {
			t.Peer = b.State.Leader
		}
	}
	t.Stage = b.Stage
	m.trace(t)
}

// learnIfVoteless takes the newer state that another node shows if this node has a vote in that
// state and none in the state that it holds, if any. A pre proposal shows the state that it is
// based on, so that no vote outlives that state. A query for a leader shows the state of its
// sender, because a sender that may not lead, or has no vote in that state, cannot start an
// election itself.
func (m *Machine) learnIfVoteless(from member.Identity, s member.State) {
	held, self := m.durable.Held, m.self.Voter()
	believed := held.IsZero() || held.Roster.IsVoter(from.Voter())
	if believed && !held.Roster.IsVoter(self) && s.Roster.IsVoter(self) {
		m.learnState(from, s)
	}
}

// castVote returns the voter's answer to p. seeds is the digest of the proposer's seed list. The
// owner saves a granted vote before it sends anything that depends on it.
func (m *Machine) castVote(from member.Identity, p paxos.Proposal, seeds uint64) message.Vote {
	v := message.Vote{Stage: p.Stage, ID: p.ID, Held: m.heldNumber()}
	if p.Stage == message.Pre {
		v.Reason, v.Unable = m.refusePre(from, p), m.refusesToLead(p.Founding)
	} else {
		v.Reason = m.refuseFormal(from, p)
	}
	if v.Reason == message.ReasonNone && p.Founding {
		v.Reason = m.refuseFounding(from, seeds)
	}
	v.Granted = v.Reason == message.ReasonNone
	if v.Granted {
		d := m.durable
		if p.Stage == message.Pre {
			d.Acceptor, v.Accepted = d.Promise(p)
		} else {
			d.Acceptor = d.Accept(p)
		}
		m.persist(d)
	}
	v.Promised = m.durable.Promised
	if p.Held.Less(m.heldNumber()) {
		v.State = m.durable.Held
	}
	return v
}

// refusePre returns the reason to refuse a promise, first by the rules of the acceptor, then by
// those that protect a live leader. (S) protocol.md 6, 3.
func (m *Machine) refusePre(from member.Identity, p paxos.Proposal) message.Reason {
	if why := m.durable.RefusePromise(p, m.countsVoteOf(from.Voter())); why != paxos.NotRefused {
		return reasonOf[why]
	}
	switch {
	case m.supportsOther(from.Voter()):
		return message.ReasonSupports
	case m.isHealthy() && from.Address != m.self.Address:
		return message.ReasonHealthyLeader
	case m.followsHealthy() && from.Address != m.claim().Leader:
		return message.ReasonHealthyLeader
	case m.startWaitExcludes(from.Address):
		return message.ReasonStartWait
	case !p.Founding && !m.heldNumber().Less(p.Held) && !m.durable.Held.Roster.IsVoter(from.Voter()):
		return message.ReasonNotVoter
	case !p.Founding && from != m.self && !m.isTrusted(from):
		return message.ReasonUnknownMember
	}
	return message.ReasonNone
}

// refuseFormal returns the reason to refuse acceptance, first by the rules of the acceptor, then
// by those that protect a live leader. (S) protocol.md 6, 5.
func (m *Machine) refuseFormal(from member.Identity, p paxos.Proposal) message.Reason {
	if why := m.durable.RefuseAcceptance(p, m.countsVoteOf(from.Voter())); why != paxos.NotRefused {
		return reasonOf[why]
	}
	candidate := p.State.LeaderIdentity()
	switch {
	case !p.Founding && !p.State.Roster.IsVoter(m.self.Voter()):
		// The vote would not count, but would bind this node, and a node without a vote cannot make a
		// leader exceed the version to which it is bound.
		return message.ReasonNotVoter
	case m.supportsOther(candidate.Voter()):
		return message.ReasonSupports
	case m.startWaitExcludes(candidate.Address):
		return message.ReasonStartWait
	case m.isQuorate(m.now) && candidate.Address != m.self.Address:
		return message.ReasonLeaseRuns
	case !p.Founding && from != m.self && !m.isTrusted(from):
		return message.ReasonUnknownMember
	}
	return message.ReasonNone
}

// reasonOf maps the refusals of package paxos to the reasons in messages and traces.
var reasonOf = [...]message.Reason{
	paxos.NotRefused:   message.ReasonNone,
	paxos.OldVersion:   message.ReasonOldVersion,
	paxos.OldBase:      message.ReasonOldBase,
	paxos.LowBallot:    message.ReasonPromised,
	paxos.VersionJump:  message.ReasonVersionJump,
	paxos.HoldsNothing: message.ReasonHoldsNothing,
	paxos.NotVoter:     message.ReasonNotVoter,
	paxos.VotedTwice:   message.ReasonVotedTwice,
}

// deferToProposer lets the proposer of p, for which this node just voted, go first: this node does
// not propose for a while. If it accepted a candidate other than its leader, it leaves its leader.
func (m *Machine) deferToProposer(p message.Proposal) {
	m.inquiry.id = 0 // otherwise late answers would make this node propose
	m.pace.grantedAt = m.now
	m.yieldFor(m.now, m.recentPace(m.pace.told))
	if p.Stage == message.Formal {
		m.dropAttempt()
		switch to := p.State.Leader; {
		case to == m.self.Address || to == m.claim().Leader || !m.claim().Chosen:
		case m.role == member.Leading:
			m.stepDown(member.Claim{}, CauseOutvoted)
		default:
			m.suspectLeader(Trace{Event: message.KindProposal, Cause: CauseOutvoted}, leaderLost)
		}
	}
	m.schedule(granted)
}
