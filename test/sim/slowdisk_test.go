// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// lanTimings returns the timings of DefaultConfig.
func lanTimings() message.Timings {
	const ms = time.Millisecond
	return timingsOfProfile(100*ms, 1000*ms, 10_000*ms, 500*ms)
}

// slowSaves are the longest saves of slow disks, in milliseconds.
var slowSaves = []time.Duration{50, 170, 300, 800, 2000}

// TestElectionsOutlastSlowDisks checks protocol.md 6, slow disks: if saves take up to d, at most a
// quarter of TTLTimeout, another leader has authority within LeaderTimeout + 3 intervals + 8 d
// after the last one was lost.
func TestElectionsOutlastSlowDisks(t *testing.T) {
	lose := []struct {
		name string
		do   func(c *Cluster, leader int)
		all  bool // all disks are slow, otherwise so many of the others that each majority has one
	}{
		{"crash", (*Cluster).Crash, true},
		{"isolation", (*Cluster).Isolate, true},
		{"close", (*Cluster).Close, true},
		{"transfer", func(c *Cluster, leader int) { _ = c.Transfer(leader, -1) }, true},
		{"crash, some fast", (*Cluster).Crash, false},
	}
	for _, ms := range slowSaves {
		for _, size := range []int{3, 5} {
			for _, l := range lose {
				d := ms * time.Millisecond
				limit := lanTimings().LeaderTimeout + 3*lanTimings().HeartbeatInterval + 8*d
				var longest time.Duration
				for seed := range uint64(5) {
					c := slowCluster(t, seed, size, d, l.all)
					old, start := c.Leader(), c.Now()
					l.do(c, old)
					if !c.RunUntil(limit, func() bool { return c.Leader() >= 0 && c.Leader() != old }) {
						t.Errorf("L1 at %v: %s, %d members, saves of %v, seed %d: no leader",
							limit, l.name, size, d, seed)
						continue
					}
					longest = max(longest, c.Now()-start)
					sound(t, c)
				}
				t.Logf("%s, %d members, saves of %v: %v of %v", l.name, size, d, longest, limit)
			}
		}
	}
}

// TestNamedSuccessorsLeadOnSlowDisks checks that the wait for a named successor outlasts its saves
// and those of the leader, but not those of other members.
func TestNamedSuccessorsLeadOnSlowDisks(t *testing.T) {
	timings := lanTimings()
	for _, size := range []int{3, 5} {
		for _, slow := range []string{"all", "the leader", "another"} {
			for seed := range uint64(60) {
				d := 300 * time.Millisecond
				c := slowCluster(t, seed, size, d, true)
				saves := c.SlowSave
				old := c.Leader()
				_ = c.Transfer(old, -1) // from now on, they know how long their saves take
				c.RunUntil(timings.TTLTimeout, func() bool { return c.Leader() >= 0 && c.Leader() != old })
				c.RunFor(timings.LeaderTimeout)
				old = c.Leader()
				to, limit := (old+1)%size, 8*d
				c.SlowSave = func(i int) SlowSave {
					if slow == "all" || slow == "the leader" && i == old {
						return saves(i)
					}
					return SlowSave{}
				}
				if slow == "another" {
					c.Crash(to)
					limit = 4 * timings.HeartbeatInterval
				}
				if err := c.Transfer(old, to); err != nil {
					t.Fatal(err)
				}
				moved := c.RunUntil(limit, func() bool { return c.Leader() >= 0 && c.Leader() != old })
				if !moved || slow == "all" && c.Leader() != to {
					t.Errorf("L5 at %v: %d members, saves of %s are slow, seed %d: moved %v to n%d, want n%d",
						limit, size, slow, seed, moved, c.Leader()+1, to+1)
				}
				sound(t, c)
			}
		}
	}
}

// slowCluster returns a cluster whose saves take from d/2 to d from now on.
func slowCluster(t *testing.T, seed uint64, size int, d time.Duration, all bool) *Cluster {
	t.Helper()
	s := steady(size)
	s.Seed, s.Timings = seed+1, lanTimings()
	c := formed(t, s)
	r := rand.New(rand.NewPCG(seed, 1))
	slow := r.Perm(size)
	if !all {
		slow = slices.DeleteFunc(slow, func(i int) bool { return i == c.Leader() })[:(size-1)/2]
	}
	c.SlowSave = func(i int) SlowSave {
		if !slices.Contains(slow, i) {
			return SlowSave{}
		}
		return SlowSave{Takes: d/2 + time.Duration(r.Int64N(int64(d/2))), TimersFirst: r.IntN(2) == 0}
	}
	return c
}

// TestALeaderOutlastsSlowDisks checks that a leader with slow disks stays leader while members that
// were lost become unreachable and leave, for 40 s.
func TestALeaderOutlastsSlowDisks(t *testing.T) {
	for _, size := range []int{3, 5} {
		for _, all := range []bool{true, false} {
			c := slowCluster(t, 1, size, 300*time.Millisecond, all)
			old := c.Leader()
			c.Crash(old)
			c.RunFor(lanTimings().LeaderTimeout + 8*300*time.Millisecond)
			leader := c.Leader()
			if leader < 0 {
				t.Fatalf("%d members: no leader%s", size, c.Describe())
			}
			version, proposals := c.Authority(leader), 0
			c.onTrace = func(_ int, tr statemachine.Trace) {
				if tr.Kind == statemachine.Proposing {
					proposals++
				}
			}
			c.RunFor(40 * time.Second)
			if c.Leader() != leader || c.Authority(leader) != version || proposals > 0 {
				t.Errorf("%d members, all slow %v: leader %d after %d, %d proposals",
					size, all, c.Leader(), leader, proposals)
			}
			sound(t, c)
		}
	}
}

// TestAColdStartOutlastsSlowDisks checks that a cluster with slow disks is founded within
// RetryInterval + 8 saves.
func TestAColdStartOutlastsSlowDisks(t *testing.T) {
	for _, ms := range slowSaves {
		for _, size := range []int{3, 5} {
			for _, slow := range []int{size, size/2 + 1} {
				d := ms * time.Millisecond
				s := steady(size)
				s.Timings = lanTimings()
				c := NewCluster(s)
				c.SlowSave = func(i int) SlowSave {
					if i < slow {
						return SlowSave{Takes: d}
					}
					return SlowSave{}
				}
				for i := range size {
					c.Start(i)
				}
				limit := lanTimings().RetryInterval + 8*d
				if !c.RunUntil(limit, func() bool { return c.Leader() >= 0 }) {
					t.Errorf("%d of %d members with saves of %v: no leader after %v", slow, size, d, limit)
				}
				sound(t, c)
			}
		}
	}
}

// TestDrawnDisks checks that runs draw slow disks and restored copies, during the faults and at the
// end, and that the copies of one member and of a majority are found.
func TestDrawnDisks(t *testing.T) {
	happened, last := NoFaults, map[epilogue]int{}
	var cover Table
	for seed := uint64(1); last[slowed] < 20 || last[restored] < 20; seed++ {
		o := Options{Seed: seed, Size: 3, For: 20 * time.Second}
		p := drawPlan(o)
		if p.Epilogue != slowed && p.Epilogue != restored {
			continue
		}
		r := Run(o)
		if r.Violation != nil {
			t.Errorf("%v; repeat with: %s", r.Violation, r.Options.Replay())
		}
		cover.add(r.Cover)
		for i, n := range r.Happened {
			if n > 0 {
				happened |= 1 << i
			}
		}
		slow := func(m Measure) bool { return m.Name == "leader with slow disks" }
		if p.Epilogue == restored || slices.ContainsFunc(r.Measures, slow) {
			last[p.Epilogue]++
		}
	}
	if want := SlowDisks | RestoredCopies; happened&want != want {
		t.Errorf("got faults of the classes %v, want %v too", happened, want)
	}
	for _, kind := range []statemachine.TraceKind{statemachine.FoundCopy, statemachine.FoundLater} {
		if cover.runs[ruleTraces+rule(kind)] == 0 {
			t.Errorf("no run reached the rule %v", kind)
		}
	}
}
