// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"

	"github.com/athena-go/athena/member"
)

// In one run of twenty, a cluster with more than five seeds starts without the greatest seeds.
func TestStartsWithoutTheGreatestSeedsAreDrawn(t *testing.T) {
	const runs = 2000
	forms, joins, most := 0, 0, 0
	for seed := range uint64(runs) {
		p := drawPlan(Options{Seed: seed})
		if err := p.checkPlan(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if p.Dead == 0 {
			if p.Setup.Size > 9 {
				t.Errorf("seed %d: %d members, want up to 9", seed, p.Setup.Size)
			}
			continue
		}
		forms++
		most = max(most, p.Dead)
		s := p.Setup
		if len(s.Seeds) <= fewSeeds || len(s.Seeds)-p.Dead < member.Quorum(len(s.Seeds)) ||
			s.Size-p.Dead < member.Quorum(s.Size) {
			t.Errorf("seed %d: %d of %d seeds of %d members are down", seed, p.Dead, len(s.Seeds), s.Size)
		}
		if i := p.lateProcess(); i >= 0 {
			joins++
			if p.isDead(i) || slices.Contains(s.Seeds, i) {
				t.Errorf("seed %d: process %d joins late, of seeds %v", seed, i, s.Seeds)
			}
		}
	}
	if forms < runs/25 || forms > runs/16 || joins < forms/2 || most < 8 {
		t.Errorf("%d of %d runs are such starts, %d with a late join, up to %d dead",
			forms, runs, joins, most)
	}
}

// A run fails if the start or a late join takes longer than L2 allows.
func TestALateStartIsAViolation(t *testing.T) {
	failed := 0
	for seed := range uint64(400) {
		p := drawPlan(Options{Seed: seed})
		if p.Dead == 0 || p.lateProcess() < 0 {
			continue
		}
		short := p // the plan with shorter limits
		p.Setup.Timings.RetryInterval *= 6
		c := newCluster(p.Setup, &recording{})
		x := newChaos(c, short)
		j := &judge{c: c, x: x, rand: randomStream(seed, streamJudge)}
		x.startFaults()
		j.checkFormation()
		if v := c.check.first; v != nil && v.Invariant == "L2" {
			failed++
		} else {
			t.Errorf("seed %d, %d dead: got %v, want L2 broken", seed, p.Dead, v)
		}
	}
	if failed < 3 {
		t.Errorf("got %d starts, want more", failed)
	}
}
