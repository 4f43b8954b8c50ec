// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// testKey returns the key of a store that a test saves.
func testKey(n byte) storekey.Key { return storekey.Key{n, 0xcd, 31: 0xee} }

// hexOf returns a key as the state file contains it.
func hexOf(k storekey.Key) string { return hex.EncodeToString(k[:]) }

// storeID returns the store id of a member of a roster, whose key does not matter.
func storeID(n byte) member.StoreID { return member.StoreID{n, 0xab, 15: 0xff} }

func address(n int) member.Address {
	return member.Address{Host: fmt.Sprintf("node-%03d.example", n), Port: 7000}
}

func state(size int) member.State {
	s := member.State{Number: member.Number{Version: 7, Revision: 42}, Leader: address(1),
		Cluster: member.ClusterID{0xc1, 15: 0x07}}
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

// records returns an owned record, a revoked record, and a record without an owner.
func records() member.Records { return newTable(threeRecords()...) }

// newTable returns a table of the records, sorted by key.
func newTable(list ...member.Record) member.Records {
	r, err := member.NewRecords(list)
	if err != nil {
		panic(err)
	}
	return r
}

func threeRecords() []member.Record {
	owner := member.Identity{Address: address(2), StoreID: storeID(2), Incarnation: 4}
	return []member.Record{
		{
			Key: "jobs/leader", Value: []byte("n2"), Owner: owner, Session: 3,
			Token: member.Token(state(0).Number),
		},
		{Key: "jobs/next <größe>", Value: []byte{0, 0xff}, Owner: owner, Revoked: true},
		{Key: "limit", Token: member.Token{Version: 6, Revision: 1}},
	}
}

// many returns n records with values of 64 bytes.
func many(n int) member.Records { return newTable(manyRecords(n)...) }

func manyRecords(n int) []member.Record {
	r := make([]member.Record, n)
	for i := range r {
		r[i] = member.Record{
			Key: fmt.Sprintf("services/orders/%04d", i), Value: bytes.Repeat([]byte{byte(i)}, 64),
			Owner:   member.Identity{Address: address(2), StoreID: storeID(2), Incarnation: 4},
			Session: uint64(i), Token: member.Token{Version: 7, Revision: uint64(i)},
		}
	}
	return r
}

// typical returns the content of a node that has accepted a proposal and does not know its
// outcome.
func typical() Content {
	id := paxos.ID{Version: 8, Ballot: paxos.Ballot{
		Round: 2, Proposer: address(2), Incarnation: 4, StoreID: storeID(2),
	}}
	next := state(3)
	next.Version, next.Revision, next.Leader = 8, 1, address(2)
	held := state(3)
	held.Records, next.Records = records(), newTable(threeRecords()[1:]...)
	key := testKey(1)
	return Content{Origin: origin(), LeaseTimeout: time.Second, Key: key, Durable: paxos.Durable{
		StoreID:     key.StoreID(),
		Incarnation: math.MaxUint64,
		Acceptor: paxos.Acceptor{
			Promised: id,
			Accepted: paxos.Accepted{ID: id, Base: state(3).Number, State: next},
			Held:     held,
		},
	}}
}

func origin() Origin { return Origin{Cluster: "orders", Size: 3, Address: address(1)} }

// fresh returns the content of a node that has never met another node.
func fresh() Content {
	return Content{
		Origin: origin(), LeaseTimeout: time.Second, Key: testKey(2),
		Durable: paxos.Durable{StoreID: testKey(2).StoreID(), Incarnation: 1},
	}
}

// largest returns the largest possible content.
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
			// In the worst case each byte of a name takes six bytes in JSON.
			Name: strings.Repeat("<", member.MaxNameBytes), Status: member.Unreachable,
			Traits: member.Traits{
				Preference: member.MaxPreference,
				Labels:     member.Labels("<=" + strings.Repeat("<", member.MaxLabelBytes-3) + "\n"),
			},
		})
	}
	c.HoldTimeout = math.MaxInt64
	c.Held.Roster, c.Accepted.State.Roster = r, r
	c.Held.Records = full('<')
	c.Accepted.State.Records = full('>') // no record equals a record in Held
	return c
}

// full returns the table that is largest in JSON. Each byte of its keys takes six
// bytes, and three bytes of its values take four.
func full(of byte) member.Records {
	var r member.Records
	for n := 0; ; n++ {
		next := r.Put(member.Record{
			Key:     fmt.Sprintf("%04d%s", n, strings.Repeat(string(of), member.MaxKeyBytes-4)),
			Session: math.MaxUint64,
		})
		if next.Bytes() > member.MaxRecordsBytes {
			return r
		}
		r = next
	}
}

func mustFormat(t testing.TB, c Content) []byte {
	t.Helper()
	content, _, err := formatContent(c, mostRoom)
	if err != nil {
		t.Fatalf("format(%+v): %v", c, err)
	}
	return content
}

// stateFile returns a state file whose entries have the given payloads, and the end of each
// entry.
func stateFile(payloads ...string) (content []byte, ends []int) {
	content, root, end := beginContent([]byte(payloads[0]), mostRoom)
	ends = append(ends, end)
	for _, p := range payloads[1:] {
		entry := sealEntry(root, end, []byte(p))
		if n := copy(content[end:], entry); n < len(entry) {
			content = append(content, entry[n:]...)
		}
		end += len(entry)
		ends = append(ends, end)
	}
	return content, ends
}

// payload returns the payload of the entry for c, given the content of the previous entry.
func payload(t testing.TB, before, c Content) string {
	t.Helper()
	b, err := encodeEntry(before, c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// three returns three successive contents.
func three() []Content {
	first := typical()
	second := typical()
	second.Held.Revision++
	second.Held.Records = newTable(append(threeRecords()[:1], manyRecords(3)...)...)
	third := second
	third.Promised.Version++
	third.Held.Revision++
	third.Held.Records = newTable(threeRecords()[2:]...).Put(manyRecords(1)[0])
	third.Accepted = paxos.Accepted{}
	third.HoldTimeout, third.Floor = 2*time.Second, 5
	third.Held.Roster = slices.Clone(third.Held.Roster)
	third.Held.Roster[1].Traits = member.Traits{Preference: 3, Labels: "zone=c\n"}
	return []Content{first, second, third}
}

// threeEntries returns the state file after the contents of three are saved.
func threeEntries(t testing.TB) (content []byte, ends []int) {
	t.Helper()
	c := three()
	return stateFile(payload(t, Content{}, c[0]), payload(t, c[0], c[1]), payload(t, c[1], c[2]))
}
