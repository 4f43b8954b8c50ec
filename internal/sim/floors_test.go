// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"
)

// TestRecoveredStoresFoundAboveTheirTokens runs drawn faults on clusters in which some stores were
// recovered and the others are new. The safety invariants hold: above all, no leader has authority
// with a token that its own store, or that of a voter that it counts, knows as used. If all seeds
// were recovered above one token, the cluster also becomes healthy after the faults.
func TestRecoveredStoresFoundAboveTheirTokens(t *testing.T) {
	runs, above := 0, 0
	for seed := uint64(1); seed <= 240; seed++ {
		p := drawPlan(Options{Seed: seed, For: 40 * time.Second})
		if len(p.Setup.Volatile) > 0 || p.Dead > 0 {
			continue
		}
		r := randomStream(seed, streamOptions)
		one, same := 1+r.Uint64N(100_000), r.IntN(2) == 0
		p.Setup.Floors = make([]uint64, p.Setup.Processes)
		for i := range p.Setup.Floors {
			switch isSeed := slices.Contains(p.Setup.Seeds, i); {
			case same && (isSeed || r.IntN(2) == 0):
				p.Setup.Floors[i] = one
			case !same && r.IntN(2) == 0:
				p.Setup.Floors[i] = 1 + r.Uint64N(400)
			}
		}
		res := runPlan(p, &recording{}, nil)
		v := res.Violation
		if v != nil && (same || v.Invariant[0] != 'L') {
			t.Fatalf("seed %d, floors %v: %.2000v", seed, p.Setup.Floors, v)
		}
		runs++
		if same && res.Versions > 0 {
			above++
		}
	}
	t.Logf("%d runs, %d above one token", runs, above)
	if above < runs/3 || runs < 100 {
		t.Errorf("%d of %d runs had a leader above one token", above, runs)
	}
}

// TestARecoveredMinorityIsHeard starts a cluster in which a majority of the stores are new. If the
// recovered store is up, the cluster is founded above its token. If it starts later, the leader
// proposes itself above that token before it gives the node a place.
func TestARecoveredMinorityIsHeard(t *testing.T) {
	for _, tc := range []struct {
		name  string
		later bool
	}{{"started with the others", false}, {"started later", true}} {
		t.Run(tc.name, func(t *testing.T) {
			for recovered := range 3 {
				s := Setup{Seed: 7, Size: 3, Timings: fast(), Floors: make([]uint64, 3)}
				s.Floors[recovered] = 100
				c := NewCluster(s)
				for i := range 3 {
					if !tc.later || i != recovered {
						c.Start(i)
					}
				}
				limit := 20 * s.Timings.TTLTimeout
				if tc.later {
					c.RunUntil(limit, func() bool { return c.Leader() >= 0 })
					c.Start(recovered)
				}
				healthy := func() bool { return c.Leader() >= 0 && c.procs[recovered].store.Held.Version > 0 }
				if !c.RunUntil(limit, healthy) {
					t.Fatalf("n%d recovered: no leader or no place\n%s", recovered+1, c.Describe())
				}
				c.RunFor(s.Timings.TTLTimeout)
				if got := c.procs[c.Leader()].store.Held.Version; got <= 100 {
					t.Errorf("I3 at %v: n%d recovered: got token %d, want one above 100",
						c.Now(), recovered+1, got)
				}
				if first := c.check.order[0]; !tc.later && first != 101 {
					t.Errorf("I3 at %v: n%d recovered: founded at version %d, want 101",
						c.Now(), recovered+1, first)
				}
			}
		})
	}
}

// TestTheOthersFoundAboveACommonToken starts a cluster in which every store has the same floor, as
// after athena recover on every node. One node starts after the others have founded. Its floor is
// further above version 1 than a joiner may move the token (maxJoinJump), and it gets its place.
func TestTheOthersFoundAboveACommonToken(t *testing.T) {
	for later := range 3 {
		s := Setup{Seed: 7, Size: 3, Timings: fast(), Floors: []uint64{1000, 1000, 1000}}
		c := NewCluster(s)
		for i := range 3 {
			if i != later {
				c.Start(i)
			}
		}
		limit := 20 * s.Timings.TTLTimeout
		if !c.RunUntil(limit, func() bool { return c.Leader() >= 0 }) || c.check.order[0] != 1001 {
			t.Fatalf("n%d is down: got versions %v, want 1001\n%s", later+1, c.check.order, c.Describe())
		}
		c.Start(later)
		if !c.RunUntil(limit, func() bool { return c.procs[later].store.Held.Version > 1000 }) {
			t.Errorf("n%d started later: it has no place\n%s", later+1, c.Describe())
		}
	}
}
