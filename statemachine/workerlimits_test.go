// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// TestNewWorkerKeepsItsFirstRecord has a worker that is a revision behind when the leader first
// hears it, so that the first ack does not extend its trust.
func TestNewWorkerKeepsItsFirstRecord(t *testing.T) {
	b, others := recorders(t, 3)
	b.run(2 * b.timings.HoldTimeout())
	w := newWorker(b, 7, others[0])
	before := message.ClusterAlignment{State: b.nodes[w.home].CommittedState()}
	b.acquire(others[1], "other")
	w.behind = true
	w.takeOutput(w.Step(b.now, message.Message{To: w.id.Address, Body: before}))
	w.runUntil("leader", func() bool { return w.View(b.now).Quorate })
	w.behind = false
	token := w.acquire("k")
	w.runFor(2 * b.timings.HoldTimeout())
	if got := w.holds("k"); got != token {
		t.Errorf("the worker holds its record by %v, want %v", got, token)
	}
}

// TestWorkerShowsALaterStateImmediately checks that a worker that is behind does not wait
// for its next keep-alive.
func TestWorkerShowsALaterStateImmediately(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	before := message.ClusterAlignment{State: b.nodes[w.home].CommittedState()}
	b.acquire(others[1], "other")
	w.behind = true
	w.takeOutput(w.Step(b.now, message.Message{To: w.id.Address, Body: before}))
	w.runFor(10 * b.latency)
	if !w.TrustsUntil().IsZero() {
		t.Fatal("the leader extended the trust of a worker that is behind")
	}
	w.behind = false
	w.runFor(10 * b.latency)
	if w.TrustsUntil().IsZero() {
		t.Error("the worker has not shown the later state")
	}
}

// TestFullWorkerChangesItsRecords releases and changes records of a worker that owns as many as it
// may.
func TestFullWorkerChangesItsRecords(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	for n := range 8 {
		var changes []message.Change
		for i := range 64 {
			changes = append(changes, owned(fmt.Sprint(n, ".", i)))
		}
		if why := w.ask(nil, changes...); why != message.ReasonNone {
			t.Fatal(why)
		}
	}
	if why := w.ask(nil, owned("0.0")); why != message.ReasonNone {
		t.Errorf("the worker cannot change a record of its own: %v", why)
	}
	if why := w.ask(nil, drop("0.0")); why != message.ReasonNone {
		t.Errorf("the worker cannot release a record: %v", why)
	}
	if why := w.ask(nil, owned("new"), owned("newer")); why != message.ReasonTableFull {
		t.Errorf("513 records: got %v", why)
	}
	if why := w.ask(nil, owned("new"), drop("0.1")); why != message.ReasonNone {
		t.Errorf("the worker cannot exchange a record: %v", why)
	}
}

// TestOwnersAlwaysHaveAPlace fills the places of workers when a leader begins to lead, before a
// worker that owns a record is heard.
func TestOwnersAlwaysHaveAPlace(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	token := w.acquire("k")
	w.runFor(time.Second)
	beat := w.firstSent(message.KindLeaderKeepAlive)
	b.crash(b.quorate())
	b.until(5*time.Second, "leader", func() bool { return b.quorate() >= 0 })
	w.home = b.quorate()
	beat.Claim = chosen(b.nodes[w.home].View(b.now).Version, w.home)
	fill := func() {
		for n := range 2048 {
			other := beat
			var id member.StoreID
			binary.BigEndian.PutUint64(id[4:], uint64(n+1))
			other.From = member.WorkerIdentity(id)
			w.relayMessage(other)
		}
	}
	fill()
	for range 8 {
		w.runFor(b.timings.HoldTimeout() / 2)
		fill()
	}
	if got := w.holds("k"); got != token {
		t.Errorf("the worker holds its record by %v, want %v", got, token)
	}
}

// TestLateKeepAlivesOfAWorkerKeepNothing relays a keep-alive of a dead worker under a later leader.
func TestLateKeepAlivesOfAWorkerKeepNothing(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	w.acquire("k")
	beat := w.sent[len(w.sent)-1]
	b.crash(b.quorate())
	b.until(5*time.Second, "leader", func() bool { return b.quorate() >= 0 })
	l := b.nodes[b.quorate()]
	b.run(b.timings.HoldTimeout() - 2*b.timings.HeartbeatInterval)
	b.take(l, l.Relay(b.now, beat))
	b.run(3 * b.timings.HeartbeatInterval)
	if _, ok := l.Records().Find("k"); ok {
		t.Error("the record of the dead worker is still there")
	}
}

// TestWorkerWithLongerTimingsKeepsItsRecord gives the worker timings by which it would send too few
// keep-alives.
func TestWorkerWithLongerTimingsKeepsItsRecord(t *testing.T) {
	b, others := recorders(t, 3)
	own := b.timings
	b.timings.LeaderTimeout *= 30
	b.timings.LeaseTimeout *= 30
	b.timings.TTLTimeout *= 30
	w := newWorker(b, 7, others[0])
	b.timings = own
	token := w.acquire("k")
	end := b.now.Add(10 * own.HoldTimeout())
	w.runUntil("time", func() bool {
		if got := w.holds("k"); got != token {
			t.Fatalf("at %v the worker holds its record by %v, want %v", b.since(), got, token)
		}
		return !b.now.Before(end)
	})
}

// TestWorkersSendNothingElse hands members messages that a worker may not send, or not directly.
func TestWorkersSendNothingElse(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	w.acquire("k")
	mark := len(b.sent)
	l := b.nodes[b.quorate()]
	for _, m := range w.sent {
		m.To = l.addr
		for range 3 {
			b.take(l, l.Step(b.now, m))
		}
		m.Body = message.LeaderStatusQuery{}
		w.relayMessage(m)
		m.Body, m.Cluster = message.LeaderKeepAlive{}, member.ClusterID{9}
		w.relayMessage(m)
	}
	if len(b.sent) != mark {
		t.Errorf("the members sent %v", b.sent[mark:])
	}
}

// TestMembersDoNotWaitForWorkers has a worker change one key again and again, which takes a
// revision for each request.
func TestMembersDoNotWaitForWorkers(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, b.quorate())
	w.acquire("k")
	request := w.firstSent(message.KindRecordRequest)
	body, _ := request.Body.(message.RecordRequest)
	body.Conditions = nil
	for range 2000 {
		body.ID++
		request.Body = body
		w.relayMessage(request)
	}
	for _, i := range []int{others[0], w.home} {
		b.acquire(i, fmt.Sprint("of ", i))
	}
}
