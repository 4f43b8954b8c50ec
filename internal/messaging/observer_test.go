// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

func observerIdentity(id string) member.Identity {
	return member.Identity{Address: member.ObserverAddress(id), Incarnation: 1}
}

// passEvent passes an event to a node as if an observer had sent it.
func passEvent(t *testing.T, n *node, e wire.Event) error {
	t.Helper()
	frame, err := wire.EncodeEvent(e, MaxEventBytes)
	if err != nil {
		t.Fatal(err)
	}
	return n.Custom(transport.Request, observerIdentity("o"), frame)
}

// TestObserversSendOnlyRequests checks that no event, call without an answer or datagram of an
// observer reaches a handler, and that the first two close its connection.
func TestObserversSendOnlyRequests(t *testing.T) {
	inWorld(t, func(_ int, mux *receiver.Mux) {
		receiver.Handle(mux, func(context.Context, member.Member, receiver.Raw) error {
			t.Error("a handler runs")
			return nil
		})
	}, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		for i, e := range []wire.Event{
			{Name: "x", Payload: []byte{0xc0}},
			{Name: "x", Payload: []byte{0xc0}, Call: wire.Call{ID: 1}},
			{Name: eventname.Watch},
		} {
			if err := passEvent(t, n, e); err == nil {
				t.Errorf("event %d: got nil, want an error", i)
			}
		}
		frame, err := wire.EncodeEvent(wire.Event{Name: "x", Payload: []byte{0xc0}}, MaxEventBytes)
		if err != nil {
			t.Fatal(err)
		}
		n.Datagram(observerIdentity("o"), frame)
		synctest.Wait()
		if got := n.drops(DropMalformed); got != 4 {
			t.Errorf("%d frames were dropped, want 4", got)
		}
	})
}

// TestObserversShareRoom checks that the requests of all observers together are bounded, and that
// the room is free again after they were handled.
func TestObserversShareRoom(t *testing.T) {
	type load struct{ B []byte }
	var release chan struct{}
	inWorld(t, func(i int, mux *receiver.Mux) {
		if i == 0 {
			release = make(chan struct{}) // in the bubble
		}
		receiver.HandleRequest(mux, func(context.Context, member.Member, load) (int, error) {
			<-release
			return 0, nil
		}, receiver.Queue(1000, receiver.Block))
	}, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		payload, err := n.mux.Encode(nil, load{make([]byte, 1<<19)})
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(2 * observerBytes >> 19) {
			e := wire.Event{Name: "load", Payload: payload, Call: wire.Call{ID: id + 1, Request: true}}
			if err := passEvent(t, n, e); err != nil {
				t.Fatal(err)
			}
		}
		if got := n.watches.bytes; got == 0 || got > observerBytes {
			t.Errorf("%d bytes wait, want at most %d", got, observerBytes)
		}
		e := wire.Event{
			Name: "load", Payload: payload, Call: wire.Call{ID: 1, Request: true, Leader: true},
		}
		if err := passEvent(t, nodes[1], e); err != nil || nodes[1].watches.bytes != 0 {
			t.Errorf("refused by a follower: got %v, %d bytes are reserved", err, nodes[1].watches.bytes)
		}
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := n.watches.bytes; got != 0 {
			t.Errorf("%d bytes are reserved after all requests, want 0", got)
		}
	})
}

// TestAWatchReplacesTheLast checks that an observer that watches repeatedly has one watch, and none
// after its connection was lost.
func TestAWatchReplacesTheLast(t *testing.T) {
	inWorld(t, func(int, *receiver.Mux) {}, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		report, _ := n.Follow()
		for id := range uint64(100) {
			e := wire.Event{
				Name: eventname.Watch, Metadata: map[string]string{WatchSeen: digestOf(encodeReport(report))},
				Call: wire.Call{ID: id + 1, Request: true},
			}
			if err := passEvent(t, n, e); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := len(n.watches.pending); got != 1 {
			t.Errorf("%d watches are pending, want 1", got)
		}
		n.Lost(observerIdentity("o"))
		synctest.Wait()
		if got := len(n.watches.pending); got != 0 {
			t.Errorf("%d watches are pending after the loss, want 0", got)
		}
	})
}

// askSelf passes a request to a node as if an observer had sent it, and returns the answer.
func askSelf(t *testing.T, n *node, e wire.Event) (a wire.Answer) {
	t.Helper()
	n.self = observerIdentity("o").Address // so that the node keeps the answer
	answers := make(chan wire.Answer, 1)
	id, err := n.pending.add(t.Context(), nil, pendingCall{
		to: n.self, settle: func(a wire.Answer, _ error) { answers <- a },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Call = wire.Call{ID: id, Request: true}
	if err := passEvent(t, n, e); err != nil {
		t.Fatal(err)
	}
	return <-answers
}

// TestObserversAreRefused checks that a node that shuts down refuses watches, and that one that has
// not joined refuses watches and reads. Empty answers would mean that nothing changes or exists.
func TestObserversAreRefused(t *testing.T) {
	record := wire.Event{Name: eventname.Record, Metadata: map[string]string{RecordKey: "here"}}
	inWorld(t, func(int, *receiver.Mux) {}, func(t *testing.T, nodes []*node) {
		closing, joining := nodes[0], nodes[1]
		if a := askSelf(t, joining, record); a.Outcome != wire.OutcomeDone || len(a.Payload) == 0 {
			t.Errorf("after joining: got %+v, want the record", a)
		}
		closing.endStreams()
		joining.cluster = member.ClusterID{}
		for name, a := range map[string]wire.Answer{
			"a watch of a closing node": askSelf(t, closing, wire.Event{Name: eventname.Watch}),
			"a watch of a joining node": askSelf(t, joining, wire.Event{Name: eventname.Watch}),
			"a read of a joining node":  askSelf(t, joining, record),
		} {
			if a.Outcome != wire.OutcomeNotRun {
				t.Errorf("%s: got %+v, want the outcome %d", name, a, wire.OutcomeNotRun)
			}
		}
	})
}

// TestWatchWaitsForRoom checks that a watch is kept if its answer cannot be sent, but not longer
// than an observer waits.
func TestWatchWaitsForRoom(t *testing.T) {
	inWorld(t, func(int, *receiver.Mux) {}, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		report, _ := n.Follow()
		e := wire.Event{
			Name: eventname.Watch, Metadata: map[string]string{WatchSeen: digestOf(encodeReport(report))},
			Call: wire.Call{ID: 1, Request: true},
		}
		if err := passEvent(t, n, e); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 0} {
			time.Sleep(WatchTimeout + time.Second) // the observer is not connected
			synctest.Wait()
			n.watches.mu.Lock()
			if got := len(n.watches.pending); got != want {
				t.Errorf("%d watches are pending, want %d", got, want)
			}
			n.watches.mu.Unlock()
		}
	})
}
