// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for records (protocol.md 10).

// ask makes a node request changes and returns the id of the request.
func (b *bus) ask(i int, conditions []message.Condition, changes ...message.Change) uint64 {
	b.t.Helper()
	n := b.nodes[i]
	n.asked++
	b.take(n, n.Commit(b.now, message.RecordRequest{
		ID: n.asked, Conditions: conditions, Changes: changes,
	}))
	return n.asked
}

// reply waits for the response to a request and returns it.
func (b *bus) reply(i int, id uint64) message.RecordResponse {
	b.t.Helper()
	var got message.RecordResponse
	b.until(5*time.Second, fmt.Sprintf("answer %d", id), func() bool {
		for _, a := range b.nodes[i].answers {
			if a.ID == id {
				got = a
				return true
			}
		}
		return false
	})
	return got
}

// wants makes a request and checks the reason in the response.
func (b *bus) wants(
	why message.Reason, i int, conditions []message.Condition, changes ...message.Change,
) member.Token {
	b.t.Helper()
	a := b.reply(i, b.ask(i, conditions, changes...))
	if a.Reason != why {
		b.t.Fatalf("at %v: n%d got the answer %q, want %q", b.since(), i+1, a.Reason, why)
	}
	return member.Token(a.Number)
}

func absent(key string) []message.Condition { return []message.Condition{{Key: key}} }

func owned(key string) message.Change {
	return message.Change{Key: key, Value: []byte("v"), Owned: true}
}

func drop(key string) message.Change { return message.Change{Key: key, Drop: true} }

// acquire takes a record as a latch does and returns its token.
func (b *bus) acquire(i int, key string) member.Token {
	b.t.Helper()
	n := b.wants(message.ReasonNone, i, absent(key), owned(key))
	b.until(time.Second, "trust", func() bool { return b.holds(i, key) == n })
	return n
}

func (b *bus) holds(i int, key string) member.Token {
	n := b.nodes[i]
	if !n.up {
		return member.Token{}
	}
	token, _ := n.Holds(b.now, key)
	return token
}

// recorders returns a settled cluster and its followers.
func recorders(t *testing.T, size int) (b *bus, others []int) {
	t.Helper()
	return recordersWith(t, size, lan)
}

func recordersWith(t *testing.T, size int, timings message.Timings) (b *bus, others []int) {
	t.Helper()
	b = newBus(t, size, size)
	b.timings = timings
	for i := range size {
		b.start(i)
	}
	b.settle(size)
	b.run(time.Second)
	l := b.quorate()
	for i := range b.nodes {
		if i != l {
			others = append(others, i)
		}
	}
	return b, others
}

// A request is answered only once M voters hold the revision, whose number is the token.
func TestARecordIsAnsweredOnceItIsCommitted(t *testing.T) {
	b, others := recorders(t, 3)
	for _, i := range []int{b.quorate(), others[0]} {
		key := fmt.Sprint("k", i)
		token := b.acquire(i, key)
		holding := 0
		for _, n := range b.nodes {
			if e, ok := n.durable.Held.Records.Find(key); ok && e.Token == token {
				holding++
			}
		}
		if holding < 2 {
			t.Errorf("n%d: got an answer while %d of 3 hold the record", i+1, holding)
		}
		b.run(b.timings.HeartbeatInterval)
		for j, n := range b.nodes {
			if e, ok := n.Records().Find(key); !ok || e.Owner.Address != addr(i) || e.Token != token {
				t.Errorf("n%d shows %+v under %s, want one of n%d by %v", j+1, e, key, i+1, token)
			}
		}
	}
}

func TestARequestIsTakenWholeOrNotAtAll(t *testing.T) {
	b, others := recorders(t, 3)
	a, c := others[0], others[1]
	token := b.acquire(a, "a")
	b.wants(message.ReasonConflict, c, absent("a"), owned("b"))
	b.wants(message.ReasonOwned, c, nil, owned("b"), owned("a"))
	other := []message.Condition{{Key: "a", Token: member.Token{Version: 9}}}
	b.wants(message.ReasonConflict, c, other, owned("b"))
	b.wants(message.ReasonConflict, c, nil, owned("b"), drop("b")) // only one change per key
	b.run(b.timings.HeartbeatInterval)
	if got := b.nodes[a].Records(); got.Len() != 1 || b.holds(a, "a") != token {
		t.Errorf("got %+v, want the first record alone", got)
	}
	after := b.wants(message.ReasonNone, a, []message.Condition{{Key: "a", Token: token}},
		drop("a"), owned("b"))
	b.until(time.Second, "trust", func() bool { return b.holds(a, "b") == after })
	if !token.Less(after) || !b.holds(a, "a").IsZero() {
		t.Errorf("got token %v after %v, and a by %v", after, token, b.holds(a, "a"))
	}
}

// Requests that wait at the same time share one revision.
func TestRequestsShareARevision(t *testing.T) {
	b, others := recorders(t, 3)
	before := b.nodes[0].durable.Held.Revision
	var ids []uint64
	for i := range 20 {
		ids = append(ids, b.ask(others[0], nil, owned(fmt.Sprint("k", i))))
	}
	tokens := map[member.Number]int{}
	for _, id := range ids {
		tokens[b.reply(others[0], id).Number]++
	}
	if got := b.nodes[0].durable.Held.Revision - before; got > 2 || len(tokens) > 2 {
		t.Errorf("got %d revisions for requests of one moment: %v", got, tokens)
	}
}

// A revision sets a key only once; its number is the token.
func TestEachSettingHasATokenOfItsOwn(t *testing.T) {
	b, others := recorders(t, 3)
	i := others[0]
	var last member.Number
	var ids []uint64
	for range 5 {
		ids = append(ids, b.ask(i, nil, owned("k")), b.ask(i, nil, drop("k")))
	}
	for n, id := range ids {
		a := b.reply(i, id)
		if n%2 == 0 && !last.Less(a.Number) {
			t.Errorf("setting %d got the token %v after %v", n/2, a.Number, last)
		}
		last = a.Number
	}
}

// The owner trusts its record for nine tenths of HoldTimeout after it sent its last answered
// keep-alive. Another node can get the record only HoldTimeout after that keep-alive arrived.
func TestARecordOfASilentOwnerEndsAfterItTrustsItNoMore(t *testing.T) {
	b, others := recorders(t, 3)
	a, c := others[0], others[1]
	token := b.acquire(a, "k")
	cutAt := b.now
	b.cut = func(m message.Message) bool { return m.From.Address == addr(a) || m.To == addr(a) }
	trusted := b.nodes[a].TrustsUntil().Sub(cutAt)
	b.until(2*b.timings.HoldTimeout(), "end of the record", func() bool {
		_, ok := b.nodes[b.quorate()].durable.Held.Records.Find("k")
		return !ok
	})
	took := b.now.Sub(cutAt)
	hold := b.timings.HoldTimeout()
	if trusted > hold*9/10 || took > hold || took < trusted || !b.holds(a, "k").IsZero() {
		t.Errorf("trusted for %v and gone after %v, want at most %v, and %v after it",
			trusted, took, hold*9/10, hold)
	}
	if next := b.acquire(c, "k"); !token.Less(next) {
		t.Errorf("got token %v after %v", next, token)
	}
	b.cut = nil
	b.run(time.Second)
	if got := b.holds(a, "k"); !got.IsZero() {
		t.Errorf("the owner of before trusts again, by %v", got)
	}
}

// TestARequestInVainEndsNoTrust checks requests that another session of the owner sends because it
// sees an older table. They are refused, so the owner keeps its trust, also if its own request has
// not been answered yet.
func TestARequestInVainEndsNoTrust(t *testing.T) {
	b, others := recorders(t, 3)
	i := others[0]
	holds := func(key string, want member.Token) {
		t.Helper()
		if got := b.holds(i, key); got != want {
			t.Errorf("the owner trusts %s by %v, want %v", key, got, want)
		}
	}
	before := b.acquire(i, "k")
	b.wants(message.ReasonNone, i, nil, drop("k"))
	token := b.acquire(i, "k")
	earlier := []message.Condition{{Key: "k", Token: before}}
	for _, conditions := range [][]message.Condition{absent("k"), earlier} {
		for _, change := range []message.Change{owned("k"), drop("k")} {
			id := b.ask(i, conditions, change)
			holds("k", token)
			if a := b.reply(i, id); a.Reason != message.ReasonConflict {
				t.Errorf("%v under %v: got %q, want %q", change, conditions, a.Reason,
					message.ReasonConflict)
			}
			holds("k", token)
		}
	}
	first, second := b.ask(i, absent("l"), owned("l")), b.ask(i, absent("l"), owned("l"))
	token = member.Token(b.reply(i, first).Number)
	if a := b.reply(i, second); a.Reason != message.ReasonConflict {
		t.Errorf("the second request: got %q, want %q", a.Reason, message.ReasonConflict)
	}
	holds("l", token)
	b.ask(i, []message.Condition{{Key: "l", Token: token}}, drop("l"))
	holds("l", member.Token{})
}

// TestADropVoidsAnAnswerUnderWay checks that the answer to a request restores no trust after the
// owner, whose state already shows the record, has asked to drop it.
func TestADropVoidsAnAnswerUnderWay(t *testing.T) {
	b, others := recorders(t, 3)
	i := others[0]
	var late message.Message
	b.cut = func(m message.Message) bool {
		if _, is := m.Body.(message.RecordResponse); is && late.Body == nil {
			late = m
			return true
		}
		return false
	}
	b.ask(i, absent("k"), owned("k"))
	var shown member.Record
	b.until(time.Second, "record and answer", func() bool {
		shown, _ = b.nodes[i].Records().Find("k")
		return !shown.Token.IsZero() && late.Body != nil
	})
	b.ask(i, []message.Condition{{Key: "k", Token: shown.Token}}, drop("k"))
	b.deliver(late)
	if got := b.holds(i, "k"); !got.IsZero() {
		t.Errorf("the owner trusts the record by %v after it asked to drop it", got)
	}
}

// A record that another node drops is first revoked. It is dropped once its owner has learned of
// the revocation, long before HoldTimeout.
func TestAnotherRecordIsRevokedThenDropped(t *testing.T) {
	b, others := recorders(t, 3)
	a, c := others[0], others[1]
	b.acquire(a, "k")
	id := b.ask(c, nil, drop("k"))
	seen := false
	took := b.until(time.Second, "end of the record", func() bool {
		e, ok := b.nodes[b.quorate()].durable.Held.Records.Find("k")
		seen = seen || ok && e.Revoked
		if !ok && !b.holds(a, "k").IsZero() {
			t.Error("the record is gone, and its owner trusts it")
		}
		return !ok
	})
	if !seen || took > 10*b.latency {
		t.Errorf("revoked first: %v, gone after %v", seen, took)
	}
	if r := b.reply(c, id).Reason; r != message.ReasonNone {
		t.Errorf("got the answer %q", r)
	}
	b.acquire(c, "k")
}

// If the owner does not learn of the revocation, the record stays until the owner has been silent
// for HoldTimeout.
func TestARevokedRecordOfASilentOwnerStays(t *testing.T) {
	b, others := recorders(t, 3)
	a, c := others[0], others[1]
	b.acquire(a, "k")
	b.cut = func(m message.Message) bool { return m.To == addr(a) }
	b.wants(message.ReasonNone, c, nil, drop("k"))
	b.until(2*b.timings.HoldTimeout(), "end of the record", func() bool {
		_, ok := b.nodes[b.quorate()].durable.Held.Records.Find("k")
		if !ok && !b.holds(a, "k").IsZero() {
			t.Error("the record is gone, and its owner trusts it")
		}
		return !ok
	})
}

// An owner cannot set a revoked record again under its old token, because this would undo the
// revocation.
func TestAnOwnerCannotUndoARevocation(t *testing.T) {
	b, others := recorders(t, 3)
	a, c := others[0], others[1]
	token := b.acquire(a, "k")
	b.cut = func(m message.Message) bool { // the owner does not learn of the revocation
		k := m.Body.Kind()
		return m.To == addr(a) && (k == message.KindRecordUpdate || k == message.KindClusterAlignment)
	}
	b.wants(message.ReasonNone, c, nil, drop("k"))
	b.wants(message.ReasonConflict, a, []message.Condition{{Key: "k", Token: token}}, owned("k"))
}

// The clock of an owner stood still. An ack to a keep-alive from before that does not restore the
// trust in its records; an ack to a later one does.
func TestAnEchoFromBeforeAClockStepRestoresNoTrust(t *testing.T) {
	b, others := recorders(t, 3)
	n := b.nodes[others[0]]
	b.acquire(others[0], "k")
	sent := func(m message.Message) bool {
		return m.From.Address == n.addr && m.Body.Kind() == message.KindLeaderKeepAlive
	}
	b.until(time.Second, "keep-alive on its way", func() bool {
		return slices.ContainsFunc(b.wire, func(f flight) bool { return sent(f.msg) })
	})
	b.now = b.now.Add(b.latency / 2)
	n.EndTrust(b.now)
	b.cut = sent
	b.take(n, n.Advance(b.now))
	b.run(2 * b.timings.HeartbeatInterval) // the next ack echoes that keep-alive
	if got := b.holds(others[0], "k"); !got.IsZero() {
		t.Errorf("the answer to a keep-alive from before the step restored the trust, by %v", got)
	}
	b.cut = nil
	b.until(time.Second, "trust", func() bool { return !b.holds(others[0], "k").IsZero() })
}

// An election does not affect records: the holder keeps its record and token without a gap.
func TestARecordOutlivesItsLeader(t *testing.T) {
	b, others := recorders(t, 5)
	a, old := others[0], b.quorate()
	token := b.acquire(a, "k")
	if _, err := b.transfer(old, others[1]); err != nil {
		t.Fatal(err)
	}
	b.until(time.Second, "another leader", func() bool {
		if b.holds(a, "k") != token {
			t.Fatalf("at %v: trust was lost in a hand-over", b.since())
		}
		l := b.quorate()
		return l >= 0 && l != old
	})
	b.crash(b.quorate())
	b.until(3*time.Second, "another leader", func() bool {
		if b.holds(a, "k") != token {
			t.Fatalf("at %v: trust was lost with the leader", b.since())
		}
		return b.quorate() >= 0
	})
	end := b.now.Add(2 * b.timings.HoldTimeout())
	for b.step(end) {
		if b.holds(a, "k") != token {
			t.Fatalf("at %v: trust was lost after the election", b.since())
		}
	}
}

// A leader crashes, and its successor had followed it for long enough. The records of the crashed
// leader end LeaseTimeout after the election, because no other leader can have extended its trust
// in them.
func TestARecordOfALeaderThatCrashedEnds(t *testing.T) {
	b, others := recorders(t, 5)
	old := b.quorate()
	b.acquire(old, "k")
	b.run(b.timings.HoldTimeout())
	b.crash(old)
	b.until(3*time.Second, "another leader", func() bool { return b.quorate() >= 0 })
	took := b.until(3*time.Second, "end of the record", func() bool {
		_, ok := b.nodes[b.quorate()].durable.Held.Records.Find("k")
		return !ok
	})
	if lease := b.timings.LeaseTimeout; took > lease || took < lease*9/10 {
		t.Errorf("gone %v after the election, want %v", took, lease)
	}
	b.acquire(others[0], "k")
}

// A leader that led only briefly may still trust its records, because an earlier leader extended
// that trust. So its records stay as long as the records of any other member, even if its host
// refuses the port.
func TestARecordOfALeaderThatCrashedSoonEndsLater(t *testing.T) {
	timings := lan
	timings.LeaseTimeout = lan.LeaseTimeout / 2
	b, others := recordersWith(t, 5, timings)
	first, second := b.quorate(), others[0]
	b.acquire(second, "k")
	if _, err := b.transfer(first, second); err != nil {
		t.Fatal(err)
	}
	b.until(time.Second, "the second leader", func() bool { return b.quorate() == second })
	version, _ := b.nodes[second].Authority(b.now)
	gone := statemachine.Probe{Leader: b.view(second).Self, Version: version}
	b.crash(second)
	for _, i := range append(others[1:], first) {
		b.take(b.nodes[i], b.nodes[i].Refused(b.now, gone))
	}
	elected := b.until(time.Second, "another leader", func() bool { return b.quorate() >= 0 })
	took := b.until(3*time.Second, "end of the record", func() bool {
		_, ok := b.nodes[b.quorate()].durable.Held.Records.Find("k")
		return !ok
	})
	if took < b.timings.HoldTimeout()*9/10 || elected > lan.LeaderTimeout*9/10 {
		t.Errorf("elected after %v, and gone %v later, want %v", elected, took, b.timings.HoldTimeout())
	}
}

// A leader that hands over keeps its own records.
func TestALeaderThatHandsOverKeepsItsRecords(t *testing.T) {
	b, others := recorders(t, 3)
	l := b.quorate()
	token := b.acquire(l, "k")
	if _, err := b.transfer(l, others[0]); err != nil {
		t.Fatal(err)
	}
	end := b.now.Add(3 * b.timings.LeaseTimeout)
	for b.step(end) {
		if b.holds(l, "k") != token {
			t.Fatalf("at %v: trust was lost in a hand-over", b.since())
		}
	}
}

func (b *bus) transfer(from, to int) (statemachine.Output, error) {
	n := b.nodes[from]
	out, err := n.Transfer(b.now, addr(to))
	b.take(n, out)
	return out, err
}

// A run that has ended owns nothing. Its records are dropped when a later run joins, or when the
// run itself leaves.
func TestRecordsEndWithTheirRun(t *testing.T) {
	b, others := recorders(t, 3)
	a, c := others[0], others[1]
	b.acquire(a, "a")
	b.acquire(c, "c")
	b.crash(a)
	b.start(a)
	took := b.until(time.Second, "end of the record", func() bool {
		_, ok := b.nodes[b.quorate()].durable.Held.Records.Find("a")
		return !ok
	})
	if took >= b.timings.LeaseTimeout/2 {
		t.Errorf("the record of a run that ended stayed for %v", took)
	}
	n := b.nodes[c]
	b.take(n, n.Leave(b.now))
	if got := b.holds(c, "c"); !got.IsZero() {
		t.Errorf("one that leaves trusts its record by %v", got)
	}
	b.until(time.Second, "end of the record", func() bool {
		_, ok := b.nodes[b.quorate()].durable.Held.Records.Find("c")
		return !ok
	})
}

// A run that joins again with a greater incarnation trusts none of its records. The call in which
// it joins again sets Output.Changed (protocol.md 10).
func TestARunThatJoinsAgainAboveItsNumberTrustsNothing(t *testing.T) {
	b, others := recorders(t, 3)
	a, l := others[0], b.quorate()
	b.acquire(a, "k")
	n, claim, leader := b.nodes[a], b.claim(l), b.view(l).Self
	b.isolate(a)
	hear := func(body message.Body) statemachine.Output {
		return b.handTo(a, message.Message{
			From: leader, To: n.addr, Claim: claim, Cluster: n.durable.Held.Cluster, Body: body,
		})
	}
	b.take(n, n.Refused(b.now, statemachine.Probe{Leader: leader, Version: claim.Version}))
	hear(message.SeedKeepAlive{})
	before := b.view(a).Self
	if b.holds(a, "k").IsZero() {
		t.Fatalf("the run that lost its leader does not trust its record\n%s", b)
	}
	out := hear(message.JoinClusterResponse{
		Reason: message.ReasonOldIncarnation, Known: before.Incarnation,
	})
	if now := b.view(a).Self; now.Incarnation != before.Incarnation+1 || !out.Changed {
		t.Errorf("run %d is now %d, changed %v; want the next one and true",
			before.Incarnation, now.Incarnation, out.Changed)
	}
	if got, until := b.holds(a, "k"), n.TrustsUntil(); !got.IsZero() || !until.IsZero() {
		t.Errorf("trusts the record by %v, and others until %v; want neither", got, until)
	}
}

// Without a quorate leader no request is taken. A request that was sent before the leader was lost
// may have been taken.
func TestRequestsWithoutALeader(t *testing.T) {
	b, others := recorders(t, 3)
	l, i := b.quorate(), others[0]
	b.crash(l)
	id := b.ask(i, absent("k"), owned("k"))
	if a := b.reply(i, id); a.Reason != message.ReasonUnknown {
		t.Errorf("got the answer %q of a leader that died", a.Reason)
	}
	b.wants(message.ReasonNoQuorum, i, absent("k"), owned("k"))
	b.until(3*time.Second, "another leader", func() bool { return b.quorate() >= 0 })
	b.run(time.Second)
	b.acquire(i, "k")
}

// Requests that wait at a leader that is cut off get no answer and are not taken later.
func TestAMinorityTakesNothing(t *testing.T) {
	b, others := recorders(t, 3)
	l := b.quorate()
	b.cut = func(m message.Message) bool { return m.From.Address == addr(l) || m.To == addr(l) }
	id := b.ask(l, absent("k"), owned("k"))
	b.until(3*time.Second, "another leader", func() bool {
		return b.quorate() >= 0 && b.quorate() != l
	})
	b.acquire(others[0], "k")
	b.cut = nil
	b.run(2 * time.Second)
	if a := b.reply(l, id); a.Reason != message.ReasonUnknown || !b.holds(l, "k").IsZero() {
		t.Errorf("got the answer %q, and trust by %v", a.Reason, b.holds(l, "k"))
	}
}

func TestLimitsOfRecords(t *testing.T) {
	b, others := recorders(t, 3)
	i := others[0]
	long := string(bytes.Repeat([]byte("k"), member.MaxKeyBytes+1))
	b.wants(message.ReasonTooLarge, i, nil, owned(long))
	b.wants(message.ReasonTooLarge, i, nil, owned(""))
	b.wants(message.ReasonTooLarge, i, nil, owned("\xff")) // no frame could hold it
	b.wants(message.ReasonTooLarge, i, absent(long))
	b.wants(message.ReasonTooLarge, i, nil,
		message.Change{Key: "k", Value: make([]byte, member.MaxValueBytes+1)})
	b.wants(message.ReasonTooLarge, i, nil, make([]message.Change, message.MaxChanges+1)...)
	full := 0
	for r := message.ReasonNone; r == message.ReasonNone; full++ {
		r = b.reply(i, b.ask(i, nil, message.Change{
			Key: fmt.Sprint("k", full), Value: make([]byte, member.MaxValueBytes),
		})).Reason
		if r != message.ReasonNone && r != message.ReasonTableFull || full > member.MaxRecords {
			t.Fatalf("record %d: got %q", full, r)
		}
	}
	if got := b.nodes[i].Records().Bytes(); got > member.MaxRecordsBytes ||
		got < member.MaxRecordsBytes-2*member.MaxValueBytes {
		t.Errorf("got %d bytes of records, the limit is %d", got, member.MaxRecordsBytes)
	}
	b.wants(message.ReasonNone, i, nil, drop("k0")) // a record can always be dropped
}

// No node holds a table above the limit, because it could be neither sent nor saved.
func TestNoUpdateMakesTheTableTooLarge(t *testing.T) {
	for _, c := range []struct{ set, size, want int }{
		{500, 0, 2000}, {40, member.MaxValueBytes, 80},
	} {
		b, others := recorders(t, 3)
		i, l := others[0], b.quorate()
		for n := range 5 {
			held := b.nodes[i].durable.Held
			u := message.RecordUpdate{Number: held.Number}
			u.Number.Revision++
			for k := range c.set {
				key := fmt.Sprintf("k%d/%03d", n, k)
				u.Set = append(u.Set, member.Record{Key: key, Value: make([]byte, c.size)})
			}
			b.take(b.nodes[i], b.nodes[i].Step(b.now, message.Message{
				From: held.LeaderIdentity(), To: addr(i), Claim: b.claim(l), Body: u,
			}))
		}
		if got := b.nodes[i].durable.Held.Records.Len(); got != c.want {
			t.Errorf("values of %d bytes: n%d holds %d records, want %d", c.size, i+1, got, c.want)
		}
	}
}

// The open requests of a member and those that wait at a leader are both limited.
func TestRequestsThatWaitAreBounded(t *testing.T) {
	b, others := recorders(t, 3)
	i, l := others[0], b.quorate()
	b.cut = func(m message.Message) bool { return m.Body.Kind() == message.KindLeaderKeepAlive }
	b.ask(l, nil, owned("first")) // never committed, so the others wait
	busy := 0
	for n := range 1100 {
		b.ask(i, nil, owned(fmt.Sprint("k", n)))
	}
	for _, a := range b.nodes[i].answers {
		if a.Reason == message.ReasonBusy {
			busy++
		}
	}
	if busy != 1100-1024 {
		t.Errorf("got %d answers of %d that are busy, want %d", busy, 1100, 1100-1024)
	}
	out := statemachine.Output{}
	for n := range 5000 {
		out = b.nodes[l].Step(b.now, message.Message{
			From: b.nodes[i].View(b.now).Self, To: addr(l), Claim: b.claim(l),
			Body: message.RecordRequest{ID: uint64(10_000 + n), Changes: []message.Change{owned("x")}},
		})
	}
	if len(out.Send) != 1 {
		t.Fatalf("got %+v, want one answer", out.Send)
	}
	if a, ok := out.Send[0].Body.(message.RecordResponse); !ok || a.Reason != message.ReasonBusy {
		t.Errorf("got %+v, want a refusal", out.Send[0].Body)
	}
}

func (b *bus) claim(l int) member.Claim { return b.nodes[l].durable.Held.Claim() }

// Only an active member may make requests.
func TestAJoiningMemberAsksInVain(t *testing.T) {
	b, l := threeOfFive(t)
	b.start(3)
	b.awaitStatus(time.Second, l, 3, member.Joining)
	var joiner member.Identity
	if e, ok := b.nodes[l].durable.Held.Roster.Find(addr(3)); ok {
		joiner = e.Identity
	}
	out := b.nodes[l].Step(b.now, message.Message{
		From: joiner, To: addr(l), Claim: b.claim(l),
		Body: message.RecordRequest{ID: 1, Changes: []message.Change{owned("k")}},
	})
	b.take(b.nodes[l], out)
	b.until(time.Second, "answer", func() bool {
		for _, f := range b.sent {
			if a, ok := f.msg.Body.(message.RecordResponse); ok && f.msg.To == addr(3) {
				return a.Reason == message.ReasonNotActive
			}
		}
		return false
	})
}

// lostToAnotherStore lets a member set and drop record k. Another store then takes the place of the
// member, which is cut off, sends the given messages and leaves.
func lostToAnotherStore(t *testing.T, bodies ...message.Body) (b *bus, a int) {
	t.Helper()
	b, others := recorders(t, 3)
	a, l := others[0], b.quorate()
	b.acquire(a, "k")
	b.wants(message.ReasonNone, a, nil, drop("k"))
	b.cut = func(m message.Message) bool { return m.From.Address == addr(a) || m.To == addr(a) }
	// Its place goes to no other store before it was silent for so long.
	b.run(b.timings.HeartbeatTimeout + b.timings.HeartbeatInterval)
	other := message.Message{From: b.nodes[a].View(b.now).Self, To: addr(l), Claim: b.claim(l)}
	other.From.StoreID[0] = 99
	other.From.Incarnation++
	bodies = append([]message.Body{message.JoinClusterRequest{}}, bodies...)
	for _, body := range append(bodies, message.MemberLeave{}) {
		other.Body = body
		b.deliver(other)
	}
	if e, _ := b.nodes[l].durable.Held.Roster.Find(addr(a)); !e.StoreID.IsZero() {
		t.Fatalf("it has its place yet: %+v", e)
	}
	b.cut = nil
	return b, a
}

// takesNoCopy hands the leader a copy of the first request, which set record k.
func (b *bus) takesNoCopy() {
	b.t.Helper()
	b.deliver(b.mail(0, message.KindRecordRequest)[0].msg)
	b.run(b.timings.HeartbeatInterval)
	if e, ok := b.nodes[b.quorate()].durable.Held.Records.Find("k"); ok {
		b.t.Errorf("a copy of a request was taken: %+v", e)
	}
}

// A request is taken at most once. This holds even if its sender lost its place to another store
// and got it back in the same run.
func TestALateRequestOfAMemberThatGotItsPlaceBack(t *testing.T) {
	b, _ := lostToAnotherStore(t)
	b.until(5*b.timings.LeaderTimeout, "return", func() bool { return b.settled(3) })
	b.takesNoCopy()
}

// A leader knows the latest run alone that made requests at an address. So once the other store has
// made one, the earlier run gets its place back only under a later number.
func TestALateRequestOfAForgottenRun(t *testing.T) {
	b, a := lostToAnotherStore(t, message.RecordRequest{ID: 1})
	end := b.now.Add(5 * b.timings.LeaderTimeout)
	for b.nodes[a].up && b.step(end) {
		if b.settled(3) {
			break
		}
	}
	b.takesNoCopy()
	if !errors.Is(b.nodes[a].stop, statemachine.ErrAddressInUse) {
		t.Errorf("the earlier run ended with %v, want ErrAddressInUse\n%s", b.nodes[a].stop, b)
	}
}

// load makes a node set a record ten times per heartbeat interval, for 30 intervals.
func (b *bus) load(i int) {
	b.t.Helper()
	before := b.nodes[b.quorate()].durable.Held.Revision
	for n := range 300 {
		b.ask(i, nil, owned(fmt.Sprint("k", n%5)))
		b.run(b.timings.HeartbeatInterval / 10)
	}
	if made := b.nodes[b.quorate()].durable.Held.Revision - before; made < 250 {
		b.t.Fatalf("%d revisions of 300 requests", made)
	}
}

// A member that missed an update gets the whole state even if revisions never pause.
func TestAMemberThatMissedAnUpdateCatchesUp(t *testing.T) {
	b, others := recorders(t, 5)
	behind := others[0]
	var lostAt, caughtAt time.Time
	var lost member.Number
	b.cut = func(m message.Message) bool {
		u, update := m.Body.(message.RecordUpdate)
		k, shows := m.Body.(message.LeaderKeepAlive)
		switch {
		case lostAt.IsZero() && update && m.To == addr(behind):
			lostAt, lost = b.now, u.Number
			return true
		case lostAt.IsZero() || !caughtAt.IsZero():
		case shows && m.From.Address == addr(behind) && lost.Less(k.Number):
			caughtAt = b.now
		}
		return false
	}
	mark := len(b.sent)
	b.load(others[1])
	if took := caughtAt.Sub(lostAt); caughtAt.IsZero() || took > 4*b.timings.HeartbeatInterval {
		t.Errorf("it was behind for %v", took)
	}
	if n := len(b.mail(mark, message.KindClusterAlignment)); n > 2 {
		t.Errorf("%d states were sent whole for one update that was lost", n)
	}
}

// A silent member gets no whole state, no matter how many revisions there are.
func TestASilentMemberGetsNoState(t *testing.T) {
	b, others := recorders(t, 5)
	b.crash(b.quorate(), others[0])
	b.until(5*b.timings.LeaderTimeout, "next leader", func() bool { return b.quorate() >= 0 })
	b.run(b.timings.HeartbeatTimeout * 2)
	mark := len(b.sent)
	for _, i := range others[1:] {
		if i != b.quorate() {
			b.load(i)
			break
		}
	}
	if n := len(b.mail(mark, message.KindClusterAlignment)); n > 0 {
		t.Errorf("%d states were sent whole to two that are dead", n)
	}
}

// A member gets its place back in the same run. It may trust the records that it then sets, because
// the leader extended its trust earlier. In this test only late messages from the member reach the
// leader. The record stays while the member trusts it.
func TestARecordOfAMemberThatGotItsPlaceBackStays(t *testing.T) {
	b, others := recorders(t, 3)
	a, c, l := others[0], others[1], b.quorate()
	b.run(2 * b.timings.HoldTimeout())
	away := func(m message.Message) bool { return m.From.Address == addr(a) || m.To == addr(a) }
	b.cut = away
	b.ask(a, absent("k"), owned("k"))
	newest := func(k message.Kind) (found message.Message) {
		for _, f := range b.sent {
			if f.msg.Body.Kind() == k && f.msg.From.Address == addr(a) && f.msg.To == addr(l) {
				found = f.msg
			}
		}
		return found
	}
	comes := func(m message.Message) {
		b.take(b.nodes[l], b.nodes[l].Step(b.now, m))
		b.run(10 * b.latency)
	}
	join, shown := newest(message.KindJoinClusterRequest), newest(message.KindLeaderKeepAlive)
	request, twin := newest(message.KindRecordRequest), join
	twin.From.StoreID[0]++
	twin.From.Incarnation++
	b.until(2*b.timings.HeartbeatTimeout, "seat of the other store", func() bool {
		comes(twin)
		return b.nodes[l].durable.Held.Roster.Has(twin.From)
	})
	twin.Body = message.MemberLeave{}
	comes(twin)
	b.cut = func(m message.Message) bool {
		u, ok := m.Body.(message.RecordUpdate)
		return m.From.Address == addr(a) || m.To == addr(a) && ok && len(u.Dropped) > 0
	}
	comes(join)
	comes(shown)
	comes(request)
	if b.holds(a, "k").IsZero() {
		t.Fatal("it does not trust its record, and nothing is shown")
	}
	b.cut = away
	for range 40 {
		b.run(b.timings.HeartbeatInterval)
		if b.holds(c, "k").IsZero() {
			b.ask(c, absent("k"), owned("k"))
		} else if !b.holds(a, "k").IsZero() {
			t.Fatalf("at %v: two trust one record", b.since())
		}
	}
	if b.holds(c, "k").IsZero() {
		t.Error("the record is never free")
	}
}
