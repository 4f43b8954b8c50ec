// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// repeats is how often a plan is run to see whether it fails: the order of goroutines is not
// drawn.
const repeats = 4

// shrinker makes a plan smaller as long as it fails in the same way.
type shrinker struct {
	t    *testing.T
	best plan
	kind string
	end  time.Time
}

// shrinkPlan prints the smallest plan that it finds.
func shrinkPlan(t *testing.T, p plan, kind string) {
	s := &shrinker{t: t, best: p, kind: kind, end: time.Now().Add(*shrinks)}
	if *shrinks == 0 {
		return
	}
	if !s.failsAgain(p) {
		t.Logf("the plan passes when it is repeated %d times; it is not shrunk", repeats)
		return
	}
	for before := -1; before != s.planWeight() && time.Now().Before(s.end); {
		before = s.planWeight()
		s.dropParts(func() int { return len(s.best.Faults) }, func(p *plan, from, to int) {
			p.Faults = slices.Delete(slices.Clone(p.Faults), from, to)
		})
		s.dropParts(func() int { return len(s.best.Apps) }, func(p *plan, from, to int) {
			p.Apps = slices.Delete(slices.Clone(p.Apps), from, to)
		})
		s.dropGraphParts()
		for _, plainer := range []func(p *plan){
			func(p *plan) { p.TLS = false }, func(p *plan) { p.Drift = nil },
			func(p *plan) { p.First, p.Starts = nil, nil },
			func(p *plan) { p.Save = 0 }, func(p *plan) { p.Lasts /= 2 }, dropNode,
		} {
			s.tryChange(plainer)
		}
	}
	content, err := json.MarshalIndent(s.best, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("shrunk to %d faults and %d applications; run it with -plan FILE:\n%s",
		len(s.best.Faults), len(s.best.Apps), content)
}

func (s *shrinker) planWeight() int {
	weight := len(s.best.Faults) + len(s.best.Apps) + s.best.Size + int(s.best.Lasts/time.Second)
	if g := s.best.Graph; g != nil {
		weight += len(g.Loads)
		for _, typ := range g.Types {
			weight += len(typ.Steps)
		}
	}
	return weight
}

// dropGraphParts removes loads and steps of a graph.
func (s *shrinker) dropGraphParts() {
	if s.best.Graph == nil {
		return
	}
	s.dropParts(func() int { return len(s.best.Graph.Loads) }, func(p *plan, from, to int) {
		p.Graph.Loads = slices.Delete(slices.Clone(p.Graph.Loads), from, to)
	})
	for i := range s.best.Graph.Types {
		s.dropParts(func() int { return len(s.best.Graph.Types[i].Steps) }, func(p *plan, from, to int) {
			typ := &p.Graph.Types[i]
			typ.Steps = slices.Delete(slices.Clone(typ.Steps), from, to)
		})
	}
}

// dropParts removes parts of a list of n entries: first halves, then smaller parts.
func (s *shrinker) dropParts(n func() int, without func(p *plan, from, to int)) {
	for part := (n() + 1) / 2; part > 0; part /= 2 {
		for i := 0; i < n(); {
			to := min(i+part, n())
			if !s.tryChange(func(p *plan) { without(p, i, to) }) {
				i = to
			}
		}
	}
}

// dropNode removes the last node with its applications and faults.
func dropNode(p *plan) {
	if p.Size == 1 {
		return
	}
	p.Size--
	gone := func(node int) bool { return node >= p.Size }
	p.Apps = slices.DeleteFunc(slices.Clone(p.Apps), func(a app) bool { return gone(a.Node) })
	p.First = slices.DeleteFunc(slices.Clone(p.First), gone)
	p.Starts = p.Starts[:min(len(p.Starts), p.Size)]
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f fault) bool {
		return gone(f.Node) || gone(f.Other) || slices.ContainsFunc(f.Group, gone)
	})
}

// tryChange keeps a change if the plan still fails in the same way, and reports whether it does.
func (s *shrinker) tryChange(change func(p *plan)) bool {
	p := s.best
	if p.Graph != nil {
		g := *p.Graph
		p.Graph = &g
	}
	change(&p)
	before, _ := json.Marshal(s.best)
	after, _ := json.Marshal(p)
	if string(before) == string(after) || time.Now().After(s.end) || !s.failsAgain(p) {
		return false
	}
	s.best = p
	return true
}

// failsAgain runs a plan several times and reports whether it fails in the same way.
func (s *shrinker) failsAgain(p plan) bool {
	file := filepath.Join(s.t.TempDir(), "plan.json")
	content, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for n := range repeats {
		var env []string
		if n%2 == 0 {
			env = cheap
		}
		if out, _, failed := runChild(s.t, env, "-test.run=^TestKept$", "-plan="+file); failed &&
			kindOf(out) == s.kind {
			return true
		}
	}
	return false
}
