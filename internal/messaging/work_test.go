// SPDX-License-Identifier: Apache-2.0

package messaging_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// TestStatesOfAWorker draws states, and checks that a worker reads each from the stream, and that
// only changes of records travel while nothing else has changed.
func TestStatesOfAWorker(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	id := func(i int) member.Identity {
		return member.Identity{
			Address: member.Address{Host: "n", Port: uint16(i + 1)}, StoreID: member.StoreID{1},
			Incarnation: 1,
		}
	}
	s := member.State{
		Number: member.Number{Version: 1}, Cluster: member.ClusterID{1}, Leader: id(0).Address,
		Roster: member.Roster{{Identity: id(0), Status: member.Active}},
	}
	var sent, shown member.State
	for range 2000 {
		changed := sent.IsZero()
		for range 1 + r.IntN(5) { // revisions that the worker gets as one
			s.Revision++
			key := fmt.Sprint("k", r.IntN(50))
			switch r.IntN(20) {
			case 0:
				s.Version, s.Leader, changed = s.Version+1, id(r.IntN(3)).Address, true
			case 1:
				m := member.Member{Identity: id(r.IntN(3)), Status: member.Status(1 + r.IntN(3))}
				before, _ := s.Roster.Find(m.Address)
				s.Roster, changed = s.Roster.With(m), changed || before != m
			case 2, 3, 4:
				s.Records = s.Records.Drop(key)
			default:
				s.Records = s.Records.Put(member.Record{
					Key: key, Owner: id(r.IntN(3)), Token: member.Token(s.Number),
				})
			}
		}
		b := messaging.DescribeState(sent, s)
		if _, whole := b.(message.ClusterAlignment); whole && !changed {
			t.Errorf("the whole state travels for changes from %v to %v", sent.Number, s.Number)
		}
		var stream bytes.Buffer
		m := message.Message{From: id(0), To: id(1).Address, Body: b}
		if err := messaging.WriteWork(&stream, m); err != nil {
			t.Fatal(err)
		}
		m, err := messaging.ReadWork(&stream, wire.MaxFrameBytes)
		if err == nil {
			m.Body, err = messaging.ReadState(m.Body, &shown)
		}
		got, _ := m.Body.(message.ClusterAlignment)
		if err != nil || got.State.Number != s.Number || got.State.Digest() != s.Digest() ||
			!got.State.Records.Equal(s.Records) {
			t.Fatalf("got %v (%v), want %v", got.State, err, s)
		}
		sent = s
	}
	update := message.RecordUpdate{Number: member.Number{Version: 1, Revision: 1}}
	if _, err := messaging.ReadState(update, &member.State{}); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("changes of no state: got %v, want ErrMalformed", err)
	}
}
