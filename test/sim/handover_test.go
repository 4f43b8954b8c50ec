// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// These tests check planned hand-overs and drained nodes.

// handsOver transfers leadership and returns the next leader and the time until it has authority.
func handsOver(t *testing.T, c *Cluster, to int) (next int, took time.Duration) {
	t.Helper()
	old, start := c.Leader(), c.Now()
	if err := c.Transfer(old, to); err != nil {
		t.Fatalf("n%d refused to hand over: %v%s", old+1, err, c.Describe())
	}
	moved := func() bool { return c.Leader() >= 0 && c.Leader() != old }
	if !c.RunUntil(2*c.setup.Timings.LeaderTimeout, moved) {
		t.Fatalf("no leader %v after n%d handed over%s", c.Now()-start, old+1, c.Describe())
	}
	sound(t, c)
	return c.Leader(), c.Now() - start
}

// TestHandOverAfterRestarts tests protocol.md section 5 (restart). Restarted voters wait
// for the lease of their leader to end. When that leader hands over, they no longer have to
// wait.
func TestHandOverAfterRestarts(t *testing.T) {
	c := formed(t, steady(3))
	c.RunFor(10 * fast().HeartbeatInterval)
	old := c.Leader()
	for i := range 3 {
		if i != old {
			c.Restart(i)
		}
	}
	if !c.RunUntil(fast().LeaseTimeout/2, c.Settled) {
		t.Fatalf("not all are active%s", c.Describe())
	}
	if _, took := handsOver(t, c, -1); took > 10*time.Millisecond {
		t.Errorf("another leader after %v, want a few round trips of 2 ms", took)
	}
}

// TestHandOverBackAfterARestart checks that a restarted leader can hand over even if it missed the
// MemberLeave of its predecessor. Its own vote must not wait.
func TestHandOverBackAfterARestart(t *testing.T) {
	c := formed(t, steady(3))
	c.RunFor(10 * fast().HeartbeatInterval)
	old := c.Leader()
	next := (old + 1) % 3
	c.Restart(next)
	if !c.RunUntil(fast().LeaseTimeout/4, c.Settled) {
		t.Fatalf("not all are active%s", c.Describe())
	}
	c.Lose = func(_, to int, k message.Kind) bool { return to == next && k == message.KindMemberLeave }
	if got, _ := handsOver(t, c, next); got != next {
		t.Fatalf("n%d leads, want n%d%s", got+1, next+1, c.Describe())
	}
	if !c.RunUntil(fast().LeaseTimeout/4, c.Settled) {
		t.Fatalf("not all follow n%d%s", next+1, c.Describe())
	}
	if _, took := handsOver(t, c, old); took > 10*time.Millisecond {
		t.Errorf("another leader after %v, want a few round trips of 2 ms", took)
	}
}

// TestHandOverWithADeadMember tests protocol.md section 6 (leaving leader). A member has just
// crashed, and the leader has not noticed this. The member must not be elected, even if the
// transfer names it.
func TestHandOverWithADeadMember(t *testing.T) {
	for _, named := range []bool{false, true} {
		c := formed(t, steady(5))
		c.RunFor(10 * fast().HeartbeatInterval)
		old := c.Leader()
		version := c.Authority(old)
		dead := 0 // the first choice of members with equally new states
		if old == 0 {
			dead = 1
		}
		c.Crash(dead)
		c.RunFor(fast().HeartbeatTimeout / 2)
		to, most := -1, 10*time.Millisecond
		if named {
			to, most = dead, most+fast().HeartbeatInterval
		}
		next, took := handsOver(t, c, to)
		if took > most {
			t.Errorf("named %v: another leader after %v, want at most %v", named, took, most)
		}
		if got := c.Authority(next); got != version+1 {
			t.Errorf("named %v: n%d leads version %d after %d", named, next+1, got, version)
		}
	}
}

// TestDrainedMajorityElects tests protocol.md section 6 (drained). A quorum of voters is up and
// connected, but all of them are drained. A drained voter leads until a member that is not drained
// returns.
func TestDrainedMajorityElects(t *testing.T) {
	for size := 3; size <= 6; size++ {
		c := formed(t, steady(size))
		tm := fast()
		old := c.Leader()
		for i := range size {
			if i != old {
				c.Drain(i)
			}
		}
		c.RunFor(tm.HeartbeatInterval)
		c.Crash(old)
		limit := 3*tm.LeaderTimeout + 3*tm.HeartbeatInterval
		if !c.RunUntil(limit, func() bool { return c.Leader() >= 0 && c.Leader() != old }) {
			t.Fatalf("N=%d: no leader %v after the only one that is not drained crashed%s",
				size, limit, c.Describe())
		}
		c.RunFor(tm.TTLTimeout)
		c.Start(old)
		if !c.RunUntil(tm.HeartbeatInterval, func() bool { return c.Leader() == old }) {
			t.Errorf("N=%d: n%d is back, but a drained node still leads%s", size, old+1, c.Describe())
		}
		sound(t, c)
	}
}

// TestHandOverToAMemberThatWaitsAfterItsStart checks that a member with a memory store can
// lead although it does not vote in its first LeaseTimeout.
func TestHandOverToAMemberThatWaitsAfterItsStart(t *testing.T) {
	s := steady(3)
	s.Volatile = []int{0, 1, 2}
	c := formed(t, s)
	c.RunFor(2 * fast().LeaseTimeout)
	next := (c.Leader() + 1) % 3
	c.Restart(next)
	if !c.RunUntil(fast().LeaseTimeout/2, c.Settled) {
		t.Fatalf("not all are active%s", c.Describe())
	}
	if got, took := handsOver(t, c, next); got != next || took > 10*time.Millisecond {
		t.Errorf("n%d leads after %v, want n%d in a few round trips of 2 ms", got+1, took, next+1)
	}
}

// TestAProvisionalLeaderEndsNoHandOver tests protocol.md section 6, leaving leader. The named
// successor has just crashed, so its vote is awaited. Meanwhile the old leader hears a member that
// was cut off until it declared itself provisional, and follows it. Nevertheless it then proposes
// another successor.
func TestAProvisionalLeaderEndsNoHandOver(t *testing.T) {
	c := formed(t, steady(5))
	tm, greatest := c.setup.Timings, 4 // a provisional leader announces itself there first
	if c.Leader() != greatest {
		if err := c.Transfer(c.Leader(), greatest); err != nil {
			t.Fatal(err)
		}
	}
	if !c.RunUntil(tm.LeaderTimeout, func() bool { return c.Leader() == greatest && c.Settled() }) {
		t.Fatalf("n5 does not lead%s", c.Describe())
	}
	c.Isolate(0)
	c.RunFor(tm.LeaderTimeout + (giveUp+1)*tm.TTLTimeout)
	if got := c.View(0).Role; got != member.Provisional {
		t.Fatalf("n1 is %v, want %v%s", got, member.Provisional, c.Describe())
	}
	c.Crash(1)
	c.Mend(0, greatest)
	if err := c.Transfer(greatest, 1); err != nil {
		t.Fatal(err)
	}
	followed := false
	moved := func() bool {
		followed = followed || c.View(greatest).Leader == c.Address(0)
		return c.Leader() >= 0 && c.Leader() != greatest
	}
	if !c.RunUntil(tm.HeartbeatInterval+5*2*c.setup.Link.Delay, moved) {
		t.Errorf("L5 at %v: no other leader after an interval and 5 round trips%s",
			c.Now(), c.Describe())
	}
	if !followed {
		t.Errorf("n5 never followed the provisional leader%s", c.Describe())
	}
	sound(t, c)
}

// TestAStoppedLeaderIsReplaced tests protocol.md section 6 (leaving leader). A leader that stops
// without leaving is replaced long before its followers would miss it.
func TestAStoppedLeaderIsReplaced(t *testing.T) {
	for size := 3; size <= 6; size++ {
		c := formed(t, steady(size))
		c.RunFor(10 * fast().HeartbeatInterval)
		start := c.Now()
		c.Close(c.Leader())
		limit := fast().HeartbeatInterval/20 + 7*2*c.setup.Link.Delay
		if !c.RunUntil(limit, func() bool { return c.Leader() >= 0 }) {
			t.Errorf("L5 at %v: no leader of %d, %v after the last one stopped%s",
				c.Now(), size, c.Now()-start, c.Describe())
		}
		sound(t, c)
	}
}

// TestStoppedLeadersReturn stops one leader after another, and starts each again soon, while clocks
// drift and messages are late and overtake each other.
func TestStoppedLeadersReturn(t *testing.T) {
	for seed := range depth(100) {
		r := randomStream(seed, streamOptions)
		s := steady(3 + r.IntN(3))
		s.Seed, s.Skew = seed, true
		s.Link = Link{Delay: time.Millisecond, Jitter: 10 * time.Millisecond, Unordered: true}
		c := formed(t, s)
		for range 10 {
			if l := c.Leader(); l >= 0 {
				c.Close(l)
				c.RunFor(drawUpTo(r, 2*c.setup.Timings.LeaderTimeout))
				c.Start(l)
			}
			c.RunFor(drawUpTo(r, 2*c.setup.Timings.LeaderTimeout))
		}
		if v := c.Violation(); v != nil {
			t.Fatalf("seed %d: %v%s", seed, v, c.Describe())
		}
	}
}
