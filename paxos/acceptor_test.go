// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"testing"

	"github.com/athena-go/athena/member"
)

// Each test checks a sentence of protocol.md about voters: it sets up an acceptor, makes proposals,
// and checks the answer and what the acceptor remembers.

// promised returns an acceptor that holds 4.9 and promised round 3 of voter 2 for version 5.
func promised() Acceptor {
	return Acceptor{
		Promised: id(5, 3, 2),
		Held:     member.State{Number: number(4, 9), Leader: addr(1), Roster: roster(3)},
	}
}

func pre(i ID) Proposal { return Proposal{Stage: Pre, ID: i, Held: number(4, 9)} }

func formal(i ID, base member.Number) Proposal {
	return Proposal{
		Stage: Formal, ID: i, Held: number(4, 9), Base: base,
		State: member.State{Number: number(i.Version, 0), Leader: i.Ballot.Proposer, Roster: roster(3)},
	}
}

// A voter grants a pre proposal if its version is above the held version and its (version, ballot)
// is above the promised one (protocol.md 6, 3).
func TestPromiseOnlyAboveThePromise(t *testing.T) {
	for _, tc := range []struct {
		id   ID
		want Refusal
	}{
		{id(3, 9, 9), OldVersion},
		{id(4, 9, 9), OldVersion},
		{id(5, 2, 3), LowBallot},
		{id(5, 3, 1), LowBallot},
		{id(5, 3, 2), LowBallot}, // already promised
		{id(5, 3, 3), NotRefused},
		{id(5, 4, 1), NotRefused},
		{id(6, 1, 1), NotRefused},
	} {
		if got := promised().RefusePromise(pre(tc.id), true); got != tc.want {
			t.Errorf("promised v5/3@2, holds 4.9: pre %v: got %d, want %d", tc.id, got, tc.want)
		}
	}
}

// A voter accepts a formal proposal under three conditions: its version is above the held version,
// its (version, ballot) is not below the promised one, and its base is not older than the held
// state (protocol.md 6, 5).
func TestAcceptOnlyFromThePromiseOnAndOnTheHeldState(t *testing.T) {
	for _, tc := range []struct {
		id   ID
		base member.Number
		want Refusal
	}{
		{id(4, 9, 9), number(4, 9), OldVersion},
		{id(5, 3, 1), number(4, 9), LowBallot},
		{id(5, 3, 2), number(4, 8), OldBase},
		{id(5, 3, 2), number(4, 9), NotRefused},
		{id(5, 3, 2), number(4, 10), NotRefused},
		{id(6, 1, 1), number(5, 0), NotRefused},
	} {
		if got := promised().RefuseAcceptance(formal(tc.id, tc.base), true); got != tc.want {
			t.Errorf("promised v5/3@2, holds 4.9: formal %v on %v: got %d, want %d",
				tc.id, tc.base, got, tc.want)
		}
	}
}

// A voter stores its promise, and its vote shows the value that it accepted last (protocol.md 6,
// 3).
func TestPromiseIsStoredAndShowsTheAcceptedValue(t *testing.T) {
	a := promised().Accept(formal(id(5, 4, 1), number(4, 9)))
	after, shown := a.Promise(pre(id(6, 5, 3)))
	if after.Promised != id(6, 5, 3) {
		t.Errorf("got promise %v, want v6/5@3", after.Promised)
	}
	if shown.ID != id(5, 4, 1) || after.Accepted.ID != shown.ID {
		t.Errorf("got %v shown and %v kept, want v5/4@1 both", shown.ID, after.Accepted.ID)
	}
	if a.Promised != id(5, 4, 1) {
		t.Errorf("the acceptor before the vote changed: promised %v", a.Promised)
	}
}

// A voter stores the value that it accepted and is bound (protocol.md 6, 5). Accepting also raises
// the promise, because the acceptor may not have seen the pre proposal.
func TestAcceptanceIsStoredAndBinds(t *testing.T) {
	p := formal(id(6, 1, 1), number(5, 0))
	a := promised().Accept(p)
	if got := a.Accepted; got.ID != p.ID || got.Base != p.Base || got.State.Leader != p.State.Leader {
		t.Errorf("got %+v accepted, want the value of %v", got, p.ID)
	}
	if a.Promised != p.ID || a.Bound() != 6 {
		t.Errorf("got promise %v, bound %d, want %v, 6", a.Promised, a.Bound(), p.ID)
	}
	if got := a.RefuseAcceptance(formal(id(5, 9, 9), number(4, 9)), true); got != LowBallot {
		t.Errorf("a value of a lower version: got %d, want %d", got, LowBallot)
	}
}

// A node that holds nothing votes only in foundings, in both stages (protocol.md 6, 3).
func TestAnEmptyAcceptorVotesInFoundingsOnly(t *testing.T) {
	for _, founding := range []bool{false, true} {
		want := HoldsNothing
		if founding {
			want = NotRefused
		}
		p := Proposal{Stage: Pre, ID: id(1, 1, 1), Founding: founding}
		if got := (Acceptor{}).RefusePromise(p, true); got != want {
			t.Errorf("pre, founding %v: got %d, want %d", founding, got, want)
		}
		p.Stage = Formal
		if got := (Acceptor{}).RefuseAcceptance(p, true); got != want {
			t.Errorf("formal, founding %v: got %d, want %d", founding, got, want)
		}
	}
}

// A proposal is refused if its round is above 2^40, or if its version is more than 2^16 above the
// held version of the voter. If the proposer is a voter and its proposal continues a newer state,
// that state counts instead. These limits are twice as high for voters and founders. No node votes
// for a version above member.MaxVersion. A founding proposes version 1 (protocol.md 3).
func TestNumbersCannotBeUsedUp(t *testing.T) {
	at := func(version, round uint64) Proposal { return pre(id(version, round, 1)) }
	founding := func(version, round uint64) Proposal {
		return Proposal{Stage: Pre, ID: id(version, round, 1), Founding: true}
	}
	holding := func(p Proposal, held member.Number) Proposal {
		p.Held = held
		return p
	}
	const most = member.MaxVersion
	held := Acceptor{Held: member.State{Number: number(4, 9)}}
	last := Acceptor{Held: member.State{Number: number(most-1, 9)}}
	for _, tc := range []struct {
		name      string
		a         Acceptor
		p         Proposal
		fromVoter bool
		want      Refusal
	}{
		{"2^16 above", held, at(4+1<<16, 1), false, NotRefused},
		{"more", held, at(5+1<<16, 1), false, VersionJump},
		{"more, of a voter", held, at(5+1<<16, 1), true, NotRefused},
		{"2^17 above, of a voter", held, at(4+1<<17, 1), true, NotRefused},
		{"more", held, at(5+1<<17, 1), true, VersionJump},
		{"more, on a newer state", held, holding(at(5+1<<17, 1), number(5, 0)), true, NotRefused},
		{"the same of a stranger", held, holding(at(5+1<<16, 1), number(5, 0)), false, VersionJump},
		{"the greatest version", last, holding(at(most, 1), number(most-1, 9)), false, NotRefused},
		{"a greater one", last, holding(at(most+1, 1), number(most-1, 9)), false, VersionJump},
		{"a greater one, of a voter", last, holding(at(most+1, 1), number(most, 2)), true, VersionJump},
		{"a greater one, by one that was away", held, holding(at(most+1, 1), number(most, 2)), true,
			VersionJump},
		{"the greatest, by one that was away", held, holding(at(most, 1), number(most-1, 2)), true,
			NotRefused},
		{"round 2^40", held, at(5, 1<<40), false, NotRefused},
		{"round above", held, at(5, 1+1<<40), false, VersionJump},
		{"round above, of a voter", held, at(5, 1+1<<40), true, NotRefused},
		{"round above 2^41, of a voter", held, at(5, 1+1<<41), true, VersionJump},
		{"a founding", Acceptor{}, founding(1, 1<<41), false, NotRefused},
		{"a founding with round above 2^41", Acceptor{}, founding(1, 1+1<<41), false, VersionJump},
		{"a founding of version 2", Acceptor{}, founding(2, 1), true, VersionJump},
	} {
		if got := tc.a.RefusePromise(tc.p, tc.fromVoter); got != tc.want {
			t.Errorf("%s: pre %v: got %d, want %d", tc.name, tc.p.ID, got, tc.want)
		}
		tc.p.Base = tc.p.Held
		if got := tc.a.RefuseAcceptance(tc.p, tc.fromVoter); got != tc.want {
			t.Errorf("%s: formal %v: got %d, want %d", tc.name, tc.p.ID, got, tc.want)
		}
	}
}

// The promise and the accepted value of a version are dropped only when a state of that version or
// a later one is held (protocol.md 6, durable).
func TestTakeDropsWhatItSupersedes(t *testing.T) {
	accepted := Accepted{ID: id(5, 1, 1), State: member.State{Number: number(5, 0)}}
	for _, tc := range []struct {
		take               uint64
		promised, accepted bool // kept
	}{
		{4, true, true}, {5, true, false}, {6, false, false}, {7, false, false},
	} {
		a := Acceptor{Promised: id(6, 1, 1), Accepted: accepted}
		s := member.State{Number: number(tc.take, 2), Leader: addr(1)}
		got := a.Take(s)
		if got.Held.Number != s.Number {
			t.Errorf("take %v: got held %v", s.Number, got.Held.Number)
		}
		if kept := !got.Promised.IsZero(); kept != tc.promised {
			t.Errorf("take %v: promise %v kept: got %v, want %v", s.Number, a.Promised, kept, tc.promised)
		}
		if kept := !got.Accepted.IsZero(); kept != tc.accepted {
			t.Errorf("take %v: accepted %v kept: got %v, want %v", s.Number, accepted.ID, kept, tc.accepted)
		}
		want := uint64(0)
		if tc.accepted {
			want = 5
		}
		if got := got.Bound(); got != want {
			t.Errorf("take %v: got bound to %d, want %d", s.Number, got, want)
		}
	}
}
