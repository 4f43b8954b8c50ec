// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/athena-go/athena/member"
)

// TestResizedClustersStayOne runs drawn faults while an operator changes the size of the processes,
// one by one, back and forth, at drawn times. So nodes of both sizes run at the same time, with old
// and with new states, and some are left out until the end. The safety invariants hold. If the
// operator finished, the cluster of the new size also becomes healthy after the faults.
func TestResizedClustersStayOne(t *testing.T) {
	runs, resized, grown := 0, 0, 0
	for seed := uint64(1); seed <= depth(400); seed++ {
		p, finished, ok := drawResize(seed)
		if !ok {
			continue
		}
		res := runPlan(p, &recording{}, nil)
		// A store may refuse the last size, and then its process keeps another one.
		finished = finished && !res.mixed
		if v := res.Violation; v != nil && (finished || v.Invariant[0] != 'L') {
			t.Fatalf("seed %d, %v: %.2000v", seed, p.Setup.Resizes, v)
		}
		runs++
		if finished {
			resized++
			if res.largest > p.Setup.Size {
				grown++
			}
		}
	}
	t.Logf("%d runs, %d resized, %d with more members", runs, resized, grown)
	if runs < int(depth(100)) || grown < int(depth(20)) {
		t.Errorf("%d runs, %d with more members: want more", runs, grown)
	}
}

// TestShrunkClustersStayOne runs drawn faults while an operator stops members, has the leader
// remove their seats, and then makes the stores smaller, one by one, and in some runs larger again.
// The stopped members return with old stores at drawn times. The safety invariants hold.
func TestShrunkClustersStayOne(t *testing.T) {
	runs, shrunk := 0, 0
	for seed := uint64(1); seed <= depth(600); seed++ {
		p, ok := drawShrink(seed)
		if !ok {
			continue
		}
		res := runPlan(p, &recording{}, nil)
		if v := res.Violation; v != nil && v.Invariant[0] != 'L' {
			t.Fatalf("seed %d, %v, %v: %.2000v", seed, p.Setup.Resizes, p.Setup.Releases, v)
		}
		runs++
		if res.smallest > 0 && res.smallest < p.Setup.Size {
			shrunk++
		}
	}
	t.Logf("%d runs, %d with a leader of the smaller size", runs, shrunk)
	if runs < int(depth(100)) || shrunk < int(depth(20)) {
		t.Errorf("%d runs, %d with a leader of the smaller size: want more", runs, shrunk)
	}
}

// drawShrink draws a run in which the cluster becomes smaller.
func drawShrink(seed uint64) (p Plan, ok bool) {
	// A copy would have the size of its time, which stores do not keep here.
	p = drawPlan(Options{Seed: seed, For: 60 * time.Second, Without: RestoredCopies})
	s := &p.Setup
	if len(s.Volatile) > 0 || p.Dead > 0 || s.Size < 3 || len(s.Twins) > 0 {
		return p, false
	}
	r := randomStream(seed, streamOptions)
	smaller := member.Quorum(s.Size) + r.IntN(s.Size-member.Quorum(s.Size))
	at := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*r.Float64()) * float64(p.For))
	}
	change := func(i, size int, from, to, down float64) {
		s.Resizes = append(s.Resizes, Resize{Process: i, Size: size, At: at(from, to), Down: at(0, down)})
	}
	for range 8 {
		s.Releases = append(s.Releases, Release{Keep: smaller, At: at(0.1, 0.6)})
	}
	for n, i := range r.Perm(s.Processes) {
		if n >= smaller {
			s.Resizes = append(s.Resizes, Resize{Process: i, Size: s.Size, At: at(0, 0.1), Down: at(0.2, 1)})
		}
		change(i, smaller, 0.3, 0.7, 0.1)
		if r.IntN(3) == 0 {
			change(i, s.Size, 0.6, 0.9, 0.05) // the operator undoes it, or makes the cluster larger again
		}
	}
	return p, true
}

// drawResize draws a run in which the size of the cluster changes. It reports whether every process
// has the new size before the end of the faults.
func drawResize(seed uint64) (p Plan, finished, ok bool) {
	// A copy would have the size of its time, which stores do not keep here.
	p = drawPlan(Options{Seed: seed, For: 60 * time.Second, Without: RestoredCopies})
	s := &p.Setup
	if len(s.Volatile) > 0 || p.Dead > 0 || s.Size < 2 || len(s.Twins) > 0 {
		return p, false, false
	}
	r := randomStream(seed, streamOptions)
	larger := s.Size + 1 + r.IntN(s.Size-1)
	if r.IntN(3) > 0 {
		larger = 2*s.Size - 1
	}
	for s.Processes < min(larger, MaxProcesses) {
		s.Processes++
		p.Starts = append(p.Starts, p.For/2)
		if len(s.Preferences) > 0 {
			s.Preferences = append(s.Preferences, 0)
		}
	}
	at := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*r.Float64()) * float64(p.For))
	}
	together := r.IntN(2) == 0
	change := func(i, size int, from, to float64) {
		down := at(0, 0.02)
		if together {
			to, down = from+0.01, at(0.01, 0.02)
		}
		s.Resizes = append(s.Resizes, Resize{Process: i, Size: size, At: at(from, to), Down: down})
	}
	finished = r.IntN(2) == 0
	for i := range s.Processes {
		change(i, larger, 0.2, 0.5)
		if r.IntN(2) == 0 {
			change(i, s.Size, 0.5, 0.7) // the operator undoes it, if the store permits
		}
		if finished {
			change(i, larger, 0.7, 0.95)
		}
	}
	return p, finished, member.Quorum(larger) <= s.Size
}
