// SPDX-License-Identifier: Apache-2.0

package paxos_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

func roster(n int) member.Roster {
	var r member.Roster
	for i := 1; i <= n; i++ {
		r = r.With(member.Member{Identity: voter(i), Status: member.Active})
	}
	return r
}

// What a voter did, as the digit of an assignment to base 3.
const (
	silent = iota
	granted
	refused
)

// Every way in which up to five voters can vote: a proposal is won with M
// grants, lost when M can no longer be reached, and otherwise undecided.
func TestCountOfEveryVote(t *testing.T) {
	for n := 1; n <= 5; n++ {
		e := paxos.Electorate{Roster: roster(n), Quorum: member.Quorum(n)}
		everyVote(n, func(votes []int, b *paxos.Ballots) {
			yes, open := tally(votes, n)
			want := paxos.Pending
			if yes >= e.Quorum {
				want = paxos.Won
			} else if yes+open < e.Quorum {
				want = paxos.Lost
			}
			if got := b.Count(e); got != want {
				t.Fatalf("N=%d votes %v: got %v, want %v", n, votes, got, want)
			}
		})
	}
}

// protocol.md section 4: a founding "needs pre and formal votes of M active
// members and of a majority of the configured seeds". Every vote of up to four
// members, with every number of seeds among them and beside them.
func TestCountOfEveryFounding(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for inside := range n + 1 {
			for outside := range 3 {
				if inside+outside == 0 {
					continue
				}
				e := paxos.Electorate{Roster: roster(n), Quorum: member.Quorum(n)}
				for i := range inside {
					e.Seeds = append(e.Seeds, addr(i+1))
				}
				for i := range outside {
					e.Seeds = append(e.Seeds, addr(100+i)) // no member, so it never votes
				}
				name := fmt.Sprintf("%d members, %d of %d seeds among them", n, inside, inside+outside)
				checkFounding(t, name, e, n, inside)
			}
		}
	}
}

func checkFounding(t *testing.T, name string, e paxos.Electorate, n, inside int) {
	t.Helper()
	need := member.Quorum(len(e.Seeds))
	everyVote(n, func(votes []int, b *paxos.Ballots) {
		yes, open := tally(votes, n)
		seedsYes, seedsOpen := tally(votes, inside)
		want := paxos.Pending
		if yes >= e.Quorum && seedsYes >= need {
			want = paxos.Won
		} else if yes+open < e.Quorum || seedsYes+seedsOpen < need {
			want = paxos.Lost
		}
		if got := b.Count(e); got != want {
			t.Fatalf("%s, votes %v: got %v, want %v", name, votes, got, want)
		}
	})
}

// everyVote calls f for each way in which voters 1 to n can vote.
func everyVote(n int, f func(votes []int, b *paxos.Ballots)) {
	total := 1
	for range n {
		total *= 3
	}
	for code := range total {
		votes, b := make([]int, n), new(paxos.Ballots)
		for i := range votes {
			votes[i] = code % 3
			code /= 3
			if votes[i] != silent {
				b.Add(paxos.Vote{From: voter(i + 1), Granted: votes[i] == granted})
			}
		}
		f(votes, b)
	}
}

// tally counts the grants and the open votes of the first n voters.
func tally(votes []int, n int) (yes, open int) {
	for _, v := range votes[:n] {
		switch v {
		case granted:
			yes++
		case silent:
			open++
		}
	}
	return yes, open
}

// protocol.md section 12: "counted per voter and ballot: one voter three times
// is no majority".
func TestOneVoterThreeTimesIsNoMajority(t *testing.T) {
	var b paxos.Ballots
	e := paxos.Electorate{Roster: roster(3), Quorum: 2}
	again := voter(1)
	again.Incarnation++
	for i, v := range []paxos.Vote{
		{From: voter(1), Granted: true}, {From: voter(1), Granted: true}, {From: again, Granted: true},
	} {
		if got, want := b.Add(v), i == 0; got != want {
			t.Errorf("vote %d of one voter counted: got %v, want %v", i+1, got, want)
		}
	}
	if got := b.Count(e); got != paxos.Pending {
		t.Errorf("one voter three times: got %v, want %v", got, paxos.Pending)
	}
	if b.Add(paxos.Vote{From: voter(1)}); b.Count(e) == paxos.Lost {
		t.Error("a later no of the same voter counted: the first vote stands")
	}
}

// protocol.md section 6, 4: "votes count where (address, store id) is a voter
// of the newest held state".
func TestOnlyVotersOfTheRosterCount(t *testing.T) {
	r := roster(3)
	r = r.With(member.Member{Identity: voter(4), Status: member.Joining})
	for name, stranger := range map[string]member.Identity{
		"another store": {Address: addr(2), StoreID: member.StoreID{99}, Incarnation: 1},
		"joining":       voter(4),
		"stranger":      voter(5),
	} {
		var b paxos.Ballots
		b.Add(paxos.Vote{From: voter(1), Granted: true})
		b.Add(paxos.Vote{From: stranger, Granted: true})
		if got := b.Count(paxos.Electorate{Roster: r, Quorum: 2}); got != paxos.Pending {
			t.Errorf("%s voted: got %v, want %v", name, got, paxos.Pending)
		}
	}
}

// protocol.md section 6, 4: "if a vote shows a value accepted at this version:
// adopt the one of the highest ballot".
func TestAdoptTheValueOfTheHighestBallot(t *testing.T) {
	value := func(version, round uint64) paxos.Accepted {
		return paxos.Accepted{ID: id(version, round, 1), Base: number(4, round)}
	}
	yes := func(i int, a paxos.Accepted) paxos.Vote {
		return paxos.Vote{From: voter(i), Granted: true, Accepted: a}
	}
	for _, tc := range []struct {
		name  string
		votes []paxos.Vote
		want  paxos.Accepted
	}{
		{"nothing accepted", []paxos.Vote{yes(1, paxos.Accepted{})}, paxos.Accepted{}},
		{"one", []paxos.Vote{yes(1, paxos.Accepted{}), yes(2, value(5, 2))}, value(5, 2)},
		{"two", []paxos.Vote{yes(1, value(5, 3)), yes(2, value(5, 2))}, value(5, 3)},
		{"two, the other way", []paxos.Vote{yes(1, value(5, 2)), yes(2, value(5, 3))}, value(5, 3)},
		{"of a later version", []paxos.Vote{yes(1, value(5, 2)), yes(2, value(6, 9))}, value(5, 2)},
		{"of another version", []paxos.Vote{yes(1, value(4, 9)), yes(2, value(6, 9))}, paxos.Accepted{}},
		{"refused", []paxos.Vote{{From: voter(1), Accepted: value(5, 2)}}, paxos.Accepted{}},
	} {
		b := paxos.Ballots{Version: 5}
		for _, v := range tc.votes {
			b.Add(v)
		}
		got, found := b.Adopt()
		if got.ID != tc.want.ID || got.Base != tc.want.Base || found == tc.want.IsZero() {
			t.Errorf("%s: got %v, %v, want %v", tc.name, got, found, tc.want)
		}
	}
}

func TestGrantedIsOfOneRun(t *testing.T) {
	var b paxos.Ballots
	b.Add(paxos.Vote{From: voter(1), Granted: true})
	b.Add(paxos.Vote{From: voter(2)})
	again := voter(1)
	again.Incarnation++
	for _, tc := range []struct {
		id   member.Identity
		want bool
	}{{voter(1), true}, {again, false}, {voter(2), false}, {voter(3), false}} {
		if got := b.Granted(tc.id); got != tc.want {
			t.Errorf("Granted(%v): got %v, want %v", tc.id, got, tc.want)
		}
	}
}

// protocol.md section 6, 4: "the initial state is the newest held state with
// the candidate active and the incarnations of those that pre-voted, under the
// new version, revision 0".
func TestInitialState(t *testing.T) {
	base := member.State{Number: number(4, 9), Leader: addr(1), Roster: roster(4)}
	base.Roster[1].Status, base.Roster[1].Gone, base.Roster[1].Resigned = member.Leaving, true, true
	base.Roster[3].Status, base.Roster[3].Resigned = member.Leaving, true
	before := slices.Clone(base.Roster)
	var b paxos.Ballots
	for i := 2; i <= 4; i++ { // voter 3 in its old run, and with a no
		from := voter(i)
		if i != 3 {
			from.Incarnation = 7
		}
		b.Add(paxos.Vote{From: from, Granted: i != 3})
	}
	got := b.Initial(base, addr(2), 6)
	if got.Number != number(6, 0) || got.Leader != addr(2) {
		t.Errorf("initial state: got %v led by %v, want 6.0 led by %v", got.Number, got.Leader, addr(2))
	}
	want := slices.Clone(before)
	want[1].Incarnation, want[1].Status = 7, member.Active
	want[1].Gone, want[1].Resigned = false, false
	want[3].Incarnation, want[3].Resigned = 7, false // a later run did not leave on purpose
	if !slices.Equal(got.Roster, want) {
		t.Errorf("initial roster: got %+v, want %+v", got.Roster, want)
	}
	if !slices.Equal(base.Roster, before) {
		t.Errorf("the base was changed: got %+v, want %+v", base.Roster, before)
	}
}
