// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// propose is the proposer's side of elections (protocol.md section 6).
type propose struct {
	attempt *attempt
	at      time.Time // a founding or a leader above its version waits until then
	round   uint64    // highest round seen
	version uint64    // highest version seen promised, or the next to try
	fails   int       // attempts in a row that ended without a leader
}

// attempt is one proposal under way; a node has at most one.
type attempt struct {
	id       paxos.ID
	founding bool
	formal   bool
	// candidates are whom to propose when no value must be adopted, the preferred first.
	// A hand-over has others than the proposer.
	candidates []member.Address
	alive      []member.Identity // voters that may lead, by their pre votes
	electorate paxos.Electorate
	base       member.State // that the value continues; zero in a founding
	value      paxos.Accepted
	ballots    paxos.Ballots
	deadline   time.Time
}

func (a *attempt) stage() message.Stage {
	if a.formal {
		return message.Formal
	}
	return message.Pre
}

// startElection asks for promises for the first version that can be won.
func (m *Machine) startElection(candidates ...member.Address) {
	base := m.durable.Held
	m.begin(&attempt{
		id:         paxos.ID{Version: max(base.Version+1, m.propose.version, m.durable.Promised.Version)},
		candidates: candidates,
		electorate: paxos.Electorate{Roster: base.Roster, Quorum: m.quorum},
		base:       base,
	})
}

// tickFounding starts a founding at a provisional leader that holds nothing,
// once M active members and a majority of the seeds follow it.
func (m *Machine) tickFounding() {
	if m.role != member.Provisional || !m.held().IsZero() || m.cfg.JoinOnly ||
		m.propose.attempt != nil || m.now.Before(m.propose.at) || m.now.Before(m.voteWait) {
		return
	}
	var active member.Roster
	seeds := 0
	for _, e := range m.soft.Roster {
		if e.Status != member.Active {
			continue
		}
		active = append(active, e)
		if slices.Contains(m.cfg.Seeds, e.Address) {
			seeds++
		}
	}
	if len(active) < m.quorum || seeds < member.Quorum(len(m.cfg.Seeds)) ||
		m.now.Before(m.gatheredAt()) {
		return
	}
	m.begin(&attempt{
		id:         paxos.ID{Version: 1},
		founding:   true,
		candidates: []member.Address{m.self.Address},
		electorate: paxos.Electorate{Roster: active, Quorum: m.quorum, Seeds: m.cfg.Seeds},
		base:       member.State{Roster: active},
	})
}

// gatheredAt is until when a founder waits for more members: who comes later costs
// two revisions that all store, and all that start together come within moments.
func (m *Machine) gatheredAt() time.Time {
	if len(m.soft.Roster) == m.cfg.Size {
		return time.Time{}
	}
	quiet := m.lead.joinedAt.Add(m.cfg.Timings.HeartbeatInterval / 2)
	if end := m.lead.since.Add(m.cfg.Timings.RetryInterval); quiet.After(end) {
		return end
	}
	return quiet
}

// begin sends the pre proposal of a, to this node's own voter too.
func (m *Machine) begin(a *attempt) {
	m.propose.round = max(m.propose.round, m.durable.Promised.Ballot.Round) + 1
	a.id.Ballot = paxos.Ballot{
		Round:       m.propose.round,
		Proposer:    m.self.Address,
		Incarnation: m.self.Incarnation,
		StoreID:     m.self.StoreID,
	}
	a.ballots.Version = a.id.Version
	a.deadline = m.now.Add(m.patience(m.propose.fails))
	m.propose.attempt = a
	m.trace(Trace{Kind: Proposing, Peer: a.candidates[0], Version: a.id.Version})
	m.canvass(a, message.Proposal{
		Stage:      message.Pre,
		ID:         a.id,
		Founding:   a.founding,
		SeedDigest: m.seeds,
		Held:       m.held(),
		State:      m.durable.Held,
	}, nil)
}

// canvass sends p to the electorate and to others, and votes itself.
func (m *Machine) canvass(a *attempt, p message.Proposal, others member.Roster) {
	var voters []member.Address
	for _, e := range a.electorate.Roster {
		if e.IsVoter() {
			voters = append(voters, e.Address)
		}
	}
	own := m.vote(m.self, p)
	if !own.Granted {
		// Who does not vote for its own proposal need not ask others.
		m.failAttempt()
		return
	}
	for _, to := range m.targets(voters, addresses(others)) {
		m.send(to, p)
	}
	m.count(a, m.self, own)
}

// onVote counts an answer to the proposal under way.
func (m *Machine) onVote(in message.Message, b message.Vote) {
	if m.votesHere(in.From.Voter()) && b.Promised.Version <= m.held().Version+2*maxVersionJump {
		m.seenRound(b.Promised.Ballot.Round)
		m.propose.version = max(m.propose.version, b.Promised.Version)
	}
	if m.trustsAddress(in.From.Address) && m.learn(b.State) {
		return
	}
	a := m.propose.attempt
	switch {
	case !b.Accepted.IsZero() && !m.sound(b.Accepted):
		m.drop(in, message.ReasonNotCandidate)
	case a == nil || a.id != b.ID || a.formal != (b.Stage == message.Formal):
		m.drop(in, message.ReasonOtherBallot)
	case a.founding && (b.Reason == message.ReasonOtherSeeds || !b.Held.IsZero()):
		// (S) protocol.md section 4: any answer that shows a held state, or
		// another list of seeds, stops a founding.
		m.failAttempt()
		m.propose.at = m.now.Add(m.cfg.Timings.RetryInterval)
	default:
		if !a.formal && a.base.Less(b.State.Number) && m.votesHere(in.From.Voter()) {
			m.rebase(a, b.State)
		}
		m.count(a, in.From, b)
	}
}

// rebase builds the proposal under way on the newest held state among the votes:
// one that this node cannot take because it is bound above it, or others would
// refuse what it proposes for ever. (S) protocol.md section 6, 4.
func (m *Machine) rebase(a *attempt, s member.State) {
	votes := func(c member.Address) bool {
		e, _ := s.Roster.Find(c)
		return e.IsVoter()
	}
	if s.Version < a.id.Version && m.choosable(s) && s.Roster.IsVoter(m.self.Voter()) &&
		slices.ContainsFunc(a.candidates, votes) {
		a.base = s
		a.electorate.Roster = s.Roster
	}
}

// votesHere reports whether v has a vote that this node counts: only such a one
// may raise the numbers of the next proposal.
func (m *Machine) votesHere(v member.Voter) bool {
	a := m.propose.attempt
	return m.durable.Held.Roster.IsVoter(v) || a != nil && a.electorate.Roster.IsVoter(v)
}

func (m *Machine) seenRound(r uint64) {
	if r <= 2*maxRound {
		m.propose.round = max(m.propose.round, r)
	}
}

// learn takes a newer held state that a vote or a pre proposal shows, where the own leadership
// does not stand against it, and starts from it. It reports whether it did.
func (m *Machine) learn(s member.State) bool {
	if s.IsZero() || m.mayTake(s) != message.ReasonNone {
		return false
	}
	if m.role == member.Following && m.leader.Chosen && s.Version <= m.leader.Version {
		return false
	}
	m.take(s)
	m.ask.nextAt = m.now
	m.seek.nextAt = m.now
	return true
}

// count adds one vote and draws the consequence.
func (m *Machine) count(a *attempt, from member.Identity, b message.Vote) {
	why := message.ReasonNone
	if !a.electorate.Roster.IsVoter(from.Voter()) {
		why = message.ReasonNotVoter
	} else if !a.ballots.Add(paxos.Vote{From: from, Granted: b.Granted, Accepted: b.Accepted}) {
		why = message.ReasonVotedTwice
	}
	if why != message.ReasonNone {
		m.trace(Trace{Kind: Dropped, Reason: why, Event: message.KindVote, Peer: from.Address})
		return
	}
	if !a.formal && (b.Granted || b.Reason == message.ReasonStartWait) {
		// One with a memory store that has just started votes for none, and can lead.
		a.alive = append(a.alive, from)
	}
	if b.Granted {
		m.trace(Trace{
			Kind: Counted, Peer: from.Address, Version: a.id.Version, Stage: a.stage(),
		})
	}
	switch a.ballots.Count(a.electorate) {
	case paxos.Pending:
	case paxos.Lost:
		m.failAttempt()
	case paxos.Won:
		if a.formal {
			m.chosen(a)
		} else {
			m.choose(a)
		}
	}
}

// choose settles the value and asks for acceptance. (S) A value accepted at
// this version may be chosen already, so it is adopted, where it continues the
// newest state and its candidate lives; else the next version is tried.
func (m *Machine) choose(a *attempt) {
	value, found := a.ballots.Adopt()
	initial, alive := a.initialState()
	switch {
	case found && (a.founding || m.adoptable(a, value)):
	case found:
		m.propose.version = a.id.Version + 1
		m.failAttempt()
		return
	case !alive:
		return // The vote of a successor may still come.
	default:
		value.Base = a.base.Number
		value.State = initial
		if a.founding {
			value.State.Cluster = a.id.Ballot.ClusterID()
		}
	}
	value.ID = a.id
	a.value = value
	a.formal = true
	a.ballots = paxos.Ballots{Version: a.id.Version}
	a.deadline = m.now.Add(m.patience(m.propose.fails))
	m.trace(Trace{Kind: ProposingFormal, Peer: value.State.Leader, Version: a.id.Version})
	m.canvass(a, message.Proposal{
		Stage:      message.Formal,
		ID:         a.id,
		Founding:   a.founding,
		SeedDigest: m.seeds,
		Held:       m.held(),
		Base:       value.Base,
		State:      value.State,
	}, value.State.Roster)
}

// initialState is the state in which the first of the candidates that is alive would start to
// lead; false when none of them is. A candidate that does not vote may be dead, and to
// elect it costs a LeaderTimeout and a version.
func (a *attempt) initialState() (member.State, bool) {
	for _, c := range a.candidates {
		s := a.ballots.Initial(a.base, c, a.id.Version)
		if slices.Contains(a.alive, s.LeaderIdentity()) {
			return s, true
		}
	}
	return member.State{}, false
}

// adoptable reports whether a value continues the state that a was made from: no election
// changes the voters.
func (m *Machine) adoptable(a *attempt, v paxos.Accepted) bool {
	sameVoter := func(x, y member.Member) bool { return x.Voter() == y.Voter() }
	return v.Base == a.base.Number && a.ballots.Granted(v.State.LeaderIdentity()) &&
		slices.EqualFunc(v.State.Roster, a.base.Roster, sameVoter)
}

// chosen announces the leader that got M formal votes.
func (m *Machine) chosen(a *attempt) {
	s := a.value.State
	m.trace(Trace{Kind: Elected, Peer: s.Leader, Version: s.Version})
	old := a.base.Roster
	var seeds []member.Address
	if a.founding {
		old, seeds = m.soft.Roster, m.cfg.Seeds
	}
	to := m.targets(addresses(old), addresses(s.Roster), seeds)
	m.dropAttempt()
	if m.role == member.Provisional {
		// Its members hear who leads them now.
		m.endLeadership(m.leader)
	}
	m.hold(s)
	m.traceMoves(member.State{Roster: old}, s)
	m.admitted = m.admitted || s.Roster.Has(m.self)
	elected := message.LeaderElected{ID: a.id, State: s}
	if s.LeaderIdentity() == m.self {
		m.becomeLeader(m.formerOf(a.value.Base))
		for _, t := range to {
			m.send(t, elected)
		}
		return
	}
	for _, t := range to {
		m.send(t, elected)
	}
	if m.role == member.Leading {
		m.stepDown(member.Claim{}, CauseOutvoted)
	}
	m.followState(s, s.LeaderIdentity())
}

// tickPropose ends an attempt that takes too long, and lets a leader propose
// itself above a version that a member, or it itself, is bound to.
func (m *Machine) tickPropose() {
	if a := m.propose.attempt; a != nil {
		if m.due(a.deadline) {
			m.failAttempt()
		}
		return
	}
	if m.role == member.Leading && m.boundAbove() && !m.now.Before(m.propose.at) {
		m.propose.version = max(m.propose.version, m.lead.boundSeen+1)
		m.startElection(m.self.Address)
	}
}

// boundAbove reports whether somebody that this leader needs is bound to a
// version above its own (protocol.md section 6, 8).
func (m *Machine) boundAbove() bool {
	return max(m.lead.boundSeen, m.durable.Bound()) > m.leader.Version
}

func (m *Machine) electionDeadline(d *deadline) {
	if a := m.propose.attempt; a != nil {
		d.add(a.deadline)
		return
	}
	if m.wantsElection() {
		d.add(m.ask.nextAt)
	}
	founding := m.role == member.Provisional && m.held().IsZero()
	if m.role == member.Leading && m.boundAbove() || founding {
		if m.propose.at.After(m.now) {
			d.add(m.propose.at)
		} else if m.voteWait.After(m.now) {
			d.add(m.voteWait)
		} else if at := m.gatheredAt(); founding && at.After(m.now) {
			d.add(at)
		}
	}
}

// failAttempt gives the attempt up and waits: by rank, so that contenders do
// not duel, with jitter, and longer after each failure.
func (m *Machine) failAttempt() {
	a := m.propose.attempt
	m.trace(Trace{
		Kind: GaveUpProposal, Peer: a.candidates[0], Version: a.id.Version, Stage: a.stage(),
	})
	m.dropAttempt()
	if m.propose.fails < maxFails {
		m.propose.fails++
	}
	step := m.cfg.Timings.HeartbeatInterval / 4
	rank := min(m.durable.Held.Roster.Rank(m.self.Address), maxRank)
	wait := step*time.Duration(rank*m.propose.fails) + m.jitter(step*time.Duration(2*m.propose.fails))
	m.ask.nextAt = m.now.Add(wait)
	m.propose.at = m.now.Add(wait)
}

// patience is how long answers are waited for: HeartbeatInterval, and longer
// after each failure, so that a round trip above HeartbeatInterval only delays.
func (m *Machine) patience(fails int) time.Duration {
	return m.cfg.Timings.HeartbeatInterval * time.Duration(1+min(fails, maxFails))
}

// maxFails and maxRank bound the wait after a failed attempt.
const (
	maxFails = 4
	maxRank  = 8
)

func (m *Machine) dropAttempt() { m.propose.attempt = nil }
