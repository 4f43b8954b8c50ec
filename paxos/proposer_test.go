// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"slices"
	"testing"

	"github.com/athena-go/athena/member"
)

// Each test checks a sentence of protocol.md about proposers. Voter 1 of a cluster of n holds 4.9
// and proposes. The test answers for the other voters and checks the next step.

func heldBy(n int) member.State {
	return member.State{
		Number: number(4, 9), Cluster: member.ClusterID{1}, Leader: addr(n), Roster: roster(n),
	}
}

// proposing returns the proposer of voter 1 of n, with an attempt in progress that voter 1 has
// voted for.
func proposing(t *testing.T, n int) Proposer {
	t.Helper()
	a := Acceptor{Held: heldBy(n)}
	p := Proposer{}.BeginElection(voter(1), a, member.Quorum(n), []member.Address{addr(1)})
	p, step := counted(t, p, yes(1))
	if step != Wait {
		t.Fatalf("its own vote of %d: got step %d, want it to wait", n, step)
	}
	return p
}

// founding returns the proposer of voter 1 in a founding by n nodes. Nodes 1 and 2 are seeds.
func founding(t *testing.T, n int) Proposer {
	t.Helper()
	seeds := []member.Address{addr(1), addr(2)}
	p := Proposer{}.BeginFounding(voter(1), Acceptor{}, member.Quorum(n), roster(n), seeds,
		[]member.Address{voter(1).Address}, 0)
	p, _ = counted(t, p, yes(1))
	return p
}

func yes(i int) Vote { return Vote{From: voter(i), Granted: true} }

func no(i int) Vote { return Vote{From: voter(i)} }

// showing returns a vote that shows an accepted value.
func showing(i int, a Accepted) Vote {
	v := yes(i)
	v.Accepted = a
	return v
}

// counted counts votes and returns the next step. It requires that each vote counts.
func counted(t *testing.T, p Proposer, votes ...Vote) (Proposer, Step) {
	t.Helper()
	step := Wait
	for _, v := range votes {
		next, why := p.Count(v)
		if why != NotRefused {
			t.Fatalf("vote of %v: refused with %d, want it counted", v.From, why)
		}
		p, step = next.Next()
	}
	return p, step
}

// The version of a proposal is the greatest of three: held + 1, the highest version seen in votes,
// and one above a version whose value could not be adopted (protocol.md 6, 3). It is never below
// the node's own promise.
func TestVersionOfAnElection(t *testing.T) {
	for _, tc := range []struct {
		name     string
		promised uint64
		see      func(Proposer) Proposer
		want     uint64
	}{
		{"held + 1", 0, func(p Proposer) Proposer { return p }, 5},
		{"its own promise", 7, func(p Proposer) Proposer { return p }, 7},
		{"seen in a vote", 0, func(p Proposer) Proposer { return p.SeePromise(id(8, 1, 2), 4) }, 8},
		{"below held + 1", 0, func(p Proposer) Proposer { return p.SeePromise(id(3, 1, 2), 4) }, 5},
		{"2^17 above held", 0, func(p Proposer) Proposer {
			return p.SeePromise(id(4+1<<17, 1, 2), 4)
		}, 4 + 1<<17},
		{"a version that no election reaches", 0, func(p Proposer) Proposer {
			return p.SeePromise(id(5+1<<17, 1, 2), 4)
		}, 5},
		{"above a bound", 0, func(p Proposer) Proposer { return p.SeeVersion(10) }, 10},
	} {
		a := Acceptor{Held: heldBy(3)}
		if tc.promised > 0 {
			a.Promised = id(tc.promised, 1, 2)
		}
		p := tc.see(Proposer{}).BeginElection(voter(1), a, 2, []member.Address{addr(1)})
		if got := p.Attempt.ID.Version; got != tc.want {
			t.Errorf("%s: got version %d, want %d", tc.name, got, tc.want)
		}
		if q := p.Attempt.Proposal(a.Held); q.Stage != Pre || q.Held != a.Held.Number ||
			q.State.Leader != a.Held.Leader || q.Founding || a.RefusePromise(q, true) != NotRefused {
			t.Errorf("%s: got proposal %+v, want pre with its held state, which it grants", tc.name, q)
		}
	}
}

// The round of a ballot is one above the highest round that was seen or promised (protocol.md 6,
// 7).
func TestRoundOfAnAttempt(t *testing.T) {
	begin := func(p Proposer, promised uint64) Proposer {
		a := Acceptor{Held: heldBy(3), Promised: id(5, promised, 2)}
		return p.BeginElection(voter(1), a, 2, []member.Address{addr(1)})
	}
	for _, tc := range []struct {
		name           string
		seen, promised uint64
		want           uint64
	}{
		{"seen", 6, 2, 7}, {"promised", 2, 6, 7}, {"none", 0, 0, 1},
		{"a round that no voter may reach", 1 + 1<<41, 2, 3},
	} {
		p := begin(Proposer{}.SeeRound(tc.seen), tc.promised)
		want := Ballot{Round: tc.want, Proposer: addr(1), StoreID: voter(1).StoreID, Incarnation: 1}
		if got := p.Attempt.ID.Ballot; got != want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, want)
		}
		if got := begin(p.Fail(), tc.promised).Attempt.ID.Ballot.Round; got != tc.want+1 {
			t.Errorf("%s: got round %d next, want %d", tc.name, got, tc.want+1)
		}
	}
}

// M promises settle the value, and M votes in the formal stage choose it (protocol.md 6, 4 and 6).
// The test covers all votes of five voters in each stage.
func TestMVotesOfAStageWinIt(t *testing.T) {
	const n, quorum = 5, 3
	for _, stage := range []Stage{Pre, Formal} {
		start := proposing(t, n)
		wins, loses := Propose, GiveUp
		if stage == Formal {
			start, _ = counted(t, start, yes(2), yes(3))
			start, _ = counted(t, start, yes(1))
			wins = Elect
		}
		for granting := range 1 << (n - 1) { // set of the voters among 2 to 5 that grant
			p, granted, refused := start, 1, 0
			for i := 2; i <= n; i++ {
				v := no(i)
				if granting>>(i-2)&1 == 1 {
					v = yes(i)
					granted++
				} else {
					refused++
				}
				var got Step
				p, got = counted(t, p, v)
				want := Wait
				if granted >= quorum {
					want = wins
				} else if refused > n-quorum {
					want = loses
				}
				if got != want {
					t.Fatalf("%v, %d granted, %d refused: got step %d, want %d",
						stage, granted, refused, got, want)
				}
				if got != Wait {
					break
				}
			}
		}
	}
}

// A founding needs pre and formal votes of M active members and of a majority of the configured
// seeds (protocol.md 4).
func TestAFoundingNeedsAMajorityOfTheSeeds(t *testing.T) {
	p := founding(t, 5)
	if p.Attempt.ID.Version != 1 {
		t.Errorf("got version %d, want 1", p.Attempt.ID.Version)
	}
	p, step := counted(t, p, yes(3), yes(4))
	if step != Wait {
		t.Errorf("3 of 5 members, 1 of 2 seeds: got step %d, want it to wait", step)
	}
	p, step = counted(t, p, yes(2))
	if step != Propose {
		t.Errorf("4 of 5 members, both seeds: got step %d, want %d", step, Propose)
	}
	if got := p.Attempt.Value.State.Cluster; got != p.Attempt.ID.Ballot.clusterID() {
		t.Errorf("got cluster %v, want that of the ballot", got)
	}
	if _, step = counted(t, p, yes(1), no(2)); step != GiveUp {
		t.Errorf("a seed of two refuses: got step %d, want %d", step, GiveUp)
	}
}

// Votes of other ballots, of other runs of the proposer and of the other stage do not count
// (protocol.md 6, 7).
func TestOnlyVotesOnThisProposalAreExpected(t *testing.T) {
	p := proposing(t, 3)
	own, other, run := p.Attempt.ID, p.Attempt.ID, p.Attempt.ID
	other.Ballot.Round++
	run.Ballot.Incarnation--
	for _, tc := range []struct {
		id    ID
		stage Stage
		want  bool
	}{{own, Pre, true}, {own, Formal, false}, {other, Pre, false}, {run, Pre, false}} {
		if got := p.Attempt.Expects(tc.id, tc.stage); got != tc.want {
			t.Errorf("vote on %v, %v: got expected %v, want %v", tc.id, tc.stage, got, tc.want)
		}
	}
	if (Attempt{}).Expects(ID{}, 0) {
		t.Error("no attempt expects a vote")
	}
}

// A vote counts only if its address and store id are those of a voter (protocol.md 6, 4), and each
// voter counts once (6, 6).
func TestVotesThatDoNotCount(t *testing.T) {
	store := yes(2)
	store.From.StoreID[0]++
	for _, tc := range []struct {
		name string
		vote Vote
		want Refusal
	}{
		{"a stranger", yes(7), NotVoter},
		{"another store", store, NotVoter},
		{"itself", yes(1), VotedTwice},
	} {
		p, got := proposing(t, 3).Count(tc.vote)
		if got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
		if _, step := p.Next(); step != Wait {
			t.Errorf("%s: got step %d, want it to wait", tc.name, step)
		}
	}
}

// If votes show values accepted at this version, the one with the highest ballot counts. The
// proposer adopts this value if the value is based on the newest held state, has the voters of that
// state, and names a run of the candidate that voted in this round. Otherwise the proposer starts
// again one version higher (protocol.md 6, 4).
func TestTheChoiceOfTheValue(t *testing.T) {
	value := func(round uint64, change func(*Accepted)) Accepted {
		a := Accepted{ID: id(5, round, 3), Base: number(4, 9), State: heldBy(5)}
		a.State.Number, a.State.Leader = number(5, 0), addr(2)
		change(&a)
		return a
	}
	same := func(*Accepted) {}
	led := func(i int) func(*Accepted) {
		return func(a *Accepted) { a.State.Leader = addr(i) }
	}
	for _, tc := range []struct {
		name  string
		votes []Vote
		want  int // candidate; 0 for none
	}{
		{"nothing accepted", []Vote{yes(2), yes(3)}, 1},
		{"a voter of this round", []Vote{showing(2, value(1, same)), yes(3)}, 2},
		{"the higher ballot last", []Vote{
			showing(2, value(1, led(3))), showing(3, value(2, same)),
		}, 2},
		{"the higher ballot first", []Vote{
			showing(2, value(2, led(3))), showing(3, value(1, same)),
		}, 3},
		{"one that did not vote", []Vote{showing(2, value(1, led(4))), yes(3)}, 0},
		{"another run", []Vote{showing(2, value(1, func(a *Accepted) {
			a.State.Roster = a.State.Roster.With(member.Member{
				Identity: member.Identity{Address: addr(2), StoreID: voter(2).StoreID, Incarnation: 2},
				Status:   member.Active,
			})
		})), yes(3)}, 0},
		{"another base", []Vote{showing(2, value(1, func(a *Accepted) {
			a.Base = number(4, 8)
		})), yes(3)}, 0},
		{"other voters", []Vote{showing(2, value(1, func(a *Accepted) {
			a.State.Roster = a.State.Roster.Without(addr(5))
		})), yes(3)}, 0},
		{"another version", []Vote{showing(2, value(1, func(a *Accepted) {
			a.ID.Version = 4
		})), yes(3)}, 1},
	} {
		p, step := counted(t, proposing(t, 5), tc.votes...)
		if tc.want == 0 {
			next := p.Fail().BeginElection(voter(1), Acceptor{Held: heldBy(5)}, 3, nil)
			if step != GiveUp || next.Attempt.ID.Version != 6 {
				t.Errorf("%s: got step %d, version %d next, want %d, 6",
					tc.name, step, next.Attempt.ID.Version, GiveUp)
			}
			continue
		}
		q := p.Attempt.Proposal(heldBy(5))
		if step != Propose || q.Stage != Formal || q.State.Leader != addr(tc.want) ||
			q.Base != number(4, 9) || q.ID != p.Attempt.ID || p.Attempt.Value.ID != q.ID {
			t.Errorf("%s: got step %d, %v led by %v on %v, want formal led by %v on 4.9",
				tc.name, step, q.ID, q.State.Leader, q.Base, addr(tc.want))
		}
	}
}

// A founding always adopts an accepted value, regardless of its voters and candidate (protocol.md
// 6, 4).
func TestAFoundingAlwaysAdopts(t *testing.T) {
	value := Accepted{ID: id(1, 1, 3), State: member.State{
		Number: number(1, 0), Cluster: member.ClusterID{9}, Leader: addr(3), Roster: roster(2),
	}}
	p, step := counted(t, founding(t, 3), showing(2, value))
	got := p.Attempt.Value
	if step != Propose || got.State.Leader != addr(3) || got.State.Cluster != value.State.Cluster {
		t.Errorf("got step %d, %+v, want the value accepted before", step, got)
	}
}

// A proposer that is bound above the newest held state cannot take that state. The proposer builds
// on that state if the proposer and its candidate are voters of the state (protocol.md 6, 4).
func TestAnAttemptIsBuiltOnTheNewestState(t *testing.T) {
	newer := func(change func(*member.State)) member.State {
		s := heldBy(3)
		s.Revision = 12
		change(&s)
		return s
	}
	same := func(*member.State) {}
	for _, tc := range []struct {
		name  string
		state member.State
		want  member.Number
	}{
		{"newer", newer(same), number(4, 12)},
		{"not newer", newer(func(s *member.State) { s.Revision = 8 }), number(4, 9)},
		{"of this version", newer(func(s *member.State) { s.Version = 5 }), number(4, 9)},
		{"without the proposer", newer(func(s *member.State) {
			s.Roster = s.Roster.Without(addr(1))
		}), number(4, 9)},
		{"with another store of it", newer(func(s *member.State) {
			s.Roster = slices.Clone(s.Roster)
			s.Roster[0].StoreID[0]++
		}), number(4, 9)},
	} {
		v := no(2)
		v.Newer = tc.state
		p, _ := counted(t, proposing(t, 3), v)
		p, step := counted(t, p, yes(3))
		if step != Propose || p.Attempt.Value.Base != tc.want {
			t.Errorf("%s: got step %d on %v, want %d on %v",
				tc.name, step, p.Attempt.Value.Base, Propose, tc.want)
		}
	}
	// In the formal stage the base no longer changes.
	p, _ := counted(t, proposing(t, 3), yes(2))
	v := yes(2)
	v.Newer = newer(same)
	if p, _ = counted(t, p, v); p.Attempt.Base.Number != number(4, 9) {
		t.Errorf("formal: got base %v, want 4.9", p.Attempt.Base.Number)
	}
}

// When M votes have arrived, the proposer proposes one of the successors that have answered: the
// one that had shown the newest state. An answer is a granted pre vote, or a pre vote that a member
// with a memory store refused because of the wait after a start (protocol.md 6, leaving leader).
func TestTheFirstSuccessorThatAnswersIsProposed(t *testing.T) {
	waits := no(4)
	waits.Waits = true
	for _, tc := range []struct {
		name       string
		candidates []member.Address
		votes      []Vote
		want       int // 0 if no successor is proposed yet
	}{
		{"all answer", []member.Address{addr(2), addr(3)}, []Vote{yes(2), yes(3)}, 2},
		{"the first is silent", []member.Address{addr(5), addr(3)}, []Vote{yes(2), yes(3)}, 3},
		{"the first refuses", []member.Address{addr(4), addr(3)}, []Vote{no(4), yes(2), yes(3)}, 3},
		{"the first waits after its start", []member.Address{addr(4), addr(3)},
			[]Vote{waits, yes(2), yes(3)}, 4},
		{"all are silent", []member.Address{addr(4), addr(5)}, []Vote{yes(2), yes(3)}, 0},
	} {
		a := Acceptor{Held: heldBy(5)}
		p := Proposer{}.BeginElection(voter(1), a, 3, tc.candidates)
		p, _ = counted(t, p, yes(1))
		p, step := counted(t, p, tc.votes...)
		if tc.want == 0 {
			if step != Wait || p.Attempt.Stage != Pre {
				t.Errorf("%s: got step %d, want it to wait for their votes", tc.name, step)
			}
			continue
		}
		if step != Propose || p.Attempt.Value.State.Leader != addr(tc.want) {
			t.Errorf("%s: got step %d, leader %v, want %d, %v",
				tc.name, step, p.Attempt.Value.State.Leader, Propose, addr(tc.want))
		}
	}
}

// TestARestartedSuccessorIsNotProposed checks that a successor is not proposed if its vote comes
// from a later run than the run in the held state. The leader does not know whether the later run
// may lead.
func TestARestartedSuccessorIsNotProposed(t *testing.T) {
	candidates := []member.Address{addr(2), addr(3)}
	p := Proposer{}.BeginElection(voter(1), Acceptor{Held: heldBy(3)}, member.Quorum(3), candidates)
	later := yes(2)
	later.From.Incarnation++
	p, step := counted(t, p, yes(1), later)
	if step != Wait {
		t.Fatalf("after the vote of a later run: got step %d, want it to wait", step)
	}
	p, step = counted(t, p, yes(3))
	if got := p.Attempt.Value.State.Leader; step != Propose || got != addr(3) {
		t.Errorf("got step %d for %v, want %v proposed", step, got, addr(3))
	}
}

func TestFailuresAreCounted(t *testing.T) {
	p := Proposer{}
	for i := range 7 {
		if want := min(i, 4); p.Failures != want {
			t.Errorf("after %d failures: got %d, want %d", i, p.Failures, want)
		}
		p = p.Fail()
	}
}

// A proposer is a value. A step returns a new proposer and does not modify the old one, so an
// explorer can take every step from one state.
func TestStepsLeaveTheProposer(t *testing.T) {
	p := proposing(t, 5)
	left, _ := counted(t, p, yes(2))
	right, _ := counted(t, p, no(3))
	if _, why := left.Count(yes(3)); why != NotRefused {
		t.Error("a vote counted after another step counts here")
	}
	if _, why := right.Count(yes(2)); why != NotRefused {
		t.Error("a vote counted before another step counts here")
	}
	if _, step := counted(t, left, yes(3)); step != Propose {
		t.Errorf("3 of 5: got step %d, want %d", step, Propose)
	}
}

// TestALaterBallotIsInconclusive checks that an attempt is inconclusive without M votes, and if a
// voter promised a later ballot, be its round or its version later.
func TestALaterBallotIsInconclusive(t *testing.T) {
	p := proposing(t, 5)
	if !p.IsInconclusive() {
		t.Error("an attempt with one vote is conclusive")
	}
	for i := 2; i <= 3; i++ {
		p, _ = p.Count(Vote{From: voter(i), Granted: true})
	}
	if p.IsInconclusive() {
		t.Error("an attempt with M votes is inconclusive")
	}
	if id := p.Attempt.ID; !p.SeeVersion(id.Version+1).IsInconclusive() ||
		!p.SeeRound(id.Ballot.Round+1).IsInconclusive() {
		t.Error("an attempt is conclusive after a promise to a later ballot")
	}
}
