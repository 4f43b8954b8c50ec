// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// TestRecoveredStoresFoundAboveTheirTokens runs drawn faults on clusters in which some stores were
// recovered and the others are new. The safety invariants hold: above all, no leader has authority
// with a token that its own store, or that of a voter that it counts, knows as used. After the
// faults the cluster becomes healthy, once an operator has emptied the stores of nodes that have no
// vote and whose token is above the version.
func TestRecoveredStoresFoundAboveTheirTokens(t *testing.T) {
	runs, above, emptied := 0, 0, 0
	for seed := uint64(1); seed <= depth(240); seed++ {
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
		if v != nil {
			t.Errorf("seed %d, floors %v: %.2000v", seed, p.Setup.Floors, v)
		}
		runs, emptied = runs+1, emptied+res.Emptied
		if same && res.Versions > 0 {
			above++
		}
	}
	t.Logf("%d runs, %d above one token, %d stores emptied", runs, above, emptied)
	if above < runs/3 || runs < int(depth(100)) || emptied == 0 {
		t.Errorf("%d of %d runs had a leader above one token, and %d stores were emptied",
			above, runs, emptied)
	}
}

// TestARecoveredMinorityIsHeard starts a cluster in which one store is recovered and the others are
// new. The cluster is founded above the token of the recovered store.
func TestARecoveredMinorityIsHeard(t *testing.T) {
	for recovered := range 3 {
		c := minorityRecovered(recovered)
		for i := range 3 {
			c.Start(i)
		}
		healthy := func() bool { return c.Leader() >= 0 && c.procs[recovered].store.Held.Version > 0 }
		if !c.RunUntil(20*c.setup.Timings.TTLTimeout, healthy) {
			t.Fatalf("n%d recovered: no leader or no place\n%s", recovered+1, c.Describe())
		}
		c.RunFor(c.setup.Timings.TTLTimeout)
		if first := c.check.order[0]; first != recoveredToken+1 {
			t.Errorf("I3 at %v: n%d recovered: founded at version %d, want %d",
				c.Now(), recovered+1, first, recoveredToken+1)
		}
		sound(t, c)
	}
}

// recoveredToken is the token above which one store of three was recovered.
const recoveredToken = 100

func minorityRecovered(i int) *Cluster {
	s := Setup{Seed: 7, Size: 3, Timings: fast(), Floors: make([]uint64, 3)}
	s.Floors[i] = recoveredToken
	return NewCluster(s)
}

// TestALateRecoveredMinorityStaysOutside tests protocol.md section 3. The recovered store starts
// when the others have founded the cluster at version 1. A node without a vote does not raise the
// version, so it stays outside until hand-overs have raised the version above its token. Then it
// joins.
func TestALateRecoveredMinorityStaysOutside(t *testing.T) {
	for recovered := range 3 {
		c := minorityRecovered(recovered)
		tm, refused := c.setup.Timings, 0
		for i := range 3 {
			if i != recovered {
				c.Start(i)
			}
		}
		if !c.RunUntil(20*tm.TTLTimeout, func() bool { return c.Leader() >= 0 }) {
			t.Fatalf("n%d recovered: no leader%s", recovered+1, c.Describe())
		}
		c.onTrace = func(_ int, t statemachine.Trace) {
			if t.Reason == message.ReasonVersionJump {
				refused++
			}
		}
		c.Start(recovered)
		c.RunFor(4 * tm.TTLTimeout)
		if v := c.leaderVersion(); v != 1 || refused == 0 || c.View(recovered).Role != member.Seeking {
			t.Fatalf("n%d recovered: version %d, %d joins refused, want version 1 and no place%s",
				recovered+1, v, refused, c.Describe())
		}
		for c.leaderVersion() <= recoveredToken {
			if got := c.procs[recovered].store.Held; !got.IsZero() {
				t.Fatalf("I3 at %v: n%d joined at token %v, want above %d%s",
					c.Now(), recovered+1, got.Number, recoveredToken, c.Describe())
			}
			v := c.leaderVersion()
			_ = c.Transfer(c.Leader(), -1) // refused while the followers have not shown the state
			c.RunUntil(tm.LeaderTimeout, func() bool { return c.leaderVersion() > v })
		}
		if !c.RunUntil(4*tm.RetryInterval, c.Settled) || !c.Up(recovered) {
			t.Errorf("n%d recovered: no place above its token%s", recovered+1, c.Describe())
		}
		sound(t, c)
	}
}

// TestTheOthersFoundAboveACommonToken starts a cluster in which every store has the same floor, as
// after athena recover on every node. One node starts after the others have founded. Their version
// is above its floor, so it gets its place.
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
