// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// Shrink searches for a smaller run that breaks the same invariant: with fewer faults and
// processes, less time, or a simpler network. It repeats runs until budget has passed in real time,
// and returns the smallest failed run.
func Shrink(r Replay, budget time.Duration) Replay {
	breaks := func(r Replay) (string, time.Duration) {
		if v := Reproduce(r, nil).Violation; v != nil {
			return v.Invariant, v.At
		}
		return "", 0
	}
	s := &shrinker{best: r, end: time.Now().Add(budget), breaks: breaks}
	s.shrinkRun()
	return s.best
}

type shrinker struct {
	best   Replay
	end    time.Time
	breaks func(Replay) (invariant string, at time.Duration)
}

func (s *shrinker) isOutOfTime() bool { return time.Now().After(s.end) }

// tryCandidate keeps a candidate if it breaks the same invariant, and reports whether it did.
func (s *shrinker) tryCandidate(r Replay) bool {
	if s.isOutOfTime() {
		return false
	}
	invariant, at := s.breaks(r)
	if invariant != r.Invariant {
		return false
	}
	// Ignore everything after the violation.
	r.Plan.For = min(r.Plan.For, at+time.Millisecond)
	r.Faults = slices.DeleteFunc(slices.Clone(r.Faults), func(f Fault) bool {
		return f.At > int64(r.Plan.For)
	})
	s.best = r
	return true
}

// shrinkRun repeats all reductions until they no longer make the run smaller.
func (s *shrinker) shrinkRun() {
	if !s.tryCandidate(s.best) {
		return
	}
	for before := -1; before != s.runWeight() && !s.isOutOfTime(); {
		before = s.runWeight()
		s.dropFaults()
		s.dropFates()
		s.simplifyCluster()
		s.shortenFaults()
		s.dropPairs()
	}
}

// runWeight estimates how hard a run is to read.
func (s *shrinker) runWeight() int {
	n := 100*len(s.best.Faults) + len(s.best.Fates) + 100*s.best.Plan.Setup.Processes
	for _, f := range s.best.Faults {
		n += len(f.Args)
	}
	return n
}

// dropParts removes parts of a list of n entries: first halves, then smaller parts, then single
// entries. The function without returns the smallest run found so far, without the given part.
func (s *shrinker) dropParts(n func() int, without func(from, to int) Replay) {
	for part := n(); part > 0 && !s.isOutOfTime(); part /= 2 {
		for i := 0; i < n() && !s.isOutOfTime(); {
			to := min(i+part, n())
			if !s.tryCandidate(without(i, to)) {
				i = to
			}
		}
	}
}

func (s *shrinker) dropFaults() {
	s.dropParts(func() int { return len(s.best.Faults) }, func(from, to int) Replay {
		r := s.best
		r.Faults = slices.Delete(slices.Clone(r.Faults), from, to)
		return r
	})
}

func (s *shrinker) dropFates() {
	s.dropParts(func() int { return len(s.best.Fates) }, func(from, to int) Replay {
		r := s.best
		r.Fates = slices.Delete(slices.Clone(r.Fates), from, to)
		return r
	})
}

// dropPairs restores links that do not have to be cut.
func (s *shrinker) dropPairs() {
	for i := 0; i < len(s.best.Faults); i++ {
		if s.best.Faults[i].Class&(Cuts|Partitions|Topologies) == 0 {
			continue
		}
		args := func() []int64 {
			if i >= len(s.best.Faults) {
				return nil
			}
			return s.best.Faults[i].Args
		}
		s.dropParts(func() int { return len(args()) }, func(from, to int) Replay {
			r := s.best
			r.Faults = slices.Clone(r.Faults)
			r.Faults[i].Args = slices.Delete(slices.Clone(args()), from, to)
			return r
		})
	}
}

// simplifyCluster simplifies the cluster and its network.
func (s *shrinker) simplifyCluster() {
	for _, plainer := range []func(*Plan){
		func(p *Plan) { p.Setup.Keys = 0 },
		func(p *Plan) { p.Setup.Workers = 0 },
		func(p *Plan) { p.Setup.Workers = min(p.Setup.Workers, 1) },
		func(p *Plan) { p.Setup.Keys = min(p.Setup.Keys, 1) },
		func(p *Plan) { p.Setup.HandOver = 0 },
		func(p *Plan) { p.Setup.Preferences, p.Setup.HandOver = nil, 0 },
		func(p *Plan) { p.Setup.Twins = nil },
		func(p *Plan) { p.Setup.Claimants = nil },
		func(p *Plan) { p.Setup.SeatTimeout = 0 },
		func(p *Plan) { p.Setup.Processes, p.Starts = p.Setup.Size, p.Starts[:p.Setup.Size] },
		func(p *Plan) { p.Setup.Processes--; p.Starts = p.Starts[:len(p.Starts)-1] },
		func(p *Plan) { p.Setup.Skew = false },
		func(p *Plan) { p.Setup.Slow = nil },
		func(p *Plan) { p.Setup.Codec = false },
		func(p *Plan) { p.Setup.Lag = 0 },
		func(p *Plan) { p.Setup.Volatile = nil },
		func(p *Plan) { p.Setup.Link.Unordered = false },
		func(p *Plan) { p.Setup.Link = Link{Delay: time.Millisecond, Unordered: p.Setup.Link.Unordered} },
		func(p *Plan) { p.Starts = make([]time.Duration, len(p.Starts)) },
		func(p *Plan) { p.Epilogue = quiet },
		func(p *Plan) { p.For /= 2 },
	} {
		r := s.best
		if plainer(&r.Plan); r.Plan.checkPlan() == nil && !samePlan(r.Plan, s.best.Plan) {
			// Link numbers depend on the number of processes.
			r.Fates = renumberFates(r.Fates, s.best.Plan.Setup.total(), r.Plan.Setup.total())
			s.tryCandidate(r)
		}
	}
}

func samePlan(a, b Plan) bool {
	return a.Setup.total() == b.Setup.total() &&
		a.Setup.Link == b.Setup.Link && a.Setup.Lag == b.Setup.Lag &&
		a.Setup.Skew == b.Setup.Skew && a.Setup.Codec == b.Setup.Codec && a.For == b.For &&
		a.Setup.Keys == b.Setup.Keys && a.Setup.Workers == b.Setup.Workers &&
		a.Epilogue == b.Epilogue && slices.Equal(a.Starts, b.Starts) &&
		len(a.Setup.Preferences) == len(b.Setup.Preferences) && a.Setup.HandOver == b.Setup.HandOver &&
		a.Setup.SeatTimeout == b.Setup.SeatTimeout &&
		len(a.Setup.Volatile) == len(b.Setup.Volatile) && len(a.Setup.Slow) == len(b.Setup.Slow)
}

func renumberFates(fates []Fate, from, to int) []Fate {
	if from == to {
		return fates
	}
	var out []Fate
	for _, f := range fates {
		if a, b := f.Link/from, f.Link%from; a < to && b < to {
			f.Link = a*to + b
			out = append(out, f)
		}
	}
	return out
}

// shortenFaults halves the durations of faults.
func (s *shrinker) shortenFaults() {
	for i := range s.best.Faults {
		for i < len(s.best.Faults) && s.best.Faults[i].Lasts > int64(time.Millisecond) {
			r := s.best
			r.Faults = slices.Clone(r.Faults)
			r.Faults[i].Lasts /= 2
			if !s.tryCandidate(r) {
				break
			}
		}
	}
}
