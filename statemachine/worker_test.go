// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for workers (protocol.md 10, workers).

// worker is a worker in a test. It sends its messages through its home, which gives it the newest
// state unless the worker is behind.
type worker struct {
	*statemachine.Machine
	b       *bus
	id      member.Identity
	home    int
	behind  bool
	asked   uint64
	answers []message.RecordResponse
	sent    []message.Message
}

func newWorker(b *bus, n byte, home int) *worker {
	store := member.StoreID{n, 15: n}
	cfg := statemachine.Config{Timings: b.timings}
	return &worker{
		Machine: statemachine.NewWorker(cfg, store, b.now), b: b, id: member.WorkerIdentity(store),
		home: home,
	}
}

// exchangeAll carries everything between a worker and the members.
func (w *worker) exchangeAll() {
	home := w.b.nodes[w.home]
	if home.up && !w.behind {
		w.takeOutput(w.Step(w.b.now, message.Message{
			From: run(w.home, 1), To: w.id.Address,
			Body: message.ClusterAlignment{State: home.CommittedState()},
		}))
	}
	for _, n := range w.b.nodes {
		mine := func(m message.Message) bool { return m.To == w.id.Address }
		for _, m := range n.relayed {
			if mine(m) {
				w.takeOutput(w.Step(w.b.now, m))
			}
		}
		n.relayed = slices.DeleteFunc(n.relayed, mine)
	}
	w.takeOutput(w.Advance(w.b.now))
}

func (w *worker) takeOutput(out statemachine.Output) {
	w.answers = append(w.answers, out.Answers...)
	w.sent = append(w.sent, out.Send...)
	for _, m := range out.Send {
		w.relayMessage(m)
	}
}

func (w *worker) relayMessage(m message.Message) {
	if home := w.b.nodes[w.home]; home.up {
		w.b.take(home, home.Relay(w.b.now, m))
	}
}

// firstSent returns the first message of a kind that the worker sent.
func (w *worker) firstSent(kind message.Kind) message.Message {
	return w.sent[slices.IndexFunc(w.sent, func(m message.Message) bool {
		return m.Body.Kind() == kind
	})]
}

func (w *worker) runUntil(what string, cond func() bool) {
	w.b.t.Helper()
	w.b.until(time.Minute, what, func() bool {
		w.exchangeAll()
		return cond()
	})
}

// runFor advances the clock by d while the worker takes part.
func (w *worker) runFor(d time.Duration) {
	w.b.t.Helper()
	end := w.b.now.Add(d)
	w.runUntil("time", func() bool { return !w.b.now.Before(end) })
}

func (w *worker) holds(key string) member.Token {
	token, _ := w.Holds(w.b.now, key)
	return token
}

// ask makes a request and returns the reason in the response.
func (w *worker) ask(conditions []message.Condition, changes ...message.Change) message.Reason {
	w.b.t.Helper()
	w.runUntil("leader", func() bool { return w.View(w.b.now).Quorate })
	w.asked++
	r := message.RecordRequest{ID: w.asked, Conditions: conditions, Changes: changes}
	w.takeOutput(w.Commit(w.b.now, r))
	var got message.Reason
	w.runUntil("answer", func() bool {
		i := slices.IndexFunc(w.answers, func(a message.RecordResponse) bool { return a.ID == r.ID })
		if i >= 0 {
			got = w.answers[i].Reason
		}
		return i >= 0
	})
	return got
}

func (w *worker) acquire(key string) member.Token {
	w.b.t.Helper()
	if why := w.ask(absent(key), owned(key)); why != message.ReasonNone {
		w.b.t.Fatalf("the worker got the answer %q", why)
	}
	w.runUntil("trust", func() bool { return !w.holds(key).IsZero() })
	return w.holds(key)
}

func TestWorkerKeepsItsRecord(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	token := w.acquire("k")
	check := func(when string) {
		t.Helper()
		if got := w.holds("k"); got != token {
			t.Errorf("%s: the worker holds the record by %v, want %v", when, got, token)
		}
	}
	w.runFor(5 * b.timings.HoldTimeout())
	check("after a while")
	b.crash(others[0])
	w.home = others[1]
	w.runFor(5 * b.timings.HoldTimeout())
	check("with another home")
	b.start(others[0])
	w.runFor(5 * time.Second)
	b.crash(b.quorate())
	w.runUntil("leader", func() bool { return b.quorate() >= 0 })
	check("after an election")
	w.runFor(5 * b.timings.HoldTimeout())
	check("under the next leader")
	if why := w.ask([]message.Condition{{Key: "k", Token: token}}, drop("k")); why != 0 {
		t.Errorf("the worker cannot release its record: %v", why)
	}
}

// TestWorkerOfTheLeader has the leader as its home.
func TestWorkerOfTheLeader(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, b.quorate())
	w.acquire("k")
	b.wants(message.ReasonOwned, others[0], nil, owned("k"))
}

func TestSilentWorkerLosesItsRecord(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	w.acquire("k")
	w.runFor(time.Second)
	silent := b.now
	id := uint64(0)
	took := b.until(10*time.Second, "record for another", func() bool {
		if id == 0 || slices.ContainsFunc(b.nodes[others[1]].answers,
			func(a message.RecordResponse) bool { return a.ID == id }) {
			id = b.ask(others[1], absent("k"), owned("k"))
		}
		return b.holds(others[1], "k") != member.Token{}
	})
	hold := b.timings.HoldTimeout()
	if _, until := w.Holds(silent, "k"); !until.Before(b.now) {
		t.Errorf("the worker trusts its record until %v, another holds it at %v", until, b.now)
	}
	if took > hold+4*b.timings.HeartbeatInterval {
		t.Errorf("the record was free after %v, want about %v", took, hold)
	}
}

// TestRevokedRecordWaitsForItsWorker takes a record from a worker that a new leader does not know
// yet.
func TestRevokedRecordWaitsForItsWorker(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	w.acquire("k")
	w.runFor(b.timings.HeartbeatTimeout)
	b.crash(b.quorate())
	b.until(5*time.Second, "leader", func() bool { return b.quorate() >= 0 })
	w.home = b.quorate()
	l := b.nodes[w.home]
	b.run(b.timings.HeartbeatInterval)
	before := message.ClusterAlignment{State: l.CommittedState()}
	b.wants(message.ReasonNone, w.home, nil, drop("k"))
	w.behind = true
	w.takeOutput(w.Step(b.now, message.Message{To: w.id.Address, Body: before}))
	if w.holds("k").IsZero() {
		t.Fatal("the worker does not trust its record any longer: the test shows nothing")
	}
	for range 20 {
		w.runFor(b.timings.HeartbeatInterval / 2)
		if _, ok := l.Records().Find("k"); !ok && !w.holds("k").IsZero() {
			t.Fatal("the record was dropped while its worker trusts it")
		}
	}
	w.behind = false
	w.runFor(time.Second)
	if _, ok := l.Records().Find("k"); ok {
		t.Error("the record stays although its worker has shown the revocation")
	}
}

// TestRosterDoesNotEndTheRecordsOfWorkers changes the roster while a worker owns a record.
func TestRosterDoesNotEndTheRecordsOfWorkers(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	token := w.acquire("k")
	b.crash(others[1])
	w.runFor(2 * b.timings.TTLTimeout)
	b.start(others[1])
	w.runFor(2 * time.Second)
	if got := w.holds("k"); got != token {
		t.Errorf("the worker holds the record by %v, want %v", got, token)
	}
}

// TestOldRequestsOfWorkersAreNotTaken repeats a request when the leader has forgotten its worker.
func TestOldRequestsOfWorkersAreNotTaken(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	w.acquire("k")
	if why := w.ask(nil, drop("k")); why != message.ReasonNone {
		t.Fatal(why)
	}
	request := w.firstSent(message.KindRecordRequest)
	beat := w.firstSent(message.KindLeaderKeepAlive)
	repeat := func(when string) {
		t.Helper()
		home := b.nodes[w.home]
		home.relayed = nil
		w.relayMessage(request)
		b.run(time.Second)
		for _, m := range home.relayed {
			if r, ok := m.Body.(message.RecordResponse); ok && r.Reason == message.ReasonNone {
				t.Errorf("%s: the request was taken again", when)
			}
		}
	}
	repeat("now")
	b.run(b.timings.HoldTimeout())
	for n := range 3000 { // the leader has room for 2,048 workers
		other := beat
		other.From = member.WorkerIdentity(member.StoreID{byte(n), byte(n >> 8), 9})
		w.relayMessage(other)
		if n%500 == 0 {
			b.run(b.timings.HoldTimeout())
		}
	}
	b.run(time.Second)
	w.relayMessage(beat)
	repeat("when its worker was forgotten")
}

// TestStrangersAreNoWorkers relays messages in the names of others.
func TestStrangersAreNoWorkers(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	w.acquire("k")
	beat := w.sent[0]
	for name, from := range map[string]member.Identity{
		"member":             run(others[0], 1),
		"another store":      {Address: w.id.Address, StoreID: member.StoreID{1}, Incarnation: 1},
		"another run":        {Address: w.id.Address, StoreID: w.id.StoreID, Incarnation: 2},
		"a node that is out": run(8, 1),
	} {
		m := beat
		m.From = from
		mark := len(b.sent)
		w.relayMessage(m)
		if len(b.sent) != mark {
			t.Errorf("%s: a message was relayed", name)
		}
	}
}

// TestWorkerTrustsAgainUnderTheNextLeader checks that a worker that owns nothing does not carry its
// trust over to the next leader, which may hold records for a shorter time.
func TestWorkerTrustsAgainUnderTheNextLeader(t *testing.T) {
	for _, owns := range []bool{false, true} {
		b, others := recorders(t, 3)
		w := newWorker(b, 7, others[0])
		w.acquire("k")
		if !owns {
			w.ask(nil, drop("k"))
		}
		w.runFor(b.timings.HeartbeatTimeout)
		b.crash(b.quorate())
		b.until(5*time.Second, "leader", func() bool { return b.quorate() >= 0 })
		b.run(b.timings.HeartbeatInterval)
		w.Step(b.now, message.Message{To: w.id.Address, Body: message.ClusterAlignment{
			State: b.nodes[b.quorate()].CommittedState(),
		}})
		if trusts := !w.TrustsUntil().IsZero(); trusts != owns {
			t.Errorf("owns a record: %v, trusts it before an ack: %v", owns, trusts)
		}
	}
}

// TestStrangersRelayNothing relays a message of a worker by a process that is no member.
func TestStrangersRelayNothing(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	w.acquire("k")
	l := b.quorate()
	relayed := message.Message{
		From: run(8, 1), To: addr(l), Body: message.Relayed{Message: w.sent[0]},
	}
	for _, from := range []member.Identity{run(8, 1), newStore(run(others[0], 1))} {
		relayed.From = from
		mark := len(b.sent)
		b.take(b.nodes[l], b.nodes[l].Step(b.now, relayed))
		for _, f := range b.sent[mark:] {
			if f.msg.Body.Kind() == message.KindRelayed {
				t.Errorf("the leader answered %v to a message relayed by %v", f.msg, from)
			}
		}
	}
}

// flood sends requests of a worker, and returns how many were refused as busy.
func (w *worker) flood(count int) (busy int) {
	w.b.t.Helper()
	w.runUntil("leader", func() bool { return w.View(w.b.now).Quorate })
	w.asked++
	out := w.Commit(w.b.now, message.RecordRequest{ID: w.asked, Changes: []message.Change{owned("x")}})
	request := out.Send[len(out.Send)-1]
	body, _ := request.Body.(message.RecordRequest)
	home := w.b.nodes[w.home]
	home.relayed = nil
	for range count {
		body.ID++
		request.Body = body
		w.relayMessage(request)
	}
	for _, m := range home.relayed {
		if r, ok := m.Body.(message.RecordResponse); ok && r.Reason == message.ReasonBusy {
			busy++
		}
	}
	return busy
}

// TestWorkersLeaveRoomForMembers sends requests of workers while no revision can be made.
func TestWorkersLeaveRoomForMembers(t *testing.T) {
	b, others := recorders(t, 3)
	var workers []*worker
	for n := range 80 {
		workers = append(workers, newWorker(b, byte(10+n), b.quorate()))
		workers[n].runUntil("leader", func() bool { return workers[n].View(b.now).Quorate })
	}
	b.cut = func(m message.Message) bool { return m.Body.Kind() == message.KindRecordUpdate }
	b.ask(others[0], nil, owned("x"))
	b.run(b.latency)
	for i, w := range workers {
		if busy := w.flood(100); i == 0 && busy != 100-64 {
			t.Errorf("%d of 100 requests of a worker were refused, want 36", busy)
		}
	}
	id := b.ask(others[1], nil, owned("y"))
	b.run(2 * b.latency)
	for _, a := range b.nodes[others[1]].answers {
		if a.ID == id {
			t.Errorf("the request of a member got the answer %v", a.Reason)
		}
	}
}

// TestWorkersLeaveRoomInTheTable fills the table with records of no owner, and with long values.
func TestWorkersLeaveRoomInTheTable(t *testing.T) {
	for _, value := range [][]byte{nil, make([]byte, member.MaxValueBytes)} {
		b, others := recorders(t, 3)
		w := newWorker(b, 7, others[0])
		why := message.ReasonNone
		for n := 0; why == message.ReasonNone; n++ {
			var changes []message.Change
			for i := range 8 {
				changes = append(changes, message.Change{Key: fmt.Sprint(n, ".", i), Value: value})
			}
			why = w.ask(nil, changes...)
		}
		if why != message.ReasonTableFull {
			t.Errorf("got %v", why)
		}
		b.acquire(others[1], "k")
		if why := w.ask(nil, drop("0.0")); why != message.ReasonNone {
			t.Errorf("the worker cannot drop a record: %v", why)
		}
	}
}

// TestWorkerHasAShareOfTheTable fills the table as one worker.
func TestWorkerHasAShareOfTheTable(t *testing.T) {
	b, others := recorders(t, 3)
	w := newWorker(b, 7, others[0])
	why, n := message.ReasonNone, 0
	for ; why == message.ReasonNone && n < 100; n++ {
		var changes []message.Change
		for i := range 64 {
			changes = append(changes, owned(fmt.Sprint(n, i)))
		}
		why = w.ask(nil, changes...)
	}
	if why != message.ReasonTableFull || n != 9 {
		t.Errorf("request %d got %v, want that request 9 finds no room", n, why)
	}
	b.acquire(others[1], "k")
}

// TestWorkerTrustsForTheTimeOfItsLeader gives the worker longer timings than the cluster has.
func TestWorkerTrustsForTheTimeOfItsLeader(t *testing.T) {
	b, others := recorders(t, 3)
	own := b.timings
	b.timings.LeaderTimeout *= 3
	w := newWorker(b, 7, others[0])
	b.timings = own
	w.acquire("k")
	if _, until := w.Holds(b.now, "k"); until.Sub(b.now) > own.HoldTimeout()*9/10 {
		t.Errorf("the worker trusts its record for %v, want at most %v",
			until.Sub(b.now), own.HoldTimeout()*9/10)
	}
}

// BenchmarkWorkers measures, at a leader that relays for itself, a keep-alive of one of 1,000
// workers that each own a record, and a revision.
func BenchmarkWorkers(b *testing.B) {
	bus := newBus(&testing.T{}, 1, 1)
	bus.start(0)
	bus.settle(1)
	bus.run(time.Second)
	leader := bus.nodes[0]
	var beat message.Message
	for n := range 1000 {
		w := newWorker(bus, byte(n), 0)
		store := member.StoreID{byte(n), byte(n >> 8), 1}
		w.Machine = statemachine.NewWorker(statemachine.Config{Timings: lan}, store, bus.now)
		w.id = member.WorkerIdentity(store)
		w.acquire(fmt.Sprint("k", n))
		if beat = w.sent[0]; n%50 == 0 {
			bus.run(time.Millisecond)
		}
	}
	b.Run("keep-alive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			leader.Relay(bus.now, beat)
		}
	})
	b.Run("revision", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			leader.asked++
			leader.Commit(bus.now, message.RecordRequest{
				ID: leader.asked, Changes: []message.Change{{Key: "x", Value: []byte("v")}},
			})
		}
	})
}

// TestALoneLeaderRevisesUntilNothingIsLeft lets a worker drop a record of the only member. The
// member knows of the revocation, so it drops the record in the same call: no message follows.
func TestALoneLeaderRevisesUntilNothingIsLeft(t *testing.T) {
	b := formed(t, 1, 1)
	w := newWorker(b, 7, 0)
	b.reply(0, b.ask(0, absent("k"), owned("k")))
	n := b.nodes[0]
	w.runUntil("leader", func() bool { return w.View(b.now).Quorate })
	e, _ := n.CommittedState().Records.Find("k")
	if e.Owner.Address != addr(0) {
		t.Fatalf("the member owns no record: %+v", e)
	}
	w.takeOutput(w.Commit(b.now, message.RecordRequest{
		ID: 1, Conditions: []message.Condition{{Key: "k", Token: e.Token}},
		Changes: []message.Change{drop("k")},
	}))
	if e, ok := n.CommittedState().Records.Find("k"); ok {
		t.Errorf("the record is left: %+v", e)
	}
}
