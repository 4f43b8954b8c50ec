// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

func storeID(n byte) member.StoreID { return member.StoreID{n, 0xab, 15: 0xff} }

func address(n int) member.Address {
	return member.Address{Host: fmt.Sprintf("node-%03d.example", n), Port: 7000}
}

func state(size int) member.State {
	s := member.State{Number: member.Number{Version: 7, Revision: 42}, Leader: address(1)}
	for n := range size {
		s.Roster = append(s.Roster, member.Member{
			Identity: member.Identity{
				Address: address(n + 1), StoreID: storeID(byte(n + 1)), Incarnation: uint64(n) + 3,
			},
			Name: fmt.Sprintf("n%d", n+1), Seed: n < 2, Status: member.Active,
		})
	}
	if size > 2 {
		s.Roster[2].Status, s.Roster[2].Gone, s.Roster[2].Resigned = member.Leaving, true, true
	}
	return s
}

// typical is what a node holds that accepted a proposal and does not know yet
// what became of it.
func typical() Content {
	id := paxos.ID{Version: 8, Ballot: paxos.Ballot{
		Round: 2, Proposer: address(2), Incarnation: 4, StoreID: storeID(2),
	}}
	next := state(3)
	next.Version, next.Revision, next.Leader = 8, 1, address(2)
	return Content{origin(), time.Second, paxos.Durable{
		StoreID:     storeID(1),
		Incarnation: math.MaxUint64,
		Promised:    id,
		Accepted:    paxos.Accepted{ID: id, Base: state(3).Number, State: next},
		Held:        state(3),
	}}
}

func origin() Origin { return Origin{Cluster: "orders", Size: 3, Address: address(1)} }

// fresh is what a node holds that never met another.
func fresh() Content {
	return Content{origin(), time.Second, paxos.Durable{StoreID: storeID(2), Incarnation: 1}}
}

// largest is as large as a cluster can make it.
func largest() Content {
	c := typical()
	c.Origin.Cluster, c.Origin.Size = strings.Repeat("<", member.MaxClusterBytes), member.MaxMembers
	var r member.Roster
	for n := range member.MaxMembers {
		r = append(r, member.Member{
			Identity: member.Identity{
				Address: member.Address{
					Host: fmt.Sprintf("%0*d", member.MaxHostBytes, n), Port: math.MaxUint16,
				},
				StoreID: storeID(byte(n)), Incarnation: math.MaxUint64,
			},
			// The name grows most when it is written: each byte becomes six.
			Name: strings.Repeat("<", member.MaxNameBytes), Status: member.Unreachable,
		})
	}
	c.Held.Roster, c.Accepted.State.Roster = r, r
	return c
}

func mustFormat(t testing.TB, c Content) []byte {
	t.Helper()
	content, err := format(c)
	if err != nil {
		t.Fatalf("format(%+v): %v", c, err)
	}
	return content
}
