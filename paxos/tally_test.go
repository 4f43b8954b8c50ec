// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/athena-go/athena/member"
)

func roster(n int) member.Roster {
	var r member.Roster
	for i := 1; i <= n; i++ {
		r = r.With(member.Member{Identity: voter(i), Status: member.Active})
	}
	return r
}

// These are the votes of a voter, as digits in base 3.
const (
	silent = iota
	granted
	refused
)

// For all votes of up to five voters, a proposal is won with M grants, lost when M can no longer be
// reached, and otherwise pending.
func TestCountOfEveryVote(t *testing.T) {
	for n := 1; n <= 5; n++ {
		e := electorate{roster: roster(n), quorum: member.Quorum(n)}
		everyVote(n, func(votes []int, b *tally) {
			yes, open := countKinds(votes, n)
			want := pending
			if yes >= e.quorum {
				want = won
			} else if yes+open < e.quorum {
				want = lost
			}
			if got := b.countVotes(e); got != want {
				t.Fatalf("N=%d votes %v: got %v, want %v", n, votes, got, want)
			}
		})
	}
}

// A founding needs votes of M active members and of a majority of the configured seeds
// (protocol.md 4). The test covers all votes of up to four members, with any number of seeds among
// them and up to two other seeds.
func TestCountOfEveryFounding(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for inside := range n + 1 {
			for outside := range 3 {
				if inside+outside == 0 {
					continue
				}
				e := electorate{roster: roster(n), quorum: member.Quorum(n)}
				for i := range inside {
					e.seeds = append(e.seeds, addr(i+1))
				}
				for i := range outside {
					e.seeds = append(e.seeds, addr(100+i)) // this seed is not a member, so it never votes
				}
				name := fmt.Sprintf("%d members, %d of %d seeds among them", n, inside, inside+outside)
				checkFounding(t, name, e, n, inside)
			}
		}
	}
}

func checkFounding(t *testing.T, name string, e electorate, n, inside int) {
	t.Helper()
	need := member.Quorum(len(e.seeds))
	everyVote(n, func(votes []int, b *tally) {
		yes, open := countKinds(votes, n)
		seedsYes, seedsOpen := countKinds(votes, inside)
		want := pending
		if yes >= e.quorum && seedsYes >= need {
			want = won
		} else if yes+open < e.quorum || seedsYes+seedsOpen < need {
			want = lost
		}
		if got := b.countVotes(e); got != want {
			t.Fatalf("%s, votes %v: got %v, want %v", name, votes, got, want)
		}
	})
}

// everyVote calls f for all possible votes of voters 1 to n.
func everyVote(n int, f func(votes []int, b *tally)) {
	total := 1
	for range n {
		total *= 3
	}
	for code := range total {
		votes, b := make([]int, n), new(tally)
		for i := range votes {
			votes[i] = code % 3
			code /= 3
			if votes[i] != silent {
				b.addVote(Vote{From: voter(i + 1), Granted: votes[i] == granted})
			}
		}
		f(votes, b)
	}
}

// countKinds counts the grants and the missing votes of the first n voters.
func countKinds(votes []int, n int) (yes, open int) {
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

// Each voter counts once per ballot: three votes of one voter are not a majority (protocol.md 12).
func TestOneVoterThreeTimesIsNoMajority(t *testing.T) {
	var b tally
	e := electorate{roster: roster(3), quorum: 2}
	again := voter(1)
	again.Incarnation++
	for i, v := range []Vote{
		{From: voter(1), Granted: true}, {From: voter(1), Granted: true}, {From: again, Granted: true},
	} {
		if got, want := b.addVote(v), i == 0; got != want {
			t.Errorf("vote %d of one voter counted: got %v, want %v", i+1, got, want)
		}
	}
	if got := b.countVotes(e); got != pending {
		t.Errorf("one voter three times: got %v, want %v", got, pending)
	}
	if b.addVote(Vote{From: voter(1)}); b.countVotes(e) == lost {
		t.Error("a later no of the same voter counted: the first vote stands")
	}
}

// A vote counts if its address and store id are those of a voter of the newest held state
// (protocol.md 6, 4).
func TestOnlyVotersOfTheRosterCount(t *testing.T) {
	r := roster(3)
	r = r.With(member.Member{Identity: voter(4), Status: member.Joining})
	for name, stranger := range map[string]member.Identity{
		"another store": {Address: addr(2), StoreID: member.StoreID{99}, Incarnation: 1},
		"joining":       voter(4),
		"stranger":      voter(5),
	} {
		var b tally
		b.addVote(Vote{From: voter(1), Granted: true})
		b.addVote(Vote{From: stranger, Granted: true})
		if got := b.countVotes(electorate{roster: r, quorum: 2}); got != pending {
			t.Errorf("%s voted: got %v, want %v", name, got, pending)
		}
	}
}

// Of the accepted values that votes show for this version, the one with the highest ballot is
// adopted (protocol.md 6, 4).
func TestAdoptTheValueOfTheHighestBallot(t *testing.T) {
	value := func(version, round uint64) Accepted {
		return Accepted{ID: id(version, round, 1), Base: number(4, round)}
	}
	yes := func(i int, a Accepted) Vote {
		return Vote{From: voter(i), Granted: true, Accepted: a}
	}
	for _, tc := range []struct {
		name  string
		votes []Vote
		want  Accepted
	}{
		{"nothing accepted", []Vote{yes(1, Accepted{})}, Accepted{}},
		{"one", []Vote{yes(1, Accepted{}), yes(2, value(5, 2))}, value(5, 2)},
		{"two", []Vote{yes(1, value(5, 3)), yes(2, value(5, 2))}, value(5, 3)},
		{"two, the other way", []Vote{yes(1, value(5, 2)), yes(2, value(5, 3))}, value(5, 3)},
		{"of a later version", []Vote{yes(1, value(5, 2)), yes(2, value(6, 9))}, value(5, 2)},
		{"of another version", []Vote{yes(1, value(4, 9)), yes(2, value(6, 9))}, Accepted{}},
		{"refused", []Vote{{From: voter(1), Accepted: value(5, 2)}}, Accepted{}},
	} {
		b := tally{version: 5}
		for _, v := range tc.votes {
			b.addVote(v)
		}
		got, found := b.adoptValue()
		if got.ID != tc.want.ID || got.Base != tc.want.Base || found == tc.want.IsZero() {
			t.Errorf("%s: got %v, %v, want %v", tc.name, got, found, tc.want)
		}
	}
}

func TestGrantedIsOfOneRun(t *testing.T) {
	var b tally
	b.addVote(Vote{From: voter(1), Granted: true})
	b.addVote(Vote{From: voter(2)})
	again := voter(1)
	again.Incarnation++
	for _, tc := range []struct {
		id   member.Identity
		want bool
	}{{voter(1), true}, {again, false}, {voter(2), false}, {voter(3), false}} {
		if got := b.grantedBy(tc.id); got != tc.want {
			t.Errorf("Granted(%v): got %v, want %v", tc.id, got, tc.want)
		}
	}
}

// The initial state is the newest held state, in revision 0 of the new version. Its candidate is
// active, and it has the incarnations of the nodes that pre-voted (protocol.md 6, 4).
func TestInitialState(t *testing.T) {
	base := member.State{Number: number(4, 9), Leader: addr(1), Roster: roster(4)}
	base.Roster[1].Status, base.Roster[1].Gone, base.Roster[1].Resigned = member.Leaving, true, true
	base.Roster[3].Status, base.Roster[3].Resigned = member.Leaving, true
	before := slices.Clone(base.Roster)
	var b tally
	for i := 2; i <= 4; i++ { // the old run of voter 3, which refused
		from := voter(i)
		if i != 3 {
			from.Incarnation = 7
		}
		b.addVote(Vote{From: from, Granted: i != 3})
	}
	got := b.initialState(base, addr(2), 6)
	if got.Number != number(6, 0) || got.Leader != addr(2) {
		t.Errorf("initial state: got %v led by %v, want 6.0 led by %v", got.Number, got.Leader, addr(2))
	}
	want := slices.Clone(before)
	want[1].Incarnation, want[1].Status = 7, member.Active
	want[1].Gone, want[1].Resigned = false, false
	want[3].Incarnation, want[3].Resigned = 7, false // the later run did not leave on purpose
	if !slices.Equal(got.Roster, want) {
		t.Errorf("initial roster: got %+v, want %+v", got.Roster, want)
	}
	if !slices.Equal(base.Roster, before) {
		t.Errorf("the base was changed: got %+v, want %+v", base.Roster, before)
	}
}
