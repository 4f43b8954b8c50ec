// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// drainTimeout is the time for nodes to learn all outcomes after the faults and the sending have
	// ended.
	drainTimeout = time.Minute
	// leaveTimeout is the time for nodes to leave at the end.
	leaveTimeout = 30 * time.Second
	// progressEvery is the interval of progress reports.
	progressEvery = 30 * time.Second
	// One fault in longEvery lasts longer than the TTL.
	longEvery = 10
)

// classes are the classes of faults of a flood. Each of them must occur.
var classes = []struct {
	name  string
	kinds []string
}{
	{"partition", []string{"isolate", "split", "cut link", "bridge", "ring", "flap"}},
	{"one way", []string{"deaf", "mute", "cut one way"}},
	{"loss", []string{"loss", "loss at one"}},
	{"kill", []string{"kill", "kill several"}},
	{"stop", []string{"stop", "stutter"}},
	{"leave", []string{"leave"}},
}

// slowHandler is the class of sleeping handlers, which every flood has.
const slowHandler = "slow handler"

// errUnproved means that too little happened to prove anything.
var errUnproved = errors.New("not everything was checked")

// errNoOutcomes means that the outcomes of some events were not reported in time.
var errNoOutcomes = errors.New("a promise about events was broken")

// classCost counts what happened during the faults of a class.
type classCost struct {
	faults   int
	time     time.Duration
	accepted uint64
	lost     uint64
}

// flooding is a run in which nodes send events as fast as they can.
type flooding struct {
	*runner
	plan       []step // the steps with faults
	costs      map[string]*classCost
	first      uint64        // events accepted when the faults began
	took       time.Duration // time from the beginning until enough events were accepted
	accepted   uint64        // events accepted in that time
	reportedAt time.Time     // time of the last progress report
	open       []*classCost  // classes of the last step, whose losses are reported later
	lost       uint64        // events reported lost before the last step
	slept      uint64        // number of times that a handler slept
}

// runEvents floods a cluster, injects faults, and checks every event.
func runEvents(ctx context.Context, o options, plan []step, out io.Writer) (err error) {
	r, err := newRunner(o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeWorld()) }()
	f := &flooding{runner: r, costs: map[string]*classCost{}, plan: plan}
	if err = writePlan(filepath.Join(o.out, planFile), f.plan); err == nil {
		err = r.runDuring(ctx, f.runPlan)
	}
	if err = errors.Join(err, f.judgeRun(err == nil)); err == nil {
		err = f.checkProved()
	}
	return err
}

// runDuring starts all nodes of a flood, calls the function live, and kills them.
func (r *runner) runDuring(ctx context.Context, live func(context.Context) error) error {
	err := os.WriteFile(filepath.Join(r.o.out, killedFile), nil, 0o644)
	if err != nil {
		return err
	}
	if err = r.startAll(); err == nil {
		err = live(ctx)
	}
	r.ps.killAll()
	return err
}

// newFloodPlan draws rounds. Each round has one fault of every class, in any order, and sometimes a
// second fault at the same time. A run without its own network only has faults of processes.
func newFloodPlan(o options) []step {
	p := planner{rand.New(rand.NewPCG(o.seed, 1)), o.nodes, nil}
	var steps []step
	for sum := time.Duration(0); sum < 2*o.length; {
		order := p.rand.Perm(len(classes))
		for _, class := range order {
			s := step{Pause: p.drawBetween(200*ms, 1500*ms), Calm: len(steps)%calmEvery == calmEvery-1}
			s.Faults = p.ofClass(class, o)
			if p.rand.IntN(3) == 0 {
				s.Faults = append(s.Faults, p.ofClass(p.rand.IntN(len(classes)), o)...)
			}
			if len(s.Faults) > 0 {
				steps = append(steps, s)
				sum += s.totalLength()
			}
		}
	}
	return steps
}

// ofClass draws a fault of a class. It returns no fault if the run cannot have such a fault.
func (p *planner) ofClass(class int, o options) []fault {
	kinds := classes[class].kinds
	kind := kinds[p.rand.IntN(len(kinds))]
	for _, w := range weights {
		if w.kind != kind || w.minSize > o.nodes || o.plain && isOfNetwork(kind) {
			continue
		}
		if p.rand.IntN(longEvery) == 0 {
			w.min, w.max = o.config.TTLTimeout, 3*o.config.TTLTimeout/2
		}
		return []fault{p.drawFault(w)}
	}
	return nil
}

func isOfNetwork(kind string) bool { return shapes[kind] != nil || strings.HasPrefix(kind, "loss") }

// classOf returns the class of a kind of fault.
func classOf(kind string) string {
	for _, c := range classes {
		if slices.Contains(c.kinds, kind) {
			return c.name
		}
	}
	return kind
}

// runPlan runs the plan until enough events were accepted and every class of faults has occurred.
// It then waits for all outcomes.
func (f *flooding) runPlan(ctx context.Context) error {
	if err := f.waitUntilCalm(ctx); err != nil {
		return err
	}
	before, err := f.sumTotals()
	if err != nil {
		return err
	}
	f.first, f.began, f.reportedAt = before.Accepted, time.Now(), time.Now()
	for i, s := range f.plan {
		done, err := f.isEnough()
		if err != nil {
			return err
		}
		if done || time.Since(f.began) > f.o.length {
			break
		}
		if err := f.floodStep(ctx, i, s); err != nil {
			return fmt.Errorf("step %d (%v): %w", i, s, err)
		}
	}
	for time.Since(f.began) < f.o.length {
		done, err := f.isEnough()
		if err == nil && !done {
			err = waitFor(ctx, lookTick)
		}
		if done || err != nil {
			return errors.Join(err, f.waitForOutcomes(ctx))
		}
	}
	return f.waitForOutcomes(ctx)
}

// floodStep runs one step and measures its cost.
func (f *flooding) floodStep(ctx context.Context, i int, s step) error {
	if s.Calm {
		if err := f.waitUntilCalm(ctx); err != nil {
			return err
		}
	}
	if err := waitFor(ctx, s.Pause); err != nil {
		return err
	}
	s.Calm, s.Pause = false, 0
	before, err := f.sumTotals()
	if err != nil {
		return err
	}
	f.settleLosses(before)
	began := time.Now()
	if err := f.runStep(ctx, i, s); err != nil {
		return err
	}
	after, err := f.sumTotals()
	for _, fault := range s.Faults {
		class := classOf(fault.Kind)
		t := f.costs[class]
		if t == nil {
			t = &classCost{}
			f.costs[class] = t
		}
		t.faults++
		if slices.Contains(f.open, t) {
			continue // already counted: two faults of the step have the same class
		}
		t.time += time.Since(began)
		t.accepted += after.Accepted - before.Accepted
		f.open = append(f.open, t)
	}
	return err
}

// settleLosses attributes the losses since the beginning of the last step to its classes.
func (f *flooding) settleLosses(now recordingHead) {
	for _, t := range f.open {
		t.lost += now.Lost - f.lost
	}
	f.open, f.lost = nil, now.Lost
}

// sumTotals adds up what all nodes have sent so far.
func (f *flooding) sumTotals() (sum recordingHead, err error) {
	paths, err := filepath.Glob(filepath.Join(f.o.out, "*"+sentEnd))
	if err != nil {
		return sum, err
	}
	for _, path := range paths {
		head, err := readHead(path)
		if errors.Is(err, io.EOF) {
			continue // the recording is being created
		}
		if err != nil {
			return sum, err
		}
		sum.Accepted += head.Accepted
		sum.Lost += head.Lost
		sum.Done += head.Done
	}
	return sum, nil
}

// isEnough reports whether enough events and faults have occurred.
func (f *flooding) isEnough() (bool, error) {
	sum, err := f.sumTotals()
	if err != nil {
		return false, err
	}
	if time.Since(f.reportedAt) > progressEvery {
		f.reportedAt = time.Now()
		f.report("after %v: %d events accepted, %d lost, %d faults",
			time.Since(f.began).Round(time.Second), sum.Accepted, sum.Lost, f.countFaults())
	}
	f.accepted, f.took = sum.Accepted, time.Since(f.began)
	return sum.Accepted >= f.o.events && len(f.listMissingFaults()) == 0, nil
}

// listMissingFaults lists the classes of faults that have not occurred yet.
func (f *flooding) listMissingFaults() (all []string) {
	for i, c := range classes {
		possible := slices.ContainsFunc(f.plan, func(s step) bool {
			return slices.ContainsFunc(s.Faults, func(x fault) bool {
				return classOf(x.Kind) == classes[i].name
			})
		})
		if t := f.costs[c.name]; t == nil && (possible || !f.o.plain) {
			all = append(all, c.name)
		}
	}
	return all
}

// waitForOutcomes stops the sending, waits for all outcomes, and ends the processes.
func (f *flooding) waitForOutcomes(ctx context.Context) error {
	f.report("sending ended after %v: %d events accepted", f.took.Round(time.Millisecond), f.accepted)
	began := time.Now()
	f.stopSending()
	if err := f.waitUntilCalm(ctx); err != nil {
		return err
	}
	f.stopSending() // repeated for nodes that were restarted in the meantime
	isBusy := func(p *process) bool { return !p.lastReport().Idle }
	for slices.ContainsFunc(f.ps.nodes, isBusy) {
		if time.Since(began) > drainTimeout {
			err := fmt.Errorf("%w: some outcomes are still missing %v after the last event was sent "+
				"(a sender that stops would report them)", errNoOutcomes, drainTimeout)
			return errors.Join(err, listPending(f.o.out), f.leaveAll())
		}
		if err := waitFor(ctx, lookTick); err != nil {
			return err
		}
	}
	f.report("all outcomes reported %v after the last event was sent",
		time.Since(began).Round(time.Millisecond))
	sum, err := f.sumTotals()
	f.settleLosses(sum)
	return errors.Join(err, f.leaveAll())
}

// stopSending makes all nodes stop sending. It skips nodes that have ended, which are restarted
// later.
func (f *flooding) stopSending() {
	for _, p := range f.ps.nodes {
		_, _ = io.WriteString(p.in, lineStop+"\n")
	}
}

// leaveAll makes all nodes leave.
func (r *runner) leaveAll() error {
	for _, p := range r.ps.nodes {
		p.sendSignal(syscall.SIGTERM)
	}
	late := time.After(leaveTimeout)
	for i, p := range r.ps.nodes {
		select {
		case <-p.ended:
		case <-late:
			return fmt.Errorf("%s had not left after %v", nodeName(i), leaveTimeout)
		}
	}
	return nil
}

// judgeRun checks every event, and the promises that every run checks. complete means that all
// outcomes were reported in time.
func (f *flooding) judgeRun(complete bool) error {
	if err := truncateRecordings(f.o.out); err != nil {
		return err
	}
	p, err := checkRecordings(f.o.out)
	if err != nil {
		return err
	}
	promises, err := auditFolder(f.o.out)
	if err != nil {
		return err
	}
	w := io.MultiWriter(f.out, f.log)
	for _, c := range classes {
		if t := f.costs[c.name]; t != nil {
			fmt.Fprintf(w, "%-12s %3d faults in %6.1f s: %9d events accepted, %6.0f per second; "+
				"%d reported lost\n", c.name, t.faults, t.time.Seconds(), t.accepted,
				float64(t.accepted)/t.time.Seconds(), t.lost)
		}
	}
	f.report("%d faults, %d restarts; longest time until all were active: %v (L2: %v)",
		f.countFaults(), f.restarts,
		f.slowest.Round(time.Millisecond), activeBound(f.o.config))
	f.report("%d events in %v: %.0f per second", f.accepted-f.first, f.took.Round(time.Millisecond),
		float64(f.accepted-f.first)/f.took.Seconds())
	p.printCounts(w, complete)
	f.slept = p.slept
	promises.lacks = nil // a flood records less evidence on purpose
	return errors.Join(p.formVerdict(), promises.formVerdict())
}

// checkProved returns an error if too little happened.
func (f *flooding) checkProved() error {
	lacking := f.listMissingFaults()
	if f.slept == 0 {
		lacking = append(lacking, slowHandler)
	}
	if f.accepted < f.o.events {
		lacking = append(lacking, fmt.Sprintf("%d more events", f.o.events-f.accepted))
	}
	if len(lacking) == 0 {
		return nil
	}
	return fmt.Errorf("%w: missing: %s", errUnproved, strings.Join(lacking, ", "))
}

// isFlood reports whether the run accounts for each event.
func (o options) isFlood() bool { return o.events > 0 || o.stuck || o.rate > 0 }

// floodTask returns the flood task of a node, or nil without a flood. Only the handler of the
// last node is slow.
func (o options) floodTask(node, run int) *floodTask {
	if !o.isFlood() {
		return nil
	}
	t := &floodTask{
		Run: run, Dir: o.out, Room: o.events + 1<<20, Bytes: o.payload, Stuck: o.stuck,
		Slow: node == o.nodes-1 && o.events > 0,
	}
	if o.rate > 0 {
		t.Work = true
		// Restarts take longer than any of these pauses.
		pairs := o.nodes * (o.nodes - 1)
		t.Every = time.Duration(pairs) * time.Second / time.Duration(o.rate)
	}
	for i := range o.nodes {
		if i != node && !o.stuck {
			t.To = append(t.To, nodeName(i))
		}
	}
	return t
}
