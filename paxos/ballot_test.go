// SPDX-License-Identifier: Apache-2.0

package paxos_test

import (
	"testing"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

func addr(i int) member.Address { return member.Address{Host: "n", Port: uint16(i)} }

func voter(i int) member.Identity {
	return member.Identity{Address: addr(i), StoreID: member.StoreID{byte(i)}, Incarnation: 1}
}

func id(version, round uint64, proposer int) paxos.ID {
	v := voter(proposer)
	return paxos.ID{Version: version, Ballot: paxos.Ballot{
		Round: round, Proposer: v.Address, Incarnation: v.Incarnation, StoreID: v.StoreID,
	}}
}

// protocol.md section 1: a ballot is "(round, proposer address, proposer
// incarnation)", and "ballots of different versions compare by version first".
// Two stores at one address never share a ballot.
func TestProposalOrder(t *testing.T) {
	store := id(1, 1, 2)
	store.Ballot.StoreID[0]++
	again := id(1, 1, 2)
	again.Ballot.Incarnation++
	sorted := []paxos.ID{{}, id(1, 1, 1), id(1, 1, 2), store, again, id(1, 2, 1), id(2, 1, 1)}
	for i, a := range sorted {
		for j, b := range sorted {
			got := min(max(a.Compare(b), -1), 1)
			if want := min(max(i-j, -1), 1); got != want {
				t.Errorf("%v.Compare(%v): got %d, want %d", a, b, got, want)
			}
		}
		if got, want := a.IsZero(), i == 0; got != want {
			t.Errorf("%v.IsZero(): got %v, want %v", a, got, want)
		}
	}
	if got, want := store.Ballot.Run().StoreID, store.Ballot.StoreID; got != want {
		t.Errorf("Run: got store %v, want %v", got, want)
	}
	if got, want := again.String(), "v1/1@n:2#2"; got != want {
		t.Errorf("String: got %q, want %q", got, want)
	}
}

func number(version, revision uint64) member.Number {
	return member.Number{Version: version, Revision: revision}
}

// protocol.md section 6, 3: "version > held version; (version, ballot) >
// promised".
func TestMayPromise(t *testing.T) {
	d := paxos.Durable{Promised: id(5, 3, 2), Held: member.State{Number: number(4, 9)}}
	for _, tc := range []struct {
		id   paxos.ID
		want bool
	}{
		{id(4, 9, 9), false}, // not above what is held
		{id(5, 3, 1), false}, // below the promise
		{id(5, 3, 2), false}, // promised already
		{id(5, 3, 3), true},
		{id(5, 4, 1), true},
		{id(6, 1, 1), true},
	} {
		if got := d.MayPromise(tc.id); got != tc.want {
			t.Errorf("promised %v, held %v: MayPromise(%v): got %v, want %v",
				d.Promised, d.Held.Number, tc.id, got, tc.want)
		}
	}
}

// protocol.md section 6, 5: "version > held version; (version, ballot) >=
// promised; base >= own held state".
func TestMayAccept(t *testing.T) {
	d := paxos.Durable{Promised: id(5, 3, 2), Held: member.State{Number: number(4, 9)}}
	for _, tc := range []struct {
		id   paxos.ID
		base member.Number
		want bool
	}{
		{id(4, 9, 9), number(4, 9), false},
		{id(5, 3, 1), number(4, 9), false},
		{id(5, 3, 2), number(4, 8), false}, // built on less than is held
		{id(5, 3, 2), number(4, 9), true},
		{id(5, 3, 2), number(4, 10), true},
		{id(6, 1, 1), number(5, 0), true},
	} {
		if got := d.MayAccept(tc.id, tc.base); got != tc.want {
			t.Errorf("promised %v, held %v: MayAccept(%v, %v): got %v, want %v",
				d.Promised, d.Held.Number, tc.id, tc.base, got, tc.want)
		}
	}
}

// protocol.md section 6: "promise and accepted value of version w are dropped
// only when a state of version >= w is held".
func TestTakeDropsWhatItSupersedes(t *testing.T) {
	accepted := paxos.Accepted{ID: id(5, 1, 1), State: member.State{Number: number(5, 0)}}
	for _, tc := range []struct {
		take               uint64
		promised, accepted bool // kept
	}{
		{4, true, true}, {5, true, false}, {6, false, false}, {7, false, false},
	} {
		d := paxos.Durable{Incarnation: 3, Promised: id(6, 1, 1), Accepted: accepted}
		s := member.State{Number: number(tc.take, 2), Leader: addr(1)}
		got := d.Take(s)
		if got.Held.Number != s.Number || got.Incarnation != 3 {
			t.Errorf("take %v: got held %v of run %d", s.Number, got.Held.Number, got.Incarnation)
		}
		if kept := !got.Promised.IsZero(); kept != tc.promised {
			t.Errorf("take %v: promise %v kept: got %v, want %v", s.Number, d.Promised, kept, tc.promised)
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
