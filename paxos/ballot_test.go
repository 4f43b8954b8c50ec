// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"testing"

	"github.com/athena-go/athena/member"
)

func addr(i int) member.Address { return member.Address{Host: "n", Port: uint16(i)} }

func voter(i int) member.Identity {
	return member.Identity{Address: addr(i), StoreID: member.StoreID{byte(i)}, Incarnation: 1}
}

func id(version, round uint64, proposer int) ID {
	v := voter(proposer)
	return ID{Version: version, Ballot: Ballot{
		Round: round, Proposer: v.Address, Incarnation: v.Incarnation, StoreID: v.StoreID,
	}}
}

// A ballot consists of a round and the proposer's address, incarnation and store id. Ballots of
// different versions are ordered by version first (protocol.md 1). Stores at the same address
// never have the same ballot.
func TestProposalOrder(t *testing.T) {
	store := id(1, 1, 2)
	store.Ballot.StoreID[0]++
	again := id(1, 1, 2)
	again.Ballot.Incarnation++
	sorted := []ID{{}, id(1, 1, 1), id(1, 1, 2), store, again, id(1, 2, 1), id(2, 1, 1)}
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
