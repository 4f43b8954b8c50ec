// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/athena-go/athena/message"
)

// This file holds planned hand-overs: how long they take, and to which member they go.

// handsOver tells the leader to hand over and returns the next one, and after how long it
// has authority.
func handsOver(t *testing.T, c *Cluster, to int) (next int, took time.Duration) {
	t.Helper()
	old, start := c.Leader(), c.Now()
	if err := c.Transfer(old, to); err != nil {
		t.Fatalf("n%d refuses to hand over: %v%s", old+1, err, c.Describe())
	}
	moved := func() bool { return c.Leader() >= 0 && c.Leader() != old }
	if !c.RunUntil(2*c.setup.Timings.LeaderTimeout, moved) {
		t.Fatalf("no leader %v after n%d handed over%s", c.Now()-start, old+1, c.Describe())
	}
	sound(t, c)
	return c.Leader(), c.Now() - start
}

// TestHandOverAfterRestarts: protocol.md section 5, restart. Voters that were restarted
// wait for the lease of their leader, and that leader hands over: nothing is left to wait
// for.
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
		t.Errorf("another leads after %v, want a few round trips of 2 ms", took)
	}
}

// TestHandOverBackAfterARestart: a leader that was itself restarted, and did not hear that
// the leader before it gave up, hands over in its turn. Its own vote must not wait.
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
		t.Errorf("another leads after %v, want a few round trips of 2 ms", took)
	}
}
