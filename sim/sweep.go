// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxFailures is how many failed runs a Report keeps.
const MaxFailures = 20

// Sweeping says which runs to do.
type Sweeping struct {
	Options Options // of every run; its Seed is the first one
	Runs    int     // how many seeds, one after the other
	// Budget ends the sweep after this real time; 0 for none.
	Budget time.Duration
	// Failures ends the sweep after so many failed runs; 0 means
	// MaxFailures.
	Failures int
	// Progress, where it is set, gets every result, in any order, from one
	// goroutine at a time.
	Progress func(Result)
}

// Report is what many runs showed together.
type Report struct {
	Runs     int
	Steps    int
	Virtual  time.Duration
	Real     time.Duration
	Messages Messages
	Versions int
	Changes  int
	Happened [len(faultNames)]int
	Gap      time.Duration // the smallest; negative when there was none
	Void     int           // runs with memory stores beyond what is promised
	Hopeless int           // runs in which no leader was demanded
	Measures map[string][]Measure
	Failed   []Result // by seed, at most MaxFailures
}

// Sweep does many runs on all cores. It blocks until they are done.
func Sweep(s Sweeping) Report {
	if s.Failures == 0 || s.Failures > MaxFailures {
		s.Failures = MaxFailures
	}
	report := Report{Gap: -1, Measures: map[string][]Measure{}}
	start := time.Now()
	var mu sync.Mutex
	next := 0
	take := func() (Options, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= s.Runs || len(report.Failed) >= s.Failures ||
			s.Budget > 0 && time.Since(start) > s.Budget {
			return Options{}, false
		}
		o := s.Options
		o.Seed += uint64(next)
		next++
		return o, true
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for o, ok := take(); ok; o, ok = take() {
				r := Run(o)
				mu.Lock()
				report.add(r)
				if s.Progress != nil {
					s.Progress(r)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	report.Real = time.Since(start)
	slices.SortFunc(report.Failed, func(a, b Result) int {
		if a.Options.Seed < b.Options.Seed {
			return -1
		}
		return 1
	})
	return report
}

func (r *Report) add(o Result) {
	r.Runs++
	r.Steps += o.Steps
	r.Virtual += o.Virtual
	r.Versions += o.Versions
	r.Changes += o.Changes
	r.Messages.Sent += o.Messages.Sent
	r.Messages.Delivered += o.Messages.Delivered
	r.Messages.Lost += o.Messages.Lost
	r.Messages.Cut += o.Messages.Cut
	r.Messages.Dead += o.Messages.Dead
	r.Messages.Duplicated += o.Messages.Duplicated
	for i, n := range o.Happened {
		r.Happened[i] += n
	}
	if o.Gap >= 0 && (r.Gap < 0 || o.Gap < r.Gap) {
		r.Gap = o.Gap
	}
	if o.Void != "" {
		r.Void++
	}
	if o.Hopeless != "" {
		r.Hopeless++
	}
	for _, m := range o.Measures {
		r.Measures[m.Name] = append(r.Measures[m.Name], m)
	}
	if o.Violation != nil && len(r.Failed) < MaxFailures {
		r.Failed = append(r.Failed, o)
	}
}

// quantile is how large a part of its bound the measure reached in the q-th
// part of the runs.
func quantile(ms []Measure, q float64) float64 {
	parts := make([]float64, len(ms))
	for i, m := range ms {
		parts[i] = float64(m.Took) / float64(m.Bound)
	}
	slices.Sort(parts)
	return parts[min(int(q*float64(len(parts))), len(parts)-1)]
}

// String is the report in a dozen lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs, %d steps, %.1f h simulated in %v: %.0f x real time, %.2f µs a step\n",
		r.Runs, r.Steps, r.Virtual.Hours(), r.Real.Round(time.Millisecond),
		r.Virtual.Seconds()/r.Real.Seconds(),
		float64(r.Real.Microseconds())*float64(runtime.GOMAXPROCS(0))/float64(max(r.Steps, 1)))
	fmt.Fprintf(&b, "%d leaders chosen, %d changes of authority, smallest gap %v\n",
		r.Versions, r.Changes, r.Gap)
	fmt.Fprintf(&b, "messages: %d sent, %d delivered, %d lost, %d cut, %d to nobody, %d doubled\n",
		r.Messages.Sent, r.Messages.Delivered, r.Messages.Lost, r.Messages.Cut,
		r.Messages.Dead, r.Messages.Duplicated)
	b.WriteString("faults:")
	for i, n := range r.Happened {
		if n > 0 {
			fmt.Fprintf(&b, " %s %d,", faultNames[i], n)
		}
	}
	fmt.Fprintf(&b,
		"\n%d runs beyond what a memory store promises, %d without a majority in the end\n",
		r.Void, r.Hopeless)
	names := make([]string, 0, len(r.Measures))
	for name := range r.Measures {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		ms := r.Measures[name]
		fmt.Fprintf(&b, "%-32s %6d runs, part of the bound: median %.2f, p99 %.2f, max %.2f\n",
			name, len(ms), quantile(ms, 0.5), quantile(ms, 0.99), quantile(ms, 1))
	}
	fmt.Fprintf(&b, "%d failed", len(r.Failed))
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "\n%v", f)
	}
	return b.String()
}
