// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"slices"

	"github.com/athena-go/athena/member"
)

// Proposer makes the proposals of one node, one attempt at a time. It is a value: each step returns
// the next Proposer. It is not saved, because a later run has another incarnation and therefore
// other ballots.
type Proposer struct {
	Attempt  Attempt // the attempt in progress; zero for none
	Failures int     // attempts in a row that ended without a leader, at most MaxFailures
	round    uint64  // highest round seen
	version  uint64  // highest version seen in a promise, or the next version to try
}

// Attempt is one proposal through both stages.
type Attempt struct {
	ID       ID
	Stage    Stage
	Founding bool
	// Candidates are the nodes to propose if no value must be adopted, in order of preference. They
	// are the proposer itself, the successors of a leader that hands over, or the preferred members
	// of a founding.
	Candidates []member.Address
	Base       member.State // state that the value continues; its voters vote
	Value      Accepted     // proposed value; set in the formal stage
	first      uint64       // version of the initial state
	quorum     int          // M
	seeds      []member.Address
	able       []member.Identity // runs that can lead, according to their pre votes
	unable     []member.Identity // runs that refuse to lead, according to their pre votes
	votes      tally             // votes of the current stage
}

// IsZero reports whether no attempt is in progress.
func (t Attempt) IsZero() bool { return t.ID.IsZero() }

// BeginElection starts an attempt to elect one of the candidates, based on the state that the
// node's own acceptor a holds. The caller votes for the Proposal of the attempt and sends it to the
// other voters.
//
// The version is the greatest of three: held + 1, the highest version seen in votes, and one above
// a version whose value could not be adopted (protocol.md 6, 3). It is not below the version of the
// node's own promise; otherwise the node would refuse its own proposal.
func (p Proposer) BeginElection(
	self member.Identity, a Acceptor, quorum int, candidates []member.Address,
) Proposer {
	version := max(a.Held.Version+1, p.version, a.Promised.Version, a.Least())
	return p.beginAttempt(self, a, Attempt{
		ID:         ID{Version: version},
		first:      version,
		Candidates: candidates,
		Base:       a.Held,
		quorum:     quorum,
	})
}

// BeginFounding starts an election without any held state, among the active members of the
// proposer's provisional state.
//
// (S) A founding is always for version 1. It needs pre and formal votes of M active members and of
// a majority of the configured seeds. Its value is the only one for all of its ballots, so the
// initial state may have another version: least, above the tokens of members that were recovered
// (protocol.md 4).
func (p Proposer) BeginFounding(
	self member.Identity, a Acceptor, quorum int, active member.Roster,
	seeds, candidates []member.Address, least uint64,
) Proposer {
	return p.beginAttempt(self, a, Attempt{
		ID:         ID{Version: 1},
		Founding:   true,
		first:      max(1, least, a.Least()),
		Candidates: candidates,
		Base:       member.State{Roster: active},
		quorum:     quorum,
		seeds:      seeds,
	})
}

// beginAttempt gives the attempt a new ballot.
//
// Its round is one above the highest round that was seen or promised (protocol.md 6, 7).
func (p Proposer) beginAttempt(self member.Identity, a Acceptor, t Attempt) Proposer {
	p.round = max(p.round, a.Promised.Ballot.Round) + 1
	t.ID.Ballot = Ballot{
		Round:       p.round,
		Proposer:    self.Address,
		Incarnation: self.Incarnation,
		StoreID:     self.StoreID,
	}
	t.Stage = Pre
	t.votes.version = t.ID.Version
	p.Attempt = t
	return p
}

// Proposal returns the proposal of the current stage. held is the state that the proposer holds.
func (t Attempt) Proposal(held member.State) Proposal {
	q := Proposal{Stage: t.Stage, ID: t.ID, Founding: t.Founding, Held: held.Number, State: held}
	if t.Stage == Formal {
		q.Base, q.State = t.Value.Base, t.Value.State
	}
	return q
}

// Voters returns the addresses that have a vote in the attempt.
func (t Attempt) Voters() []member.Address {
	var voters []member.Address
	for _, e := range t.Base.Roster {
		if e.IsVoter() {
			voters = append(voters, e.Address)
		}
	}
	return voters
}

// Expects reports whether a vote on proposal id in this stage answers the attempt.
//
// Votes of other ballots and of other runs of the proposer do not count (protocol.md 6, 7).
func (t Attempt) Expects(id ID, stage Stage) bool {
	return !t.IsZero() && t.ID == id && t.Stage == stage
}

// Count counts a vote that the attempt expects, or returns the reason why it does not count. The
// caller then calls Next.
//
// A vote counts if its (address, store id) is a voter of the newest held state among the votes
// (protocol.md 6, 4), once per voter (6, 6).
func (p Proposer) Count(v Vote) (Proposer, Refusal) {
	p.Attempt = p.Attempt.rebaseOn(v.Newer)
	t := &p.Attempt
	switch {
	case !t.Base.Roster.IsVoter(v.From.Voter()):
		return p, NotVoter
	case !t.votes.addVote(v):
		return p, VotedTwice
	case t.Stage == Pre && v.Unable:
		t.unable = append(slices.Clip(t.unable), v.From)
	case t.Stage == Pre && (v.Granted || v.Waits):
		t.able = append(slices.Clip(t.able), v.From)
	}
	return p, NotRefused
}

// rebaseOn bases the attempt on s if s is newer than its base. A proposer that is bound to a
// version above s cannot take s, but voters that hold s would always refuse a value with an older
// base.
//
// (S) The proposer may build on s without taking it, but only if the proposer and its candidate are
// both voters of s (protocol.md 6, 4). In the formal stage the value is settled and does not
// change.
func (t Attempt) rebaseOn(s member.State) Attempt {
	hasVote := func(c member.Address) bool {
		e, _ := s.Roster.Find(c)
		return e.IsVoter()
	}
	if t.Stage == Pre && t.Base.Less(s.Number) && s.Version < t.ID.Version &&
		s.Roster.IsVoter(t.ID.Ballot.Run().Voter()) && slices.ContainsFunc(t.Candidates, hasVote) {
		t.Base = s
	}
	return t
}

// Step is the next action of the proposer.
type Step uint8

// The steps of an attempt.
const (
	Wait    Step = iota // for more votes
	GiveUp              // the attempt cannot succeed: call Fail
	Propose             // M promised: send the formal Proposal, and accept it
	Elect               // M accepted: Attempt.Value is chosen
)

// Next returns the step to take after the votes counted so far.
//
// A value is chosen by M formal votes of exactly this ballot, one per voter (protocol.md 6, 6).
func (p Proposer) Next() (Proposer, Step) {
	t := p.Attempt
	switch t.votes.countVotes(electorate{t.Base.Roster, t.quorum, t.seeds}) {
	case won:
		if t.Stage == Formal {
			return p, Elect
		}
		return p.settleValue()
	case lost:
		return p, GiveUp
	case pending:
	}
	return p, Wait
}

// settleValue settles the value of an attempt that has M promises, and begins its formal stage.
//
// (S) If votes show values accepted at this version, the one with the highest ballot counts. The
// proposer adopts this value if the value is based on the newest state, has the voters of that
// state, and names a candidate that voted in this round. Otherwise the proposer starts again one
// version higher. A founding always adopts an accepted value. Without an accepted value, the node
// proposes itself or a successor (protocol.md 6, 4). An accepted value may be chosen already, so no
// other may be proposed for its version.
func (p Proposer) settleValue() (Proposer, Step) {
	t := p.Attempt
	value, found := t.votes.adoptValue()
	switch {
	case found && (t.Founding || t.mayAdopt(value)):
	case found:
		p.version = t.ID.Version + 1
		return p, GiveUp
	default:
		initial, alive := t.initialState()
		if t.NoneAble() {
			return p, GiveUp
		}
		if !alive {
			return p, Wait // a candidate may still vote
		}
		value.Base = t.Base.Number
		value.State = initial
		if t.Founding {
			value.State.Cluster = t.ID.Ballot.clusterID()
		}
	}
	value.ID = t.ID
	t.Value = value
	t.Stage = Formal
	t.votes = tally{version: t.ID.Version}
	p.Attempt = t
	return p, Propose
}

// mayAdopt reports whether a value continues the base of the attempt, has the same voters, and
// names a leader that is up. An election never changes the voters.
func (t Attempt) mayAdopt(v Accepted) bool {
	sameVoter := func(x, y member.Member) bool { return x.Voter() == y.Voter() }
	return v.Base == t.Base.Number && t.votes.grantedBy(v.State.LeaderIdentity()) &&
		slices.EqualFunc(v.State.Roster, t.Base.Roster, sameVoter)
}

// initialState returns the state in which the first candidate that answered would start to lead, or
// false if no candidate has answered. It skips silent candidates, because the election of a dead
// candidate would cost a LeaderTimeout and a version. It also skips a candidate that restarted: the
// proposer does not know whether the new run may lead.
func (t Attempt) initialState() (member.State, bool) {
	for _, c := range t.Candidates {
		s := t.votes.initialState(t.Base, c, t.first)
		run := s.LeaderIdentity()
		known := t.Base.Roster.Has(run) || c == t.ID.Ballot.Proposer
		if known && slices.Contains(t.able, run) {
			return s, true
		}
	}
	return member.State{}, false
}

// NoneAble reports whether all candidates refused to lead.
func (t Attempt) NoneAble() bool {
	return !slices.ContainsFunc(t.Candidates, func(c member.Address) bool {
		return !slices.ContainsFunc(t.unable, func(u member.Identity) bool { return u.Address == c })
	})
}

// MaxFailures is the maximum of Failures. The caller waits for answers for one interval, plus one
// for each failure: at most five intervals (protocol.md 6, 2).
const MaxFailures = 4

// Fail ends an attempt that was refused, timed out or cannot succeed. The next attempt has a higher
// round.
func (p Proposer) Fail() Proposer {
	p.Failures = min(p.Failures+1, MaxFailures)
	return p.Drop()
}

// Drop ends the attempt without counting a failure.
func (p Proposer) Drop() Proposer {
	p.Attempt = Attempt{}
	return p
}

// SeeRound makes the round of the next ballot greater than the given one. It ignores a round that
// no voter accepts.
func (p Proposer) SeeRound(round uint64) Proposer {
	if round <= 2*maxRound {
		p.round = max(p.round, round)
	}
	return p
}

// SeePromise makes the next proposal exceed what a voter promised. held is the version that the
// proposer holds. SeePromise ignores a promise that no acceptor can have made.
func (p Proposer) SeePromise(promised ID, held uint64) Proposer {
	if promised.Version > held+2*MaxVersionJump {
		return p
	}
	return p.SeeRound(promised.Ballot.Round).SeeVersion(promised.Version)
}

// IsInconclusive reports whether the current attempt would fail for another reason than its
// candidates: it lacks votes, or a voter promised a later ballot.
func (p Proposer) IsInconclusive() bool {
	t := &p.Attempt
	return p.round > t.ID.Ballot.Round || p.version > t.ID.Version ||
		t.votes.countVotes(electorate{t.Base.Roster, t.quorum, t.seeds}) != won
}

// SeeVersion makes the version of the next election at least the given one.
func (p Proposer) SeeVersion(version uint64) Proposer {
	p.version = max(p.version, version)
	return p
}
