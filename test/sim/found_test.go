// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// The simulator found these runs, and each failed once. They were then shrunk by hand.

// TestRejectedNodeWaits is a run with a provisional leader that holds no state. The leader must
// reject a node that holds a state. The two nodes used to send messages to each other at network
// speed.
func TestRejectedNodeWaits(t *testing.T) {
	c := NewCluster(steady(3))
	c.Split(0)
	for i := range 3 {
		c.Start(i)
	}
	c.RunFor(2 * fast().TTLTimeout) // 1 and 2 found a cluster; 0 declares itself a provisional leader
	if got := c.View(0).Role; got != member.Provisional {
		t.Fatalf("a seed alone is %v, want %v%s", got, member.Provisional, c.Describe())
	}
	c.Heal()
	c.Cut(1, 2)
	c.Cut(2, 0)
	before := c.Messages().Sent
	c.RunFor(time.Minute)
	if sent := c.Messages().Sent - before; sent > 3000 {
		t.Errorf("%d messages in a minute between three nodes", sent)
	}
	sound(t, c)
}

// TestNodeThatLeftIsNotElected checks a cluster of one node. The node used to elect itself again in
// the step in which it left.
func TestNodeThatLeftIsNotElected(t *testing.T) {
	c := formed(t, steady(1))
	version := c.Durable(0).Held.Version
	c.Leave(0)
	if stopped := c.Stopped(); len(stopped) != 1 || !errors.Is(stopped[0].Err, statemachine.ErrLeft) {
		t.Fatalf("stopped: %v, want process 0 with %v", stopped, statemachine.ErrLeft)
	}
	if got := c.Durable(0).Held.Version; got != version {
		t.Errorf("it left with version %d, before it had %d", got, version)
	}
	sound(t, c)
}

// TestDrainedNodesDoNotHandOverToEachOther checks two drained nodes. They used to hand over to each
// other forever, twenty times a second.
func TestDrainedNodesDoNotHandOverToEachOther(t *testing.T) {
	c := formed(t, steady(3))
	for i := range 3 {
		c.Drain(i)
	}
	c.RunFor(time.Minute)
	for i := range 3 {
		if got := c.Durable(i).Held.Version; got > 5 {
			t.Errorf("%v is at version %d a minute after all were drained", c.Address(i), got)
		}
	}
	sound(t, c)
}

// TestLostRosterInMemoryStartsOver checks that a cluster that lost its memory stores starts over. A
// restarted voter used to adopt a state in which it had no vote, and was then not counted as lost.
func TestLostRosterInMemoryStartsOver(t *testing.T) {
	for size := 2; size <= MaxSize; size++ {
		s := steady(size)
		for i := range size {
			s.Volatile = append(s.Volatile, i)
		}
		c := formed(t, s)
		for i := range size - size/2 { // fewer than M remain
			c.Restart(i)
		}
		if !c.RunUntil(4*fast().TTLTimeout, c.Settled) {
			t.Errorf("N=%d: no leader after a roster was lost: %v%s", size, c.Violation(), c.Describe())
		}
		if got := c.Durable(c.Processes() - 1).Incarnation; size > 2 && got < 2 {
			t.Errorf("N=%d: the last process is still in run %d, want a new one", size, got)
		}
	}
}

// TestLostRosterOnDiskWaits checks that nodes with durable stores never discard their
// roster. An operator decides.
func TestLostRosterOnDiskWaits(t *testing.T) {
	c := formed(t, steady(3))
	version := c.Durable(2).Held.Version
	for i := range 2 {
		c.Crash(i)
		c.LoseDisk(i)
		c.Start(i)
	}
	c.RunFor(fast().LeaseTimeout)
	if c.RunUntil(10*fast().TTLTimeout, func() bool { return c.Leader() >= 0 }) {
		t.Errorf("%v has authority by the vote of one of three", c.Address(c.Leader()))
	}
	if got := c.Durable(2).Held.Version; got != version {
		t.Errorf("the remaining one holds version %d after %d", got, version)
	}
	sound(t, c)
}

// TestOlderRunStopsForALaterOne checks that the older of two processes at one address stops. After
// the newer process had crashed, the older one used to request a seat forever.
func TestOlderRunStopsForALaterOne(t *testing.T) {
	s := steady(3)
	s.Twins = []int{1}
	c := NewCluster(s)
	for i := range 3 {
		c.Start(i)
	}
	c.RunUntil(time.Minute, c.Settled)
	c.Isolate(1)
	c.Start(3)
	if !c.RunUntil(time.Minute, func() bool { return c.Up(3) && c.View(3).Quorate }) {
		t.Fatalf("the twin has no seat%s", c.Describe())
	}
	c.RunFor(10 * time.Second)
	c.Crash(3)
	c.Heal()
	if !c.RunUntil(time.Minute, func() bool { return len(c.Stopped()) > 0 }) {
		t.Fatalf("the older run neither stopped nor joined%s", c.Describe())
	}
	if got := c.Stopped()[0]; got.Process != 1 || !errors.Is(got.Err, statemachine.ErrAddressInUse) {
		t.Errorf("stopped: %+v, want process 1 with %v", got, statemachine.ErrAddressInUse)
	}
	c.Start(1)
	if !c.RunUntil(time.Minute, c.Settled) {
		t.Errorf("started again, it is not active%s", c.Describe())
	}
	sound(t, c)
}

// TestSeatIsKeptWhileTheLeaseNeedsIt is a run in which one member left, another had just returned,
// and a third process waited for a seat. The leader used to give the seat away, and thereby lost
// its lease.
func TestSeatIsKeptWhileTheLeaseNeedsIt(t *testing.T) {
	s := steady(3)
	s.Processes = 4
	c := NewCluster(s)
	for i := range 3 {
		c.Start(i)
	}
	c.RunUntil(time.Minute, c.Settled)
	c.Start(3)
	leader := c.Leader()
	away, leaves := (leader+1)%3, (leader+2)%3
	c.Isolate(away)
	c.RunFor(12 * time.Second)
	c.Leave(leaves)
	c.RunFor(10 * time.Millisecond)
	c.Heal()
	placed := func() bool { return c.Settled() && c.View(3).Role == member.Following }
	if !c.RunUntil(time.Minute, func() bool { return c.Leader() != leader || placed() }) {
		t.Errorf("the waiting process has no seat%s", c.Describe())
	}
	if c.Leader() != leader {
		t.Errorf("L3 at %v: the leader lost its lease with the seat%s", c.Now(), c.Describe())
	}
	sound(t, c)
}

// TestEmptySeedsDoNotFoundBesideAHeldState loses the stores of two of three seeds, which start
// without JoinOnly, while the third one runs and holds the state. The two used to found a second
// cluster after TTLTimeout, whose tokens started again at 1.
func TestEmptySeedsDoNotFoundBesideAHeldState(t *testing.T) {
	for name, start := range map[string]func(*Cluster){
		"the holder runs": func(c *Cluster) {
			c.Start(1)
			c.Start(2)
		},
		"the holder returns to a provisional leader": func(c *Cluster) {
			meetProvisional(t, c)
			c.RunFor(2 * fast().RetryInterval)
			c.Start(2)
		},
		"the holder is a provisional leader itself": func(c *Cluster) {
			meetProvisional(t, c)
			c.RunFor(8 * fast().TTLTimeout)
			c.Start(2)
		},
	} {
		c := formed(t, steady(3))
		before := c.Durable(0).Held.Cluster
		for _, i := range []int{1, 2} {
			c.Crash(i)
			c.LoseDisk(i)
			c.procs[i].cfg.JoinOnly = false
		}
		start(c)
		c.RunFor(20 * fast().TTLTimeout)
		for i := range 3 {
			if got := c.Durable(i).Held.Cluster; !got.IsZero() && got != before {
				t.Errorf("%s: I11 at %v: node %d is in another cluster, want none%s",
					name, c.Now(), i, c.Describe())
			}
		}
		sound(t, c)
	}
}

// meetProvisional lets process 1, which holds nothing, become a provisional leader before process 0
// returns.
func meetProvisional(t *testing.T, c *Cluster) {
	t.Helper()
	c.Crash(0)
	c.Start(1)
	c.RunFor(2 * fast().TTLTimeout)
	if got := c.View(1).Role; got != member.Provisional {
		t.Fatalf("a seed alone is %v, want %v%s", got, member.Provisional, c.Describe())
	}
	c.Start(0)
}
