// SPDX-License-Identifier: Apache-2.0

package test

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/test/sim"
)

// These tests show, with the core and the codec, what the original got wrong and what happens here.
// stack_test.go repeats each case with the whole stack, and adds the cases that do not depend on
// the core: more than N nodes, one survivor of three, a restart of all nodes, a slow handler, and a
// port in use. The tests here are cheap and strict. They use many seeds, and check the invariants
// of protocol.md section 11 after every step. Their time limits do not include time for connecting.
// Each test fails if two nodes ever have authority simultaneously.

// lan returns the LAN profile of protocol.md section 1.
func lan() message.Timings {
	return message.Timings{
		HeartbeatInterval: 100 * time.Millisecond,
		HeartbeatTimeout:  400 * time.Millisecond,
		LeaderTimeout:     time.Second,
		LeaseTimeout:      700 * time.Millisecond,
		TTLTimeout:        10 * time.Second,
		RetryInterval:     500 * time.Millisecond,
	}
}

// roundTrip is the round trip time in the network of these tests.
const roundTrip = 2 * time.Millisecond

// simulated returns a cluster whose lease is as long as the leader timeout, as in the stories.
func simulated(seed uint64, size int) sim.Setup {
	timings := lan()
	timings.LeaseTimeout = timings.LeaderTimeout
	return sim.Setup{
		Seed: seed, Size: size, Timings: timings, Codec: true,
		Link: sim.Link{Delay: roundTrip / 2, Jitter: roundTrip / 10},
	}
}

// formed starts all processes, waits until they form a cluster, and lets it rest for a second.
func formed(t *testing.T, s sim.Setup) *sim.Cluster {
	t.Helper()
	c := sim.NewCluster(s)
	for i := range c.Processes() {
		c.Start(i)
	}
	within(t, c, 10*time.Second, "one cluster", c.Settled)
	c.RunFor(time.Second)
	return c
}

// within lets time pass until cond is true, and returns how long that took.
func within(
	t *testing.T, c *sim.Cluster, limit time.Duration, what string, cond func() bool,
) time.Duration {
	t.Helper()
	from := c.Now()
	if !c.RunUntil(limit, cond) {
		t.Fatalf("no %[2]s within %[1]v%[3]s\n%[4]v", limit, what, c.Describe(), c.Violation())
	}
	return c.Now() - from
}

// sound fails the test if an invariant was violated.
func sound(t *testing.T, c *sim.Cluster) {
	t.Helper()
	if v := c.Violation(); v != nil {
		t.Fatalf("%v%s", v, c.Describe())
	}
}

// another reports whether a node other than the given one has authority.
func another(c *sim.Cluster, old int) func() bool {
	return func() bool { return c.Leader() >= 0 && c.Leader() != old }
}

// A host that disappears does not close connections, and nothing refuses its port. The original
// needs 296 s to replace a leader on such a host. Here a new leader replaces it within
// LeaderTimeout + 1 s.
func TestLeaderHostGoneSilently(t *testing.T) {
	t.Parallel()
	limit := lan().LeaderTimeout + time.Second
	for _, size := range []int{3, 5} {
		var longest time.Duration
		for seed := range uint64(20) {
			c := formed(t, simulated(seed, size))
			old := c.Leader()
			c.Crash(old)
			longest = max(longest, within(t, c, limit, "next leader", another(c, old)))
			sound(t, c)
		}
		t.Logf("N=%d: at most %v", size, longest)
	}
}

// The original stays split forever. Here only one leader remains four intervals after the heal. The
// isolated leader loses its authority before the other leader gains authority; the checkers verify
// this at every step.
func TestLeaderIsolatedThenHealed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		c := formed(t, simulated(seed, 5))
		old := c.Leader()
		version := c.Authority(old)
		c.Isolate(old)
		within(t, c, 3*lan().LeaderTimeout, "end of the old authority", func() bool {
			return c.Authority(old) == 0
		})
		if l := c.Leader(); l >= 0 {
			t.Errorf("seed %d: process %d has authority when the old one ends, want it later", seed, l)
		}
		within(t, c, 2*lan().LeaderTimeout, "next leader", another(c, old))
		next := c.Leader()
		c.RunFor(20 * time.Second)
		c.Heal()
		within(t, c, 4*lan().HeartbeatInterval+4*roundTrip, "one cluster", c.Settled)
		if got := c.Leader(); got != next || c.Authority(got) <= version {
			t.Errorf("seed %d: got process %d leading version %d, want %d and above %d",
				seed, got, c.Authority(got), next, version)
		}
		sound(t, c)
	}
}

// In the original, the only seed of a cluster restarts, queries only seeds, finds none, and leads a
// cluster of its own forever. Here the seed queries the members that its store lists, and rejoins
// immediately. If the seed's store is empty, the leader contacts the seed as soon as it notices
// that the seed is missing.
func TestOnlySeedRestarts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		memory []int
		leads  int // 0 is the seed
		limit  time.Duration
	}{
		{"a durable store", nil, 1, 5 * roundTrip},
		{"a durable store, leading", nil, 0, 10 * roundTrip},
		{"a memory store", []int{0, 1, 2}, 1, lan().HeartbeatTimeout + lan().HeartbeatInterval},
		{"a memory store, leading", []int{0, 1, 2}, 0, lan().LeaderTimeout + lan().RetryInterval},
	} {
		s := simulated(1, 3)
		s.Seeds, s.Volatile = []int{0}, tc.memory
		c := formed(t, s)
		if c.Leader() != tc.leads {
			if err := c.Transfer(c.Leader(), tc.leads); err != nil {
				t.Fatal(err)
			}
			within(t, c, time.Second, "the leader asked for", another(c, 1-tc.leads))
			c.RunFor(time.Second)
		}
		c.Crash(0)
		c.RunFor(2 * roundTrip) // so that no message in flight informs process 0 about the leader
		c.Start(0)
		took := within(t, c, tc.limit, tc.name+": one cluster again", c.Settled)
		t.Logf("%s: %v", tc.name, took)
		sound(t, c)
	}
}

// For 11 to 25 s, the original refuses a restarted process as a duplicate. Here the process is
// active within two retry intervals.
func TestQuickRestart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		c := formed(t, simulated(seed, 3))
		i := (c.Leader() + 1) % 3
		c.Crash(i)
		c.RunFor(50 * time.Millisecond)
		c.Start(i)
		within(t, c, 2*lan().RetryInterval, "one cluster", c.Settled)
		sound(t, c)
	}
}

// undisturbed records any disturbance of processes that must keep their leader.
type undisturbed struct {
	but   int // the one process that may be disturbed
	since time.Duration
	found []sim.Record
}

func (u *undisturbed) record(r sim.Record) {
	bad := []statemachine.TraceKind{
		statemachine.Suspected, statemachine.LostAuthority, statemachine.SteppedDown,
		statemachine.BecameLeader, statemachine.BecameProvisional, statemachine.Proposing,
	}
	if r.Kind == sim.Traced && r.Process != u.but && u.since > 0 && r.At >= u.since &&
		slices.Contains(bad, r.Trace.Kind) {
		u.found = append(u.found, r)
	}
}

// In the original, a seed that was alone for a long time returns with a very high version, and so
// deposes the leader of the healthy majority. Here every process keeps its leader.
func TestLoneSeedWithAnInflatedVersion(t *testing.T) {
	t.Parallel()
	var watch undisturbed
	s := simulated(1, 3)
	s.Record = watch.record
	c := formed(t, s)
	leader := c.Leader()
	lone := (leader + 1) % 3
	c.Isolate(lone)
	c.RunFor(10 * time.Minute)
	if v := c.View(lone); v.Role != member.Provisional || v.Version <= c.Authority(leader) {
		t.Fatalf("got %v of version %d, want a provisional leader above %d%s",
			v.Role, v.Version, c.Authority(leader), c.Describe())
	}
	watch.but, watch.since = lone, c.Now()
	c.Heal()
	within(t, c, 4*lan().HeartbeatInterval+4*roundTrip, "one cluster", c.Settled)
	c.RunFor(time.Minute)
	if got := c.Leader(); got != leader {
		t.Errorf("got process %d leading, want process %d to keep leading", got, leader)
	}
	for _, r := range watch.found {
		t.Errorf("got %v", r)
	}
	sound(t, c)
}

// In the original, a follower that was away for longer than its TTL has to wait for three TTLs.
// Here it is active again within a retry interval.
func TestFollowerBackAfterItsTTL(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		c := formed(t, simulated(seed, 3))
		i := (c.Leader() + 1) % 3
		c.Isolate(i)
		within(t, c, 2*lan().TTLTimeout, "removed member", func() bool {
			e, _ := c.View(c.Leader()).Member(c.Address(i))
			return e.Status == member.Removed
		})
		c.RunFor(lan().TTLTimeout)
		c.Heal()
		within(t, c, lan().RetryInterval, "one cluster", c.Settled)
		sound(t, c)
	}
}

// In the original, three seeds that boot together become two or three leaders. Here exactly one
// seed gains authority, soon and only once.
func TestThreeSeedsBootTogether(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		leaders := 0
		s := simulated(seed, 3)
		s.Record = func(r sim.Record) {
			if r.Kind == sim.Traced && r.Trace.Kind == statemachine.GainedAuthority {
				leaders++
			}
		}
		c := sim.NewCluster(s)
		for i := range 3 {
			c.After(time.Duration(seed)*time.Duration(i)*time.Millisecond, func() { c.Start(i) })
		}
		within(t, c, time.Second, "one cluster", func() bool { return c.Up(2) && c.Settled() })
		c.RunFor(5 * time.Second)
		if leaders != 1 || c.Authority(c.Leader()) != 1 {
			t.Errorf("seed %d: authority was gained %d times, version %d, want once, version 1",
				seed, leaders, c.Authority(c.Leader()))
		}
		sound(t, c)
	}
}
