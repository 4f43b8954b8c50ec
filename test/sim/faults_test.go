// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// seen returns, for each process, the processes that it sees, including itself.
func seen(order []int, cut []pair) [][]int {
	out := make([][]int, len(order))
	for a := range order {
		for b := range order {
			if a == b || !slices.Contains(cut, pair{a, b}) {
				out[a] = append(out[a], b)
			}
		}
	}
	return out
}

func TestTopologies(t *testing.T) {
	order := []int{3, 1, 4, 0, 2}
	for _, p := range slices.Concat(cutRing(order, 5), cutHub(order), cutBridge(order, 2),
		cutSides(order, 2)) {
		if back := unpackPair(p.packPair()); back != p || !p.inRange(5) {
			t.Errorf("%v is %v after packing", p, back)
		}
	}
	of := seen(order, cutRing(order, 5))
	for i := range of {
		if len(of[i]) != 3 {
			t.Errorf("ring: %d sees %v, want a majority of 5 and no more", i, of[i])
		}
		for j := range i {
			if slices.Equal(of[i], of[j]) {
				t.Errorf("ring: %d and %d see the same majority %v", i, j, of[i])
			}
		}
	}
	of = seen(order, cutHub(order))
	for i := range of {
		if want := []int{i, 3}; i != 3 && (len(of[i]) != 2 || !slices.Contains(of[i], want[1])) {
			t.Errorf("hub: %d sees %v, want itself and the hub 3", i, of[i])
		}
	}
	if of = seen(order, cutBridge(order, 2)); len(of[3]) != 5 || slices.Contains(of[1], 0) {
		t.Errorf("bridge: the bridge sees %v, one side %v", of[3], of[1])
	}
	pairs := oneWay(randomStream(1, streamFaults), cutSides(order, 2), order, 2)
	if len(pairs) != 6 {
		t.Errorf("one way of two and three: %v, want 6 pairs", pairs)
	}
	for _, p := range pairs {
		if slices.Contains(pairs, pair{p.to, p.from}) {
			t.Errorf("one way: %v is cut both ways", p)
		}
	}
}

// TestMajoritiesRingAndHubHaveALeader tests two topologies. In a ring of majorities one leader
// keeps leading. In a hub topology the hub eventually leads.
func TestMajoritiesRingAndHubHaveALeader(t *testing.T) {
	order := []int{0, 1, 2, 3, 4}
	c := formed(t, steady(5))
	c.cutPairs(cutRing(order, 5), 1)
	c.RunFor(2 * fast().TTLTimeout)
	leader, version := c.Leader(), uint64(0)
	if leader < 0 {
		t.Fatalf("no leader in a ring of majorities%s", c.Describe())
	}
	version = c.Authority(leader)
	c.RunFor(2 * fast().TTLTimeout)
	if c.Leader() != leader || c.Authority(leader) != version {
		t.Errorf("the leader of a ring changed%s", c.Describe())
	}
	sound(t, c)

	c = formed(t, steady(5))
	c.cutPairs(cutHub(order), 1)
	if !c.RunUntil(4*fast().LeaderTimeout, func() bool { return c.Leader() == 0 }) {
		t.Errorf("the hub does not lead%s", c.Describe())
	}
	sound(t, c)
}

func TestBrokenConnectionLosesItsTail(t *testing.T) {
	c := formed(t, steady(3))
	c.RunFor(time.Second)
	before := c.Messages()
	leader := c.Leader()
	c.Transfer(leader, -1) // it sends to all, so that messages are in flight
	c.breakConnection(leader, (leader+1)%3, int64(time.Second))
	c.RunFor(100 * time.Millisecond)
	if lost := c.Messages().Broken - before.Broken; lost == 0 {
		t.Error("a connection broke and nothing was lost")
	}
	if !c.RunUntil(20*time.Second, c.Settled) {
		t.Errorf("no leader after a connection broke%s", c.Describe())
	}
	sound(t, c)
}

// TestSuspendedLeaderIsFenced checks that the register refuses the writes of a leader that trusts
// an old lease because its clock had stopped.
func TestSuspendedLeaderIsFenced(t *testing.T) {
	c := formed(t, steady(3))
	old := c.Leader()
	c.Suspend(old)
	c.RunFor(20 * time.Second)
	if l := c.Leader(); l < 0 || l == old {
		t.Fatalf("a suspended leader was not replaced%s", c.Describe())
	}
	before := c.register.fenced
	c.Resume(old, true)
	if c.register.fenced == before {
		t.Error("the register accepted a write of a former leader")
	}
	if !c.RunUntil(20*time.Second, c.Settled) {
		t.Errorf("it did not rejoin%s", c.Describe())
	}
	sound(t, c)
}

func TestRegisterComparesTokens(t *testing.T) {
	c := NewCluster(steady(3))
	a, b := member.Identity{Incarnation: 1}, member.Identity{Incarnation: 2}
	p := c.procs[0]
	for _, w := range []write{{1, a, 1}, {1, a, 2}, {3, b, 3}, {4, a, 4}} {
		c.sendWrite(p, w, false)
	}
	c.sendWrite(p, write{3, b, 5}, true)
	if r := c.register; r.accepted != 4 || r.fenced != 1 || c.Violation() != nil {
		t.Errorf("%d writes accepted and %d refused, %v; want 4 and 1",
			r.accepted, r.fenced, c.Violation())
	}
	for _, w := range []write{{4, b, 6}, {3, b, 7}} {
		c := NewCluster(steady(3))
		c.sendWrite(p, write{4, a, 1}, false)
		c.sendWrite(p, w, false)
		if v := c.Violation(); v == nil || v.Invariant != "register" {
			t.Errorf("%+v after the token 4 of %v: %v, want a violation", w, a, v)
		}
	}
}

// TestMisfitsAreKeptOut checks that a process with another Size, other timings or an incompatible
// protocol is kept out. A process with another list of seeds must not be kept out. Each process
// becomes active when its configuration is fixed.
func TestMisfitsAreKeptOut(t *testing.T) {
	for _, m := range []struct {
		misfit misfit
		out    bool
	}{
		{misfit{size: 5}, true},
		{misfit{lease: 3 * time.Second}, true},
		{misfit{protocol: [2]uint16{2, 3}}, true},
		{misfit{protocol: [2]uint16{1, 2}}, false},
		{misfit{seeds: []member.Address{addressOf(0)}}, false},
	} {
		c := formed(t, steady(3))
		i := (c.Leader() + 1) % 3
		c.Crash(i)
		c.procs[i].misfit = m.misfit
		c.Start(i)
		c.RunFor(20 * time.Second)
		if followed := c.View(i).Quorate; followed == m.out {
			t.Errorf("%+v: follows a quorate leader is %v%s", m.misfit, followed, c.Describe())
		}
		c.procs[i].misfit = misfit{}
		c.Restart(i)
		if !c.RunUntil(20*time.Second, c.Settled) {
			t.Errorf("%+v, reconfigured: not active%s", m.misfit, c.Describe())
		}
		sound(t, c)
	}
}

// TestTornWriteLosesTheStore checks that the process crashes in the step, stays down for a
// while, and restarts with a new store.
func TestTornWriteLosesTheStore(t *testing.T) {
	c := formed(t, steady(3))
	x := newChaos(c, Plan{Setup: c.setup, Faults: TornWrites, Starts: make([]time.Duration, 3)})
	c.Interrupt = x.interruptStep
	i := (c.Leader() + 1) % 3
	before := c.Durable(i)
	f := Fault{Class: TornWrites, Who: i, Lasts: int64(2 * time.Second), Args: []int64{0, 0, 0}}
	x.applyFault(f)
	c.Crash((i + 1) % 3)
	if !c.RunUntil(20*time.Second, func() bool { return !c.Up(i) }) {
		t.Fatalf("%v saved nothing%s", c.Address(i), c.Describe())
	}
	c.RunFor(time.Millisecond)
	if got := c.Durable(i); !got.StoreID.IsZero() || x.counts[TornWrites.bitIndex()] != 1 {
		t.Errorf("after a torn write the store has %v", got)
	}
	c.Start((i + 1) % 3)
	if !c.RunUntil(time.Minute, c.Settled) || c.Durable(i).StoreID == before.StoreID {
		t.Errorf("it did not restart with another store%s", c.Describe())
	}
	for _, s := range c.Stopped() {
		if errors.Is(s.Err, statemachine.ErrSplitVersion) {
			t.Errorf("%+v", s)
		}
	}
	sound(t, c)
}
