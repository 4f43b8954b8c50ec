// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"errors"
	"flag"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// All scenarios use the default timing, which is that of Fabric.
const (
	alive    = 10 * time.Second
	campaign = 5 * time.Second
	sample   = time.Second
)

var members = flag.Int("members", 100, "how many fall apart and heal: 300 take minutes")

// delivery is the time for a message to reach all members with LAN timing: less than ten intervals
// of 200 ms.
const delivery = 2 * time.Second

// Many members have one leader. If the network is partitioned, each half has a leader. After the
// network heals, only the lower of the two leaders leads. Its leadership is not interrupted.
func TestPartition(t *testing.T) {
	size := *members
	half := size / 2
	inWorld(t, size, func(t *testing.T, w *world) {
		all := between(0, size)
		first := w.leads(all)
		w.stays(first, all, time.Minute)

		mine, other := between(0, half), between(half, size)
		if first >= half {
			mine, other = other, mine
		}
		w.net.cut(func(from, to *end) bool { return from.index < half != (to.index < half) })
		second, after := w.one(other, alive+campaign+delivery)
		t.Logf("cut in two: %s leads the other half after %v", name(second), after)
		w.stays(first, mine, 3*time.Minute) // until memberlist stops retrying
		w.until(w.see(all, half), time.Minute)

		w.net.cut(nil)
		met := w.until(func() bool { return len(w.nodes[0].Members()) > half }, time.Minute)
		after = w.until(func() bool { return w.leaders() == 1 }, alive/2+2*delivery)
		stays, known := w.one(all, alive+campaign) // other members ask, and a relay answers
		t.Logf("whole again: they meet after %v, %s leads alone after %v more, and all know after %v "+
			"more", met, name(stays), after, known)
		if stays != min(first, second) {
			t.Errorf("%s leads, want the lower of %s and %s", name(stays), name(first), name(second))
		}
		after = w.until(w.see(all, size), 10*time.Minute)
		t.Logf("all see each other after %v more", after)
		w.stays(stays, all, 30*time.Second)
	})
}

// A single member that was cut off returns, although it and all others have forgotten each other.
func TestOneIsCutOff(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		all := between(0, 20)
		first := w.leads(all)
		lone := (first + 7) % 20
		w.net.cut(func(from, to *end) bool { return from.index == lone != (to.index == lone) })
		_, after := w.one([]int{lone}, alive+campaign)
		t.Logf("%s leads itself after %v", name(lone), after)
		w.until(w.see(without(all, lone), 19), time.Minute)
		w.pause(10 * time.Minute)
		w.net.cut(nil)
		stays, after := w.one(all, 2*DefaultRejoinInterval+10*time.Second+alive/2+2*delivery)
		t.Logf("%s leads all after %v", name(stays), after)
		if stays != min(first, lone) {
			t.Errorf("%s leads, want the lower of %s and %s", name(stays), name(first), name(lone))
		}
	})
}

// If the leader crashes, another member leads within T + D (alive + campaign), plus delivery.
func TestLeaderIsKilled(t *testing.T) {
	inWorld(t, 40, func(t *testing.T, w *world) {
		all := between(0, 40)
		first := w.leads(all)
		w.crash(first)
		next, after := w.one(without(all, first), alive+campaign+delivery)
		t.Logf("%s leads %v after the death of %s", name(next), after, name(first))
		w.stays(next, without(all, first), time.Minute)

		w.start(first) // it has a lower name, but does not lead: its run is later
		w.until(w.see(all, 40), 2*time.Minute)
		w.stays(next, all, time.Minute)
	})
}

// If the leader leaves, the others need not wait for a timeout.
func TestLeaderLeaves(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		all := between(0, 20)
		first := w.leads(all)
		if err := w.nodes[first].Leave(t.Context()); err != nil {
			t.Errorf("Leave: %v", err)
		}
		w.nodes[first] = nil
		next, after := w.one(without(all, first), campaign+2*delivery)
		t.Logf("%s leads %v after %s has left", name(next), after, name(first))
		w.until(w.see(without(all, first), 19), delivery)
	})
}

// If the work of a leader fails, another member leads within D (campaign), plus delivery.
func TestLeaderYields(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		all := between(0, 20)
		first := w.leads(all)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- w.all[first].WhileLeader(ctx, func(context.Context, leader.Term) error {
				return errors.New("no upstream")
			})
		}()
		w.until(func() bool { return !w.all[first].IsLeader() }, delivery)
		next, after := w.one(without(all, first), campaign+2*delivery)
		t.Logf("%s leads %v after %s gave up", name(next), after, name(first))
		w.stays(next, all, time.Minute)
		stop()
		<-done
	})
}

// If the link from the leader to the next lowest member fails in one direction, messages take
// another path. Nothing else changes.
func TestOneWayOfALinkFails(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		all := between(0, 20)
		first := w.leads(all)
		next := (first + 1) % 20
		w.net.cut(func(from, to *end) bool { return from.index == first && to.index == next })
		w.stays(first, all, 5*time.Minute)
	})
}

// Half of the members receive nothing from the other half, but the other half receives their
// messages. There are one or two leaders, except while a leader that lost its members is replaced.
// Soon after the fault ends, there is only one leader.
func TestOneWayOfHalfTheLinksFails(t *testing.T) {
	inWorld(t, 20, func(t *testing.T, w *world) {
		all := between(0, 20)
		w.net.cut(func(from, to *end) bool { return from.index < 10 && to.index >= 10 })
		w.pause(alive + campaign + delivery)
		gaps := 0
		for range 300 {
			w.pause(time.Second)
			if w.leaders() == 0 || w.leaders() > 2 {
				gaps++
			}
		}
		if gaps > int((alive+campaign+delivery)/time.Second) {
			t.Errorf("%d s of 300 without a leader, or with more than two: %v", gaps, w)
		}
		w.net.cut(nil)
		_, after := w.one(all, time.Minute)
		t.Logf("one leader %v after that", after)
	})
}

// If many members start together while another member leads, that member keeps leading, and all new
// members learn of it.
func TestManyComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 50)
		w.seeds = []int{25, 26, 27}
		old, all := between(25, 50), between(0, 50)
		w.startThese(old)
		first, _ := w.one(old, time.Minute)
		w.until(w.see(old, 25), 5*time.Minute)
		w.pause(alive)
		w.startThese(between(0, 25))
		began := time.Now()
		for w.leads(all) != first {
			if w.leaders() != 1 {
				t.Fatalf("%v", w)
			}
			if time.Since(began) > campaign+delivery {
				t.Fatalf("after %v: %v", time.Since(began), w)
			}
			w.pause(10 * time.Millisecond)
		}
		t.Logf("25 that come know %s after %v", name(first), time.Since(began))
		w.stays(first, all, time.Minute)
	})
}

// The leader of a group is a member that has opened it, and closing the group affects no other
// group.
func TestGroupsAreIndependent(t *testing.T) {
	inWorld(t, 12, func(t *testing.T, w *world) {
		all, some := between(0, 12), between(3, 12)
		first := w.leads(all)
		others := fleet{w.nodes, slices.Clone(w.all)}
		for _, i := range some {
			others.open(t, i, "other")
		}
		w.until(func() bool { return others.leads(some) >= 0 }, sample+campaign+delivery)
		second := others.leads(some)
		t.Logf("%s leads one group, and %s the other", name(first), name(second))
		if _, err := w.nodes[second].Open("other", byLowest()); !errors.Is(err, election.ErrGroupInUse) {
			t.Errorf("a second Open: %v", err)
		}
		if err := others.all[second].Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		rest := without(some, second)
		w.until(func() bool { return others.leads(rest) >= 0 }, campaign+2*delivery)
		w.stays(first, all, time.Minute)
		others.open(t, second, "other") // the name is free
		w.until(func() bool { return others.leads(some) >= 0 }, delivery+sample+campaign)
	})
}

// Close ends the Candidates of a node, and Open fails afterwards.
func TestClose(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		n, e := w.nodes[0], w.all[0]
		for range 2 {
			if err := n.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if err := n.Leave(t.Context()); err != nil {
			t.Errorf("Leave after Close: %v", err)
		}
		if err := e.WhileLeader(t.Context(), nil); !errors.Is(err, leader.ErrClosed) {
			t.Errorf("WhileLeader: %v", err)
		}
		if _, err := n.Open("late", byLowest()); !errors.Is(err, leader.ErrClosed) {
			t.Errorf("Open: %v", err)
		}
	})
}

// Open accepts only Lowest.
func TestOpenWantsLowest(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, o := range []election.Options{
			{}, {Strategy: election.Quorum}, {Strategy: election.Static},
			{Strategy: election.Lowest, RetryFor: -1},
		} {
			if _, err := w.nodes[0].Open("other", o); err == nil {
				t.Errorf("%+v: no error", o)
			}
		}
		if _, err := w.nodes[0].Open("", byLowest()); err == nil {
			t.Error("a group without a name was opened")
		}
	})
}
