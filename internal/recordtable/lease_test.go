// SPDX-License-Identifier: Apache-2.0

package recordtable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// TestLeaseEndsWithItsTrust checks that a lease, and so the context of its work, ends in the turn
// in which the node stops trusting its record because its clock may have stood still.
func TestLeaseEndsWithItsTrust(t *testing.T) {
	now := time.Unix(1000, 0)
	self := member.Address{Host: "127.0.0.1", Port: 1}
	m := statemachine.New(statemachine.Config{
		Address: self, Name: "n", Seeds: []member.Address{self}, Size: 1,
		Rand:     rand.New(rand.NewPCG(1, 1)),
		NewStore: func() member.StoreID { return member.StoreID{2} },
		Timings: message.Timings{
			HeartbeatInterval: 100 * time.Millisecond, HeartbeatTimeout: 400 * time.Millisecond,
			LeaderTimeout: time.Second, LeaseTimeout: time.Second,
			TTLTimeout: 10 * time.Second, RetryInterval: 500 * time.Millisecond,
		},
	}, paxos.Durable{StoreID: member.StoreID{1}, Incarnation: 1}, now)
	for turn := 0; ; turn++ {
		if version, _ := m.Authority(now); version != 0 {
			break
		} else if turn == 1000 {
			t.Fatal("the node does not lead")
		}
		m.Advance(now)
		now = m.Deadline()
	}
	out := m.Commit(now, message.RecordRequest{ID: 1, Changes: []message.Change{
		{Key: "k", Owned: true},
	}})
	if len(out.Answers) != 1 || out.Answers[0].Reason != message.ReasonNone {
		t.Fatalf("got answers %+v, want one that takes the request", out.Answers)
	}
	table := New(Config{Life: t.Context(), Clock: func() time.Time { return now }})
	s := table.Session(nil).(*session)
	l, _, err := table.leases.find(now, m, s, "k", member.Token(out.Answers[0].Number))
	if l == nil || err != nil {
		t.Fatalf("got lease %v, %v", l, err)
	}
	m.EndTrust(now)
	table.leases.updateAll(now, m, true)
	if !l.Ended() {
		t.Error("the lease lasts, although the node no longer trusts its record")
	}
}
