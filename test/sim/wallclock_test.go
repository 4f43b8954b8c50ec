// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// TestStoppedLeaderEndsItsAuthority tests protocol.md section 5 (a clock that stood still). A
// leader that was suspended together with its clock trusts its lease until its wall clock is set
// forward. From then on, the leader must trust neither the lease nor its records from before the
// suspension.
func TestStoppedLeaderEndsItsAuthority(t *testing.T) {
	for _, before := range []bool{true, false} {
		c := formed(t, steady(3))
		old := c.Leader()
		c.take(old, "k")
		c.RunFor(time.Second)
		c.Isolate(old)
		c.Suspend(old)
		c.RunFor(20 * time.Second)
		if l := c.Leader(); l < 0 || l == old {
			t.Fatalf("a stopped leader was not replaced%s", c.Describe())
		}
		if before {
			c.SetForward(old)
			c.Resume(old, true)
		} else {
			c.Resume(old, true)
			if c.Authority(old) == 0 || c.Holds(old, "k").IsZero() {
				t.Fatalf("it knows how late it is, so the test proves nothing%s", c.Describe())
			}
			c.SetForward(old)
			c.RunFor(c.setup.Timings.HeartbeatInterval)
		}
		if v, k := c.Authority(old), c.Holds(old, "k"); v != 0 || !k.IsZero() {
			t.Errorf("set before it resumed %v: got authority %d and record %v, want none",
				before, v, k)
		}
		c.Heal()
		if !c.RunUntil(20*time.Second, c.Settled) {
			t.Errorf("it did not rejoin%s", c.Describe())
		}
		sound(t, c)
	}
}

// TestStepOfTheWallClockCostsALeaderAnInterval checks a leader whose wall clock is set forward. It
// must be quorate again, in the same version, when followers have echoed its new stamps.
func TestStepOfTheWallClockCostsALeaderAnInterval(t *testing.T) {
	c := formed(t, steady(3))
	leader := c.Leader()
	version := c.Authority(leader)
	c.RunFor(time.Minute) // a leader without a lease would stop leading in this time
	c.SetForward(leader)
	lost := func() bool { return c.Authority(leader) == 0 }
	interval := c.setup.Timings.HeartbeatInterval
	if !c.RunUntil(interval, lost) {
		t.Fatalf("it kept its authority%s", c.Describe())
	}
	if !c.RunUntil(interval+10*time.Millisecond, func() bool { return !lost() }) {
		t.Errorf("no authority again within an interval%s", c.Describe())
	}
	if got := c.Authority(leader); got != version {
		t.Errorf("got authority for version %d, want %d", got, version)
	}
	sound(t, c)
}

// TestStoppedOwnerEndsItsTrust is like TestStoppedLeaderEndsItsAuthority, but for the owner of a
// record. Another process acquires the record meanwhile. The checkers require that the old owner no
// longer trusts the record.
func TestStoppedOwnerEndsItsTrust(t *testing.T) {
	c := formed(t, steady(3))
	_, owner, other := owned(t, c)
	c.Isolate(owner)
	c.Suspend(owner)
	c.RunFor(2 * c.setup.Timings.HoldTimeout())
	c.take(other, "k")
	c.RunFor(c.setup.Timings.HeartbeatInterval)
	c.Resume(owner, true)
	if c.Holds(owner, "k").IsZero() {
		t.Fatalf("it knows how late it is, so the test proves nothing%s", c.Describe())
	}
	c.SetForward(owner)
	c.RunFor(2 * c.setup.Timings.HeartbeatInterval)
	if got := c.Holds(owner, "k"); got != (member.Token{}) {
		t.Errorf("got the record by %v, want no trust in it", got)
	}
	taken(t, c, other)
}

// TestSupportOutlastsAStepOfTheWallClock checks that a voter keeps its promise when its wall clock
// is set forward. All messages from and to the leader are lost, and its host refuses connections.
// So its voters suspect it immediately.
func TestSupportOutlastsAStepOfTheWallClock(t *testing.T) {
	c := formed(t, steady(3))
	leader := c.Leader()
	c.setup.Rejects = []int{leader}
	c.Lose = func(from, to int, _ message.Kind) bool { return from == leader || to == leader }
	c.RunFor(10 * time.Millisecond) // messages in flight have arrived
	for i := range 3 {
		if i != leader {
			c.SetForward(i)
		}
	}
	c.RunUntil(20*time.Second, func() bool { return c.Leader() >= 0 && c.Leader() != leader })
	sound(t, c)
	if l := c.Leader(); l < 0 || l == leader {
		t.Fatalf("no other leader, so the test proves nothing%s", c.Describe())
	}
}
