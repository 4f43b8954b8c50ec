// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxFailures is the largest number of failed runs that a Report keeps.
const MaxFailures = 20

// Sweeping selects the runs of a sweep.
type Sweeping struct {
	Options Options // options of every run; Seed is the first seed
	Runs    int     // number of consecutive seeds
	// Budget is the CPU time of all cores after which the sweep ends; 0 means no limit.
	Budget time.Duration
	// Failures is the number of failed runs after which the sweep ends; 0 means
	// MaxFailures.
	Failures int
	// Progress is called with every result, in any order but never concurrently. It may be
	// nil.
	Progress func(Result)
}

// Report summarizes the runs of a sweep.
type Report struct {
	First    uint64 // first seed
	Runs     int
	Steps    int
	Virtual  time.Duration
	Real     time.Duration
	Busy     time.Duration // CPU time of all cores
	Messages Messages
	Versions int
	Changes  int
	Happened [classes]int
	Writes   int // writes that the fenced register accepted
	Fenced   int // refused by it
	Cover    Table
	Gap      time.Duration // the shortest gap; negative if no run had a gap
	Void     int           // runs in which too many memory stores were lost
	Hopeless int           // runs that did not require a leader
	Emptied  int           // stores that an operator emptied after the faults
	Measures map[string][]Measure
	Failed   []Result // sorted by seed, at most MaxFailures
}

// Sweep runs many seeds on all cores. It blocks until all runs have ended.
func Sweep(s Sweeping) Report {
	if s.Failures == 0 || s.Failures > MaxFailures {
		s.Failures = MaxFailures
	}
	report := Report{First: s.Options.Seed, Gap: -1, Measures: map[string][]Measure{}}
	start, busy := time.Now(), cpuTime()
	var mu sync.Mutex
	next := 0
	take := func() (Options, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= s.Runs || len(report.Failed) >= s.Failures ||
			s.Budget > 0 && cpuTime()-busy > s.Budget {
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
	report.Real, report.Busy = time.Since(start), cpuTime()-busy
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
	r.Messages.add(o.Messages)
	r.Writes += o.Writes
	r.Fenced += o.Fenced
	r.Cover.add(o.Cover)
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
	r.Emptied += o.Emptied
	for _, m := range o.Measures {
		r.Measures[m.Name] = append(r.Measures[m.Name], m)
	}
	if o.Violation != nil && len(r.Failed) < MaxFailures {
		r.Failed = append(r.Failed, o)
	}
}

// quantile returns the q-quantile of the measures. Each measure is a fraction of its bound.
func quantile(ms []Measure, q float64) float64 {
	parts := make([]float64, len(ms))
	for i, m := range ms {
		parts[i] = float64(m.Took) / float64(m.Bound)
	}
	slices.Sort(parts)
	return parts[min(int(q*float64(len(parts))), len(parts)-1)]
}

// String formats the report.
func (r Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s  %s\n", name, fmt.Sprintf(format, args...))
	}
	seeds, outcome, gap := fmt.Sprint(r.First), "all clean", "none"
	if r.Runs > 1 {
		seeds += fmt.Sprintf(" to %d", r.First+uint64(r.Runs)-1)
	}
	if len(r.Failed) > 0 {
		outcome = fmt.Sprint(len(r.Failed), " failed")
	}
	if r.Gap >= 0 {
		gap = formatDuration(r.Gap)
	}
	line("seeds", "%s: %s, %s", seeds, formatCount(r.Runs, "run"), outcome)
	line("simulated", "%s in %s of CPU, %.0f x real time; %s, %.2f µs each",
		formatDuration(r.Virtual), formatDuration(r.Busy), r.Virtual.Seconds()/r.Busy.Seconds(),
		formatCount(r.Steps, "step"),
		float64(r.Busy.Microseconds())/float64(max(r.Steps, 1)))
	line("leaders", "%d chosen, %s of authority, smallest gap between two leases: %s",
		r.Versions, formatCount(r.Changes, "change"), gap)
	m := r.Messages
	line("messages", "%d sent, %d delivered, %d lost, %d cut, %d broken off, %d refused, "+
		"%d from a claimed address, %d undeliverable, %d duplicated", m.Sent, m.Delivered, m.Lost,
		m.Cut, m.Broken, m.Refused, m.Claimed, m.Dead, m.Duplicated)
	line("register", "%s of leaders accepted, %d refused", formatCount(r.Writes, "write"), r.Fenced)
	line("faults", "%s", listHappened(r.Happened))
	line("excused", "%s in which too many memory stores were lost or a copy acted, %d without a "+
		"majority at the end; %s emptied because of a later bound", formatCount(r.Void, "run"),
		r.Hopeless, formatCount(r.Emptied, "store"))
	if len(r.Measures) > 0 {
		line("took", "1 is the bound for 99 of 100 runs (protocol.md section 11; *: the simulator's own "+
			"bound); a run beyond its limit fails (docs/simulation.md)")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Measures)) {
		ms := r.Measures[name]
		if ms[0].Expected {
			name += " *"
		}
		line("", "%-26s median %.2f, p99 %.2f, max %.2f in %s",
			name, quantile(ms, 0.5), quantile(ms, 0.99), quantile(ms, 1), formatCount(len(ms), "run"))
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "\n%v\n", f)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// listHappened lists the number of faults of each class.
func listHappened(counts [classes]int) string {
	var all []string
	for i, n := range counts {
		if n > 0 {
			all = append(all, fmt.Sprint(faultNames[i], " ", n))
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func formatCount(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// formatDuration formats a duration with a suitable number of digits.
func formatDuration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}
