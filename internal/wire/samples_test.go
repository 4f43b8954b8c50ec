// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// The typical message of each kind is the one encoded in testdata/v0.1.0. Its fields are
// nonzero unless zero has a meaning of its own.

func address(n int) member.Address {
	return member.Address{Host: fmt.Sprintf("node-%03d.example", n), Port: 7000}
}

func clusterID() member.ClusterID { return member.ClusterID{0xc1, 15: 0x07} }

func identity(n int) member.Identity {
	id := member.Identity{Address: address(n), Incarnation: 1_700_000_000_000_000_000 + uint64(n)}
	for i := range id.StoreID {
		id.StoreID[i] = byte(16*n + i)
	}
	return id
}

func claim(n int) member.Claim {
	return member.Claim{Chosen: true, Version: 7, Leader: address(n)}
}

func number() member.Number { return member.Number{Version: 7, Revision: 42} }

func proposalID(n int) paxos.ID {
	run := identity(n)
	ballot := paxos.Ballot{
		Round: 3, Proposer: run.Address, Incarnation: run.Incarnation, StoreID: run.StoreID,
	}
	return paxos.ID{Version: 8, Ballot: ballot}
}

func stamp(n int) message.Stamp {
	clock := int64(time.Hour) + int64(n)
	return message.Stamp{Version: 7, Incarnation: identity(n).Incarnation, Clock: clock}
}

func sampleRuns() message.Runs { return message.Runs{Last: 4_999_000_000, First: 5_000_000_000} }

func sampleTraits() member.Traits {
	return member.Traits{Preference: member.NeverLeads, Labels: "role=witness\nzone=c\n"}
}

func roster(size int) member.Roster {
	var r member.Roster
	for n := range size {
		m := member.Member{
			Identity: identity(n + 1), Name: fmt.Sprintf("n%d", n+1), Seed: n < 2, Status: member.Active,
		}
		if n == 2 {
			m.Status, m.Gone, m.Resigned = member.Leaving, true, true
			m.Traits = sampleTraits()
		}
		r = append(r, m)
	}
	return r
}

// records returns a record with an owner, a revoked record, and a record without an owner and a
// value.
func records() member.Records {
	token := member.Token{Version: 6, Revision: 41}
	return newTable(
		member.Record{
			Key: "jobs/leader", Value: []byte("n2"), Owner: identity(2), Session: 300, Token: token,
		},
		member.Record{
			Key: "jobs/next", Value: []byte{0, 0xff}, Owner: identity(3), Token: token, Revoked: true,
		},
		member.Record{Key: "limit", Token: member.Token(number())},
	)
}

// newTable returns a table of the records, sorted by key.
func newTable(list ...member.Record) member.Records {
	r, err := member.NewRecords(list)
	if err != nil {
		panic(err)
	}
	return r
}

func state(size int) member.State {
	return member.State{
		Number: number(), Cluster: clusterID(), Leader: address(1), Roster: roster(size),
		Records: records(),
	}
}

func envelope(body message.Body) message.Message {
	return message.Message{
		From: identity(2), To: address(1), Claim: claim(1), Cluster: clusterID(), Body: body,
	}
}

func keepAlive() message.Message {
	return envelope(message.LeaderKeepAlive{
		Number: number(), Digest: 0xfedcba9876543210, Bound: 8,
		Echo: stamp(1), Stamp: stamp(2), Drained: true, Reaches: 3, Save: 7,
	})
}

func alignment(size int) message.Message {
	return envelope(message.ClusterAlignment{State: state(size)})
}

func timings() message.Timings {
	return message.Timings{
		HeartbeatInterval: 100 * time.Millisecond, HeartbeatTimeout: 400 * time.Millisecond,
		LeaderTimeout: time.Second, LeaseTimeout: 900 * time.Millisecond,
		TTLTimeout: 10 * time.Second, RetryInterval: 500 * time.Millisecond,
	}
}

// otherTimings are those of a node that accepts a second set.
func otherTimings() message.Timings {
	return message.Timings{
		HeartbeatInterval: 20 * time.Millisecond, HeartbeatTimeout: 80 * time.Millisecond,
		LeaderTimeout: 200 * time.Millisecond, LeaseTimeout: 140 * time.Millisecond,
		TTLTimeout: 2 * time.Second, RetryInterval: 100 * time.Millisecond,
	}
}

func storeKey() (k [32]byte) {
	for i := range k {
		k[i] = byte(0x60 + i)
	}
	return k
}

func proof() (p [64]byte) {
	for i := range p {
		p[i] = byte(0xc0 + i)
	}
	return p
}

func typical() []message.Message {
	bodies := []message.Body{
		message.Greet{
			Active: true, Name: "n2", Cluster: "orders", ClusterID: clusterID(), Size: 5,
			SeedDigest: 0x0123456789abcdef,
			Timings:    timings(), MinProtocol: 1, MaxProtocol: 300, OtherTimings: otherTimings(),
			StoreKey: storeKey(), Proof: proof(),
		},
		message.LeaderQuery{ID: 70_000, Held: state(3), Runs: sampleRuns()},
		message.LeaderResponse{ID: 70_000, Held: number()},
		message.JoinClusterRequest{
			Name: "n2", Seed: true, Held: number(), Bound: 8, Traits: sampleTraits(), Runs: sampleRuns(),
		},
		message.JoinClusterResponse{Accepted: true, Reason: 200, Known: 5_000_000_000},
		message.MemberStatusUpdate{Number: number(), Member: roster(3)[2]},
		alignment(3).Body,
		keepAlive().Body,
		message.LeaderKeepAliveAck{
			Echo: stamp(2), Stamp: stamp(1), Healthy: true, Quorate: true, Extends: true,
			Committed: number(), Hold: 340 * time.Millisecond, Offers: true,
		},
		message.SeedKeepAlive{},
		message.SeedKeepAliveAck{},
		message.LeaderRelieve{Winner: claim(3)},
		message.ReJoinCluster{GivenUp: claim(2), Winner: claim(3)},
		message.LeaderStatusQuery{ID: 9, Version: 7},
		message.LeaderStatusQueryResponse{ID: 9, Healthy: true, Held: number(), Save: 7},
		message.Proposal{
			Stage: message.Formal, ID: proposalID(2), Founding: true, SeedDigest: 255,
			Held: number(), Base: number(), State: state(3), Successors: []member.Address{address(1)},
		},
		message.Vote{
			Stage: message.Pre, ID: proposalID(2), Granted: true, Reason: 3, Promised: proposalID(3),
			Accepted: paxos.Accepted{ID: proposalID(1), Base: number(), State: state(2)},
			Held:     number(), State: state(1), Unable: true,
		},
		message.LeaderElected{ID: proposalID(2), State: state(3)},
		message.MemberLeave{GivenUp: claim(2), Successor: address(3), Stays: true},
		message.RecordRequest{
			ID: 70_000,
			Conditions: []message.Condition{
				{Key: "jobs/leader", Token: member.Token(number())}, {Key: "new"},
			},
			Changes: []message.Change{
				{Key: "jobs/leader", Value: []byte("n2"), Owned: true, Session: 300},
				{Key: "limit", Drop: true},
			},
			Seen: message.Stamp{Version: 7, Incarnation: 300, Clock: 1_700_000_000_000_000_000},
		},
		message.RecordResponse{ID: 70_000, Reason: message.ReasonConflict, Number: number()},
		message.RecordUpdate{
			Number: number(), Set: slices.Collect(records().All()),
			Dropped: []string{"jobs/old", "länge"},
		},
		message.MemberTraits{Traits: sampleTraits()},
		message.RunEnded{Run: identity(3), StoreKey: [32]byte{1, 31: 2}, Proof: [64]byte{3, 63: 4}},
		sampleRelayed(),
	}
	out := make([]message.Message, 0, len(bodies))
	for _, b := range bodies {
		out = append(out, envelope(b))
	}
	return out
}

func sampleRelayed() message.Relayed {
	return message.Relayed{Message: message.Message{
		From: member.WorkerIdentity(member.StoreID{1, 15: 2}),
		To:   member.Address{Host: "10.0.0.2", Port: 7001},
		Body: message.RecordRequest{
			ID: 70_000, Conditions: []message.Condition{{Key: "jobs/a"}},
			Changes: []message.Change{{Key: "jobs/a", Owned: true}},
		},
	}}
}

// zero returns the smallest message of each kind.
func zero() []message.Message {
	out := make([]message.Message, 0, message.Kinds)
	for _, m := range typical() {
		switch m.Body.(type) {
		case message.Greet:
			m.Body = message.Greet{}
		case message.LeaderQuery:
			m.Body = message.LeaderQuery{}
		case message.LeaderResponse:
			m.Body = message.LeaderResponse{}
		case message.JoinClusterRequest:
			m.Body = message.JoinClusterRequest{}
		case message.JoinClusterResponse:
			m.Body = message.JoinClusterResponse{}
		case message.MemberStatusUpdate:
			var u message.MemberStatusUpdate
			u.Member.Address = member.Address{Host: "a", Port: 1}
			u.Member.Status = member.Joining
			m.Body = u
		case message.ClusterAlignment:
			m.Body = message.ClusterAlignment{}
		case message.LeaderKeepAlive:
			m.Body = message.LeaderKeepAlive{}
		case message.LeaderKeepAliveAck:
			m.Body = message.LeaderKeepAliveAck{}
		case message.LeaderRelieve:
			m.Body = message.LeaderRelieve{}
		case message.ReJoinCluster:
			m.Body = message.ReJoinCluster{}
		case message.LeaderStatusQuery:
			m.Body = message.LeaderStatusQuery{}
		case message.LeaderStatusQueryResponse:
			m.Body = message.LeaderStatusQueryResponse{}
		case message.Proposal:
			m.Body = message.Proposal{Stage: message.Pre}
		case message.Vote:
			m.Body = message.Vote{Stage: message.Pre}
		case message.LeaderElected:
			m.Body = message.LeaderElected{}
		case message.MemberLeave:
			m.Body = message.MemberLeave{}
		case message.RecordRequest:
			m.Body = message.RecordRequest{}
		case message.RecordResponse:
			m.Body = message.RecordResponse{}
		case message.RecordUpdate:
			m.Body = message.RecordUpdate{}
		case message.MemberTraits:
			m.Body = message.MemberTraits{}
		case message.RunEnded:
			m.Body = message.RunEnded{}
		case message.Relayed:
			m.Body = message.Relayed{Message: message.Message{
				From: member.Identity{Address: member.Address{Host: "a", Port: 1}},
				Body: message.RecordResponse{},
			}}
		}
		m.From = member.Identity{Address: member.Address{Host: "a", Port: 1}}
		m.To, m.Claim = member.Address{}, member.Claim{}
		out = append(out, m)
	}
	return out
}

func largestAddress(n int) member.Address {
	return member.Address{Host: fmt.Sprintf("%0*d", member.MaxHostBytes, n), Port: math.MaxUint16}
}

func largestIdentity(n int) member.Identity {
	id := member.Identity{Address: largestAddress(n), Incarnation: member.MaxCount}
	for i := range id.StoreID {
		id.StoreID[i] = 0xff
	}
	return id
}

func largestTraits() member.Traits {
	return member.Traits{
		Preference: member.MaxPreference,
		Labels:     member.Labels("k=" + strings.Repeat("v", member.MaxLabelBytes-3) + "\n"),
	}
}

func largestMember(n int) member.Member {
	return member.Member{
		Identity: largestIdentity(n), Name: strings.Repeat("n", member.MaxNameBytes),
		Seed: true, Status: member.Leaving, Gone: true, Resigned: true, Traits: largestTraits(),
	}
}

// fewest returns the table with the longest encoding: it is full and has as few records as
// possible.
func fewest() member.Records {
	var r member.Records
	for n := 0; ; n++ {
		e := largestRecord(n, member.MaxKeyBytes)
		left := member.MaxRecordsBytes - r.Bytes() - e.Bytes()
		if left < 0 {
			return r
		}
		e.Value = bytes.Repeat([]byte{0xff}, min(left, member.MaxValueBytes))
		r = r.Put(e)
	}
}

// most returns a full table with as many records as possible.
func most() member.Records {
	r := make([]member.Record, member.MaxRecords)
	for n := range r {
		r[n] = largestRecord(n, 8)
		r[n].Owner.Address.Host = "host"
		left := member.MaxRecordsBytes/member.MaxRecords - r[n].Bytes()
		r[n].Value = bytes.Repeat([]byte{0xff}, left)
	}
	return newTable(r...)
}

func largestRecord(n, key int) member.Record {
	return member.Record{
		Key: fmt.Sprintf("%0*d", key, n), Owner: largestIdentity(0), Session: math.MaxUint64,
		Token:   member.Token{Version: member.MaxCount, Revision: member.MaxCount},
		Revoked: true,
	}
}

func largestRequest() message.RecordRequest {
	r := message.RecordRequest{ID: member.MaxCount}
	for n := range message.MaxConditions {
		e := largestRecord(n, member.MaxKeyBytes)
		r.Conditions = append(r.Conditions, message.Condition{Key: e.Key, Token: e.Token})
	}
	for n := range message.MaxChanges {
		r.Changes = append(r.Changes, message.Change{
			Key: largestRecord(n, member.MaxKeyBytes).Key, Drop: true,
			Value: make([]byte, member.MaxValueBytes), Owned: true, Session: math.MaxUint64,
		})
	}
	return r
}

func largestUpdate() message.RecordUpdate {
	all := slices.Collect(fewest().All())
	u := message.RecordUpdate{Number: member.Number(all[0].Token), Set: all}
	for n := range member.MaxRecords {
		u.Dropped = append(u.Dropped, largestRecord(n, member.MaxKeyBytes).Key)
	}
	return u
}

// largest returns a message of each kind. Messages with a state are as long as possible. In the
// other messages every number is at its limit.
func largest() []message.Message {
	const count = member.MaxCount
	var (
		top   = member.Number{Version: count, Revision: count}
		claim = member.Claim{Chosen: true, Version: count, Leader: largestAddress(0)}
		id    = paxos.ID{Version: count, Ballot: paxos.Ballot{
			Round: count, Proposer: largestAddress(0), Incarnation: count,
			StoreID: largestIdentity(0).StoreID,
		}}
		full = member.State{
			Number: top, Cluster: clusterID(), Leader: largestAddress(0), Records: fewest(),
		}
		year = message.Timings{
			HeartbeatInterval: math.MaxInt64, HeartbeatTimeout: math.MaxInt64,
			LeaderTimeout: math.MaxInt64, LeaseTimeout: math.MaxInt64,
			TTLTimeout: math.MaxInt64, RetryInterval: math.MaxInt64,
		}
		early = message.Stamp{Version: count, Incarnation: count, Clock: math.MinInt64}
		late  = message.Stamp{Version: count, Incarnation: count, Clock: math.MaxInt64}
	)
	for n := range member.MaxMembers {
		full.Roster = append(full.Roster, largestMember(n))
	}
	bodies := []message.Body{
		message.Greet{
			Active: true, Name: strings.Repeat("é", member.MaxNameBytes/2),
			Cluster: strings.Repeat("c", member.MaxClusterBytes), Size: member.MaxMembers, SeedDigest: count,
			Timings: year, OtherTimings: year, MinProtocol: math.MaxUint16, MaxProtocol: math.MaxUint16,
			StoreKey: storeKey(), Proof: proof(),
		},
		message.LeaderQuery{ID: count, Held: full, Runs: message.Runs{Last: count, First: count}},
		message.JoinClusterResponse{Accepted: true, Reason: math.MaxUint8, Known: count},
		message.MemberStatusUpdate{Number: top, Member: largestMember(0)},
		message.ClusterAlignment{State: full},
		message.LeaderKeepAlive{
			Number: top, Digest: count, Bound: count, Echo: early, Stamp: late, Drained: true,
			Reaches: member.MaxMembers, Save: math.MaxInt64,
		},
		message.LeaderKeepAliveAck{
			Echo: late, Stamp: early, Healthy: true, Quorate: true, Extends: true, Committed: top,
			Hold: math.MaxInt64, Offers: true,
		},
		message.ReJoinCluster{GivenUp: claim, Winner: claim},
		message.Proposal{
			Stage: message.Formal, ID: id, Founding: true, SeedDigest: count,
			Held: top, Base: top, State: full, Successors: []member.Address{
				largestAddress(0), largestAddress(1), largestAddress(2),
			},
		},
		message.Vote{
			Stage: message.Formal, ID: id, Granted: true, Reason: math.MaxUint8, Promised: id,
			Accepted: paxos.Accepted{ID: id, Base: top, State: full}, Held: top, State: full,
			Unable: true,
		},
		message.LeaderElected{ID: id, State: full},
		message.MemberLeave{GivenUp: claim, Successor: largestAddress(0), Stays: true},
		largestRequest(),
		message.RecordResponse{ID: count, Reason: math.MaxUint8, Number: top},
		largestUpdate(),
	}
	out := make([]message.Message, 0, len(bodies))
	for _, b := range bodies {
		out = append(out, message.Message{
			From: largestIdentity(0), To: largestAddress(0), Claim: claim, Cluster: clusterID(),
			Body: b,
		})
	}
	return out
}

func events() []wire.Event {
	full := wire.Event{
		Name: strings.Repeat("n", wire.MaxEventName), Payload: []byte(strings.Repeat("p", 70_000)),
		Metadata: map[string]string{},
	}
	for n := range wire.MaxMetadata {
		key := fmt.Sprintf("%0*d", wire.MaxMetadataKey, n)
		full.Metadata[key] = strings.Repeat("v", wire.MaxMetadataValue)
	}
	return []wire.Event{
		{
			Name: "orders.Placed", Payload: []byte{0x81, 0xa2, 'i', 'd', 0x07},
			Metadata: map[string]string{"trace": "00f1", "content": "msgpack"},
		},
		{Name: "n"},
		full,
	}
}

func calls() []wire.Event {
	return []wire.Event{
		{
			Name: "orders.Count", Payload: []byte{0x80},
			Call: wire.Call{ID: 7, Request: true, Leader: true, Timeout: 1500 * time.Millisecond},
		},
		{Name: "n", Call: wire.Call{ID: math.MaxUint64, Timeout: math.MaxInt64}},
	}
}

func answers() []wire.Answer {
	return []wire.Answer{
		{ID: 7, Payload: []byte{0x2a}},
		{ID: 8, Outcome: wire.OutcomeFailed, Text: "out of stock"},
		{ID: math.MaxUint64, Outcome: wire.Outcomes - 1, Text: strings.Repeat("x", wire.MaxAnswerText)},
		{},
	}
}

func encodeAnswer(t testing.TB, a wire.Answer) []byte {
	t.Helper()
	frame, err := wire.AppendAnswer(nil, a, wire.DefaultEventBytes)
	if err != nil {
		t.Fatalf("AppendAnswer(%+v): %v", a, err)
	}
	return frame
}

func encode(t testing.TB, m message.Message) []byte {
	t.Helper()
	frame, err := wire.Encode(m)
	if err != nil {
		t.Fatalf("Encode(%+v): %v", m, err)
	}
	return frame
}

func encodeEvent(t testing.TB, e wire.Event) []byte {
	t.Helper()
	frame, err := wire.EncodeEvent(e, wire.DefaultEventBytes)
	if err != nil {
		t.Fatalf("EncodeEvent(%+v): %v", e, err)
	}
	return frame
}
