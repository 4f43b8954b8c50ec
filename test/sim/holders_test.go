// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// take makes a process acquire a record, as a job does.
func (c *Cluster) take(i int, key string) {
	c.Commit(i, message.RecordRequest{
		Conditions: []message.Condition{{Key: key}},
		Changes:    []message.Change{{Key: key, Owned: true}},
	})
}

// owned makes a process that does not lead acquire the record k. It also returns the third
// process.
func owned(t *testing.T, c *Cluster) (leader, owner, other int) {
	t.Helper()
	leader = c.Leader()
	owner, other = (leader+1)%c.setup.Size, (leader+2)%c.setup.Size
	c.take(owner, "k")
	if !c.RunUntil(c.setup.Timings.HeartbeatTimeout, func() bool {
		return !c.Holds(owner, "k").IsZero()
	}) {
		t.Fatalf("n%d never owns the record%s", owner+1, c.Describe())
	}
	return leader, owner, other
}

// taken checks that another process has acquired the record. Otherwise the test proves nothing, and
// fails.
func taken(t *testing.T, c *Cluster, by int) {
	t.Helper()
	sound(t, c)
	if c.Holds(by, "k").IsZero() {
		t.Fatalf("no process acquires the record, so the test proves nothing%s", c.Describe())
	}
}

// TestALeaderWithoutAuthorityExtendsNoRecord tests protocol.md section 10. A leader and the owner
// of a record are cut off together. The leader keeps answering the owner until it steps down.
// Meanwhile the others elect a leader and acquire the record.
func TestALeaderWithoutAuthorityExtendsNoRecord(t *testing.T) {
	c := formed(t, steady(5))
	tm := c.setup.Timings
	leader, owner, other := owned(t, c)
	for i := range 5 {
		if i != leader && i != owner {
			c.Cut(i, leader)
			c.Cut(i, owner)
		}
	}
	for range 60 {
		c.RunFor(tm.LeaderTimeout / 10)
		if c.Holds(other, "k").IsZero() {
			c.take(other, "k")
		}
	}
	taken(t, c, other)
}

// TestAMemberThatLeavesStopsTrusting tests protocol.md section 10. The owner of a record announces
// that it leaves. Another process then acquires the record, but the owner does not learn of it.
func TestAMemberThatLeavesStopsTrusting(t *testing.T) {
	c := formed(t, steady(3))
	tm := c.setup.Timings
	leader, owner, other := owned(t, c)
	c.CutOneWay(leader, owner)
	c.Leave(owner)
	for range 10 {
		c.RunFor(tm.HeartbeatInterval / 2)
		if c.Holds(other, "k").IsZero() {
			c.take(other, "k")
		}
	}
	taken(t, c, other)
}

// late makes a process drop a record and acquire it again, and then delivers a second copy of the
// drop. The copy must have no effect. Otherwise the record would be free while its owner trusts it.
func late(t *testing.T, between func(c *Cluster, leader, owner int)) {
	t.Helper()
	var copied item
	s := steady(3)
	s.Record = func(r Record) {
		if b, ok := r.Message.Body.(message.RecordRequest); ok && r.Kind == Sent && b.Changes[0].Drop {
			copied.msg = r.Message
		}
	}
	c := formed(t, s)
	tm := c.setup.Timings
	leader := c.Leader()
	owner, other := (leader+1)%3, (leader+2)%3
	owns := func() bool { return !c.Holds(owner, "k").IsZero() }
	take := func() {
		t.Helper()
		c.take(owner, "k")
		if !c.RunUntil(tm.HeartbeatTimeout, owns) {
			t.Fatalf("n%d does not own the record%s", owner+1, c.Describe())
		}
	}
	take()
	c.Commit(owner, message.RecordRequest{Changes: []message.Change{{Key: "k", Drop: true}}})
	c.RunFor(tm.HeartbeatInterval)
	take()
	between(c, leader, owner)
	copied.from, copied.to = owner, leader
	copied.conn = c.net.linkOf(owner, leader).conn
	c.queue.push(c.now, copied)
	c.CutOneWay(leader, owner)
	c.RunFor(tm.HeartbeatInterval / 10)
	c.take(other, "k")
	c.RunFor(tm.HeartbeatInterval / 2)
	sound(t, c)
	if !owns() {
		t.Fatalf("n%d lost the record, so the test proves nothing%s", owner+1, c.Describe())
	}
}

// TestARequestIsTakenOnce tests protocol.md section 10: a copy of a request has no effect.
func TestARequestIsTakenOnce(t *testing.T) { late(t, func(*Cluster, int, int) {}) }

// TestARequestIsOfOneLeadership tests protocol.md section 10. The leader receives a copy of a
// request when it leads a later version and no longer has a list of earlier requests.
func TestARequestIsOfOneLeadership(t *testing.T) {
	late(t, func(c *Cluster, leader, owner int) {
		for _, to := range []int{owner, leader} {
			if err := c.Transfer(c.Leader(), to); err != nil {
				t.Fatal(err)
			}
			if !c.RunUntil(10*time.Second, func() bool { return c.Leader() == to && c.Settled() }) {
				t.Fatalf("leadership was not handed over%s", c.Describe())
			}
		}
	})
}

// TestAMemberThatLostItsSeatTrustsNothing tests protocol.md section 10. A member is cut off until
// another process has its seat and its record. It returns in the same run with its old state, and
// receives an answer before it learns the current state.
func TestAMemberThatLostItsSeatTrustsNothing(t *testing.T) {
	s := steady(3)
	s.Processes = 4
	c := formed(t, s)
	ttl := c.setup.Timings.TTLTimeout
	leader, owner, other := owned(t, c)
	c.Isolate(owner)
	if !c.RunUntil(2*ttl, func() bool { return c.is(leader, 3, member.Active) }) {
		t.Fatalf("no process gets the seat%s", c.Describe())
	}
	c.take(other, "k")
	c.RunFor(c.setup.Timings.HeartbeatInterval)
	c.Crash(3)
	if !c.RunUntil(2*ttl, func() bool { return c.is(leader, 3, member.Removed) }) {
		t.Fatalf("the seat is never free%s", c.Describe())
	}
	c.Lose = func(_, to int, k message.Kind) bool {
		return to == owner && k == message.KindClusterAlignment
	}
	c.Heal()
	c.RunFor(5 * c.setup.Timings.LeaderTimeout)
	taken(t, c, other)
	if !c.is(leader, owner, member.Active) {
		t.Fatalf("it never returned%s", c.Describe())
	}
}

// is reports whether a leader shows a member with the given status.
func (c *Cluster) is(leader, i int, s member.Status) bool {
	m, ok := c.View(leader).Member(c.Address(i))
	return ok && m.Status == s
}

// TestAMemberThatGetsItsPlaceBackIsWaitedFor tests protocol.md section 10. A second process at the
// address of an owner, with another store, gets the owner's seat once the owner has been silent for
// HeartbeatTimeout, and leaves before it has a vote. A late copy of the owner's request to join
// then restores the seat. The owner is not notified, and trusts its record.
func TestAMemberThatGetsItsPlaceBackIsWaitedFor(t *testing.T) {
	var join item
	s := steady(3)
	s.Twins = []int{0, 1, 2}
	s.Record = func(r Record) {
		if r.Kind == Sent && r.Message.Body.Kind() == message.KindJoinClusterRequest {
			join = item{msg: r.Message, from: r.Process}
		}
	}
	c := NewCluster(s)
	for _, i := range []int{2, 1, 0} { // two form the cluster, and the third joins
		c.Start(i)
		c.RunFor(3 * s.Timings.RetryInterval)
	}
	leader, owner, other := owned(t, c)
	late, twin, interval := join, len(c.procs)/2+owner, s.Timings.HeartbeatInterval
	c.Lose = func(from, to int, k message.Kind) bool {
		return from == owner || to == owner || to == twin && k == message.KindClusterAlignment
	}
	c.dialed[leader*len(c.procs)+owner] = 1 + twin
	c.Start(twin)
	replaced := func() bool { return c.is(leader, owner, member.Joining) }
	if c.RunUntil(s.Timings.HeartbeatTimeout-interval, replaced) ||
		!c.RunUntil(3*interval, replaced) {
		t.Fatalf("want the seat for the other store after HeartbeatTimeout%s", c.Describe())
	}
	c.RunFor(interval / 4)
	c.Leave(twin)
	c.RunFor(interval / 4)
	c.dialed[leader*len(c.procs)+owner] = 1 + owner // the leader reaches the owner again
	late.to, late.conn = leader, c.net.linkOf(owner, leader).conn
	c.queue.push(c.now, late)
	for range 100 {
		c.RunFor(interval / 4)
		if c.Holds(other, "k").IsZero() {
			c.take(other, "k")
		}
	}
	if late.from != owner {
		t.Fatalf("n%d joined last, want n%d", late.from+1, owner+1)
	}
	taken(t, c, other)
}

// TestALeaderInBetweenExtended tests protocol.md section 10. A member follows a leader that owns a
// record. The member is cut off while a later leader extends the owner's hold. The member then
// leads with the state of the later leader. It must wait for the owner as long as any leader would.
func TestALeaderInBetweenExtended(t *testing.T) {
	s := steady(5)
	s.Timings.HeartbeatInterval /= 5 // no message is very late
	c := formed(t, s)
	tm := c.setup.Timings
	_, owner, next := owned(t, c)
	between, drained := (owner+2)%5, []int{(owner + 3) % 5, (owner + 4) % 5}
	hand := func(to int) {
		t.Helper()
		if err := c.Transfer(c.Leader(), to); err != nil {
			t.Fatal(err)
		}
		if !c.RunUntil(tm.LeaderTimeout, func() bool { return c.Leader() == to }) {
			t.Fatalf("leadership was not handed over%s", c.Describe())
		}
	}
	hand(owner)
	c.RunFor(2 * tm.LeaderTimeout)
	c.Isolate(next)
	hand(between)
	for _, i := range drained {
		c.Drain(i)
	}
	c.RunFor(2 * tm.LeaderTimeout)
	for _, i := range drained {
		c.Mend(i, next)
		c.Cut(i, owner)
		c.Cut(i, between)
	}
	for range 60 {
		c.RunFor(tm.LeaderTimeout / 10)
		if c.Leader() == next && c.Holds(next, "k").IsZero() {
			c.take(next, "k")
		}
	}
	taken(t, c, next)
}

// TestASilentOwnerKeepsItsRecordForAllOfHoldTimeout tests protocol.md section 10. The owner has the
// slowest clock and its leader the fastest. The owner is mute and trusts its record for nine tenths
// of HoldTimeout. So the leader must not drop the record even one interval before HoldTimeout.
func TestASilentOwnerKeepsItsRecordForAllOfHoldTimeout(t *testing.T) {
	s := steady(3)
	s.Slow = []int{0}
	c := formed(t, s)
	tm := c.setup.Timings
	leader, owner, other := owned(t, c)
	if owner != s.Slow[0] {
		t.Fatalf("n%d owns the record, want n%d", owner+1, s.Slow[0]+1)
	}
	c.RunFor(4 * tm.HeartbeatInterval)
	c.CutOneWay(owner, leader)
	c.CutOneWay(owner, other)
	dropped := func() bool {
		_, there := c.Records(other).Find("k")
		return !there
	}
	if !c.RunUntil(2*tm.HoldTimeout(), dropped) {
		t.Fatalf("the record is not dropped%s", c.Describe())
	}
	c.take(other, "k")
	c.RunFor(2 * tm.HeartbeatInterval)
	taken(t, c, other)
}
