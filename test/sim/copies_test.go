// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// These tests restore stores from earlier copies (protocol.md section 3).

// findings counts the processes that made a decision of the given kind.
func findings(c *Cluster, kind statemachine.TraceKind) map[int]int {
	by := map[int]int{}
	c.onTrace = func(p int, t statemachine.Trace) {
		if t.Kind == kind {
			by[p]++
		}
	}
	return by
}

// TestRestoredMinorityVotesForNothing restores stores of a minority from copies that lack versions.
// Copies from an earlier run are found by the roster. If the copy is from the last run, a leader is
// found by its followers, and a follower by its leader.
func TestRestoredMinorityVotesForNothing(t *testing.T) {
	for _, size := range []int{3, 5} {
		all := make([]int, size)
		for i := range all {
			all[i] = i
		}
		restoreMinority(t, size, true, func(int) []int { return all })
		restoreMinority(t, size, false, func(leader int) []int { return []int{leader} })
		restoreMinority(t, size, false, func(leader int) []int {
			return slices.Delete(slices.Clone(all), leader, leader+1)
		})
	}
}

// restoreMinority copies all stores, and restores a minority of those that choose returns after
// four changes of the leader. If reruns is set, all processes begin another run in between.
func restoreMinority(t *testing.T, size int, reruns bool, choose func(leader int) []int) {
	t.Helper()
	c := formed(t, steady(size))
	found := findings(c, statemachine.FoundCopy)
	for i := range size {
		c.CopyDisk(i)
	}
	for i := 0; reruns && i < size; i++ {
		c.Restart(i)
		c.RunUntil(fast().TTLTimeout, c.Settled)
	}
	for range 4 {
		changeLeader(t, c)
	}
	chosen := choose(c.Leader())
	chosen = chosen[:min(len(chosen), size-size/2-1)]
	old := map[int]member.StoreID{}
	for _, i := range chosen {
		old[i] = c.Durable(i).StoreID
		c.Crash(i)
		c.RestoreDisk(i)
		c.Start(i)
	}
	if !c.RunUntil(2*fast().TTLTimeout, c.Settled) {
		t.Fatalf("size %d: not all members are active again: %v%s", size, c.Violation(), c.Describe())
	}
	c.RunFor(4 * fast().LeaderTimeout)
	sound(t, c)
	for _, i := range chosen {
		if old[i] == c.Durable(i).StoreID || found[i] != 1 {
			t.Errorf("size %d: n%d still has the restored store%s", size, i+1, c.Describe())
		}
	}
	if c.check.void != "" || len(found) <= len(chosen) {
		t.Errorf("size %d: found by %v, %s", size, found, c.check.void)
	}
}

// changeLeader hands leadership over.
func changeLeader(t *testing.T, c *Cluster) {
	t.Helper()
	version := c.Authority(c.Leader())
	_ = c.Transfer(c.Leader(), -1)
	if !c.RunUntil(fast().TTLTimeout, func() bool {
		return c.Leader() >= 0 && c.Authority(c.Leader()) > version && c.Settled()
	}) {
		t.Fatalf("no process leads again%s", c.Describe())
	}
}

// TestRestoredMajorityIsReported restores the stores of a majority while the last member that
// remembers is down. Tokens are used twice. When that member returns, all report it, and the leader
// gets a version above its own.
func TestRestoredMajorityIsReported(t *testing.T) {
	c := formed(t, steady(3))
	for i := range 3 {
		c.CopyDisk(i)
	}
	for range 4 {
		changeLeader(t, c)
	}
	survivor := c.Leader()
	version := c.Authority(survivor)
	c.Crash(survivor)
	for i := range 3 {
		if i != survivor {
			c.Crash(i)
			c.RestoreDisk(i)
			c.Start(i)
		}
	}
	if !c.RunUntil(fast().TTLTimeout, func() bool { return c.Leader() >= 0 }) {
		t.Fatalf("no leader%s", c.Describe())
	}
	if again := c.Authority(c.Leader()); again > version {
		t.Fatalf("version %d after %d, so the test proves nothing", again, version)
	}
	found := findings(c, statemachine.FoundLater)
	c.Start(survivor)
	if !c.RunUntil(2*fast().TTLTimeout, func() bool { return len(found) == 3 && c.Settled() }) {
		t.Errorf("reported by %v: %v%s", found, c.Violation(), c.Describe())
	}
	if got := c.Authority(c.Leader()); got <= version {
		t.Errorf("the leader has version %d, want more than %d", got, version)
	}
	if slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return found[i] > 1 }) {
		t.Errorf("reported %v times", found)
	}
}

// TestForgottenVotes checks what a copy may lack so that its votes are those of another voter.
func TestForgottenVotes(t *testing.T) {
	voter := member.Voter{}
	id := func(version uint64) paxos.ID { return paxos.ID{Version: version} }
	k := &checker{voters: map[member.Voter]*storeHistory{
		voter: {granted: id(6), accepted: id(6), promised: id(7), held: member.Number{Version: 5}},
	}}
	store := func(held, promised, accepted uint64) (d paxos.Durable) {
		d.Held.Number, d.Promised, d.Accepted.ID =
			member.Number{Version: held}, id(promised), id(accepted)
		return d
	}
	for _, c := range []struct {
		store paxos.Durable
		want  bool
	}{
		{store(5, 7, 6), false},
		{store(4, 7, 6), true}, // a state
		{store(5, 6, 6), true}, // a promise
		{store(5, 7, 5), true}, // a vote, although it remembers the promise before it
		{store(6, 7, 5), false},
		{store(7, 0, 0), false},
	} {
		if got := k.hasForgotten(voter, c.store); got != c.want {
			t.Errorf("%+v: got %t, want %t", c.store, got, c.want)
		}
	}
}
