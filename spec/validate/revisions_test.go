// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// TestUnansweredRequests checks that a request without an outcome explains a change of a record
// only if the roster of the revision does not.
func TestUnansweredRequests(t *testing.T) {
	run := func(host string, store byte, incarnation uint64) member.Identity {
		return member.Identity{
			Address: member.Address{Host: host, Port: 1}, StoreID: member.StoreID{store},
			Incarnation: incarnation,
		}
	}
	owner, other := run("a", 1, 1), run("b", 2, 1)
	seat := func(id member.Identity, s member.Status) member.Member {
		return member.Member{Identity: id, Status: s}
	}
	record := member.Record{Key: "k", Owner: owner, Token: member.Token{Version: 1, Revision: 3}}
	revoked := record
	revoked.Revoked = true
	const id = 7
	for name, c := range map[string]struct {
		by      member.Identity
		seat    member.Member // of the address of the owner in the revision
		records []member.Record
		want    bool
	}{
		"the owner drops it":   {owner, seat(owner, member.Active), nil, true},
		"another run drops it": {other, seat(owner, member.Active), []member.Record{revoked}, true},
		"the owner restarted":  {other, seat(run("a", 1, 2), member.Active), nil, false},
		"the owner leaves":     {owner, seat(owner, member.Leaving), nil, false},
		"another store has the place": {
			other, seat(run("a", 3, 1), member.Joining), []member.Record{revoked}, false,
		},
	} {
		state := func(revision uint64, m member.Member, records ...member.Record) member.State {
			table, err := member.NewRecords(records)
			if err != nil {
				t.Fatal(err)
			}
			return member.State{
				Number: member.Number{Version: 1, Revision: revision}, Records: table,
				Roster: member.Roster{m, seat(other, member.Active)},
			}
		}
		r := message.RecordRequest{ID: id, Changes: []message.Change{{Key: "k", Drop: true}}}
		u := &turn{translator: &translator{}, node: &node{
			received: []received{{by: c.by, r: r, claim: 1}},
		}}
		got := u.requestsOf(
			state(4, seat(owner, member.Active), record), state(5, c.seat, c.records...),
		)
		var want []taken
		if c.want {
			want = []taken{{by: c.by, id: id}}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got the requests %v, want %v", name, got, want)
		}
	}
}
