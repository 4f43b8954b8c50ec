// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// onProposal votes.
func (m *Machine) onProposal(in message.Message, b message.Proposal) {
	if m.votesHere(in.From.Voter()) {
		m.seenRound(b.ID.Ballot.Round)
	}
	if b.ID.Ballot.Run() != in.From {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	if b.Stage == message.Formal && !m.sound(paxos.Accepted{ID: b.ID, Base: b.Base, State: b.State}) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	if b.Stage == message.Pre && b.ID == m.durable.Promised || b.ID == m.durable.Accepted.ID {
		m.drop(in, message.ReasonRepeated)
		return
	}
	if b.Stage == message.Pre {
		m.learnFrom(b.State)
	}
	v := m.vote(in.From, b)
	m.tellVote(in, b, v)
	m.send(in.From.Address, v)
	if !m.stopped && v.Granted {
		m.yield(b)
	}
}

// tellVote notes the answer to a proposal.
func (m *Machine) tellVote(in message.Message, b message.Proposal, v message.Vote) {
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

// learnFrom lets a voter that holds nothing take the state that another shows. A
// pre proposal shows the one that it is made from: no vote outlives it. A question
// for a leader shows that of its asker, which may have lost its vote in it, and
// cannot bring about an election.
func (m *Machine) learnFrom(s member.State) {
	if m.held().IsZero() && s.Roster.IsVoter(m.self.Voter()) {
		m.learn(s)
	}
}

// vote is the voter's answer to p. A granted one is in what will be saved
// before anything that depends on it is sent.
func (m *Machine) vote(from member.Identity, p message.Proposal) message.Vote {
	v := message.Vote{Stage: p.Stage, ID: p.ID, Held: m.held()}
	if p.Stage == message.Pre {
		v.Reason = m.refusePre(from, p)
	} else {
		v.Reason = m.refuseFormal(from, p)
	}
	v.Granted = v.Reason == message.ReasonNone
	if v.Granted {
		d := m.durable
		d.Promised = p.ID
		if p.Stage == message.Pre {
			v.Accepted = d.Accepted
		} else {
			d.Accepted = paxos.Accepted{ID: p.ID, Base: p.Base, State: p.State}
		}
		m.persist(d)
	}
	v.Promised = m.durable.Promised
	if p.Held.Less(m.held()) {
		v.State = m.durable.Held
	}
	return v
}

// refusePre says why a promise is refused. (S) protocol.md section 6, 3.
func (m *Machine) refusePre(from member.Identity, p message.Proposal) message.Reason {
	switch {
	case p.ID.Version <= m.held().Version:
		return message.ReasonOldVersion
	case !m.durable.MayPromise(p.ID):
		return message.ReasonPromised
	case m.jumps(from, p):
		return message.ReasonVersionJump
	case !p.Founding && m.held().IsZero():
		return message.ReasonHoldsNothing
	case m.supportsOther(from.Voter()):
		return message.ReasonSupports
	case m.healthy() && from.Address != m.self.Address:
		return message.ReasonHealthyLeader
	case m.followsHealthy() && from.Address != m.leader.Leader:
		return message.ReasonHealthyLeader
	case m.waitsFor(from.Address):
		return message.ReasonStartWait
	case !p.Founding && !m.held().Less(p.Held) && !m.durable.Held.Roster.IsVoter(from.Voter()):
		return message.ReasonNotVoter
	case !p.Founding && from != m.self && !m.trustsAddress(from.Address):
		return message.ReasonUnknownMember
	}
	return m.refuseFounding(from, p)
}

// refuseFounding says why a founding is refused by a voter that would
// otherwise grant it (protocol.md section 4).
func (m *Machine) refuseFounding(from member.Identity, p message.Proposal) message.Reason {
	switch {
	case !p.Founding:
		return message.ReasonNone
	case m.cfg.JoinOnly:
		return message.ReasonJoinOnly
	case p.SeedDigest != m.seeds:
		return message.ReasonOtherSeeds
	case !slices.Contains(m.cfg.Seeds, from.Address):
		return message.ReasonNotVoter // only a seed founds
	}
	return message.ReasonNone
}

// refuseFormal says why acceptance is refused. (S) protocol.md section 6, 5.
func (m *Machine) refuseFormal(from member.Identity, p message.Proposal) message.Reason {
	candidate := p.State.LeaderIdentity()
	switch {
	case p.ID.Version <= m.held().Version:
		return message.ReasonOldVersion
	case p.Base.Less(m.held()):
		return message.ReasonOldBase
	case !m.durable.MayAccept(p.ID, p.Base):
		return message.ReasonPromised
	case m.jumps(from, p):
		return message.ReasonVersionJump
	case !p.Founding && m.held().IsZero():
		return message.ReasonHoldsNothing
	case m.supportsOther(candidate.Voter()):
		return message.ReasonSupports
	case m.waitsFor(candidate.Address):
		return message.ReasonStartWait
	case m.quorate(m.now) && candidate.Address != m.self.Address:
		return message.ReasonLeaseRuns
	case !p.Founding && from != m.self && !m.trustsAddress(from.Address):
		return message.ReasonUnknownMember
	}
	return m.refuseFounding(from, p)
}

// waitsFor reports whether the wait after a start keeps this node from voting
// for a. (S) protocol.md section 5, restart: it may vote for the leader that it
// held, whom alone its earlier run can have supported.
func (m *Machine) waitsFor(a member.Address) bool {
	return m.now.Before(m.voteWait) && (m.cfg.Volatile || m.durable.Held.Leader != a)
}

// yield is what a granted vote for another brings with it: this node does not
// contend for a while, and one that accepted another leader leaves its own.
func (m *Machine) yield(p message.Proposal) {
	pause := m.cfg.Timings.HeartbeatInterval
	m.ask.id = 0 // answers on the way would make it propose all the same
	// In turn, should the proposer die now.
	if until := m.now.Add(pause + m.turn()); m.ask.nextAt.Before(until) {
		m.ask.nextAt = until
	}
	if p.Stage == message.Pre {
		return
	}
	m.dropAttempt()
	if p.State.Leader == m.self.Address {
		return
	}
	switch {
	case m.role == member.Leading:
		m.stepDown(member.Claim{}, CauseOutvoted)
		m.ask.nextAt = m.now.Add(pause)
	case m.role == member.Following && m.leader.Chosen && m.leader.Leader != p.State.Leader:
		m.suspect(Trace{Event: message.KindProposal, Cause: CauseOutvoted}, pause)
	}
}
