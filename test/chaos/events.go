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
	// drainPatience is how long nodes may need, once faults have ended and nobody
	// sends any more, until they know all outcomes.
	drainPatience = time.Minute
	// leavePatience is how long nodes may need to leave at the end.
	leavePatience = 30 * time.Second
	// progressEvery is how often a run says how far it is.
	progressEvery = 30 * time.Second
	// longEvery is how often a fault lasts longer than the time to live.
	longEvery = 10
)

// classes are the kinds of faults of a flood: each must hit at least once.
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

// slowHandler is the class of the handler that sleeps, all the time.
const slowHandler = "slow handler"

// errUnproved says that too little happened to prove anything.
var errUnproved = errors.New("not everything was checked")

// errUntold says that what became of events was not told in time.
var errUntold = errors.New("events are not as promised")

// tally of what happened during the faults of a class.
type toll struct {
	faults int
	time   time.Duration
	taken  uint64
	lost   uint64
}

// flooding is a run in which nodes send as many events as they can.
type flooding struct {
	*runner
	plan  []step // what goes wrong, once for each step
	tolls map[string]*toll
	first uint64        // events that were taken when the faults began
	took  time.Duration // from then until there were enough
	taken uint64        // in all, at that time
	told  time.Time     // when it last said how far it was
	open  []*toll       // of the last step: what it lost is told later
	lost  uint64        // events that were told lost before that
	slept uint64        // times that a handler slept
}

// runEvents floods a cluster, lets things go wrong, and checks every event.
func runEvents(ctx context.Context, o options, plan []step, out io.Writer) (err error) {
	r, err := newRunner(o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeWorld()) }()
	f := &flooding{runner: r, tolls: map[string]*toll{}, plan: plan}
	if err = writePlan(filepath.Join(o.out, planFile), f.plan); err == nil {
		err = r.runDuring(ctx, f.runPlan)
	}
	if err = errors.Join(err, f.judgeRun(err == nil)); err == nil {
		err = f.checkProved()
	}
	return err
}

// runDuring starts all nodes of a run whose events are accounted for, lets live happen, and
// ends them.
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

// newFloodPlan draws rounds of one fault of each class in any order, some with a
// second fault beside. Without a network of its own a run has only those of
// processes.
func newFloodPlan(o options) []step {
	p := planner{rand.New(rand.NewPCG(o.seed, 1)), o.nodes}
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

// ofClass draws a fault of a class; none where the run cannot have it.
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

// classOf is the class of a kind of fault.
func classOf(kind string) string {
	for _, c := range classes {
		if slices.Contains(c.kinds, kind) {
			return c.name
		}
	}
	return kind
}

// runPlan lets the plan happen until enough events were taken and every class of
// faults was there, then lets everything come to rest.
func (f *flooding) runPlan(ctx context.Context) error {
	if err := f.waitUntilCalm(ctx); err != nil {
		return err
	}
	before, err := f.sumTotals()
	if err != nil {
		return err
	}
	f.first, f.began, f.told = before.Taken, time.Now(), time.Now()
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

// floodStep is one step, and what it cost.
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
		t := f.tolls[class]
		if t == nil {
			t = &toll{}
			f.tolls[class] = t
		}
		t.faults++
		if slices.Contains(f.open, t) {
			continue // two faults of one class
		}
		t.time += time.Since(began)
		t.taken += after.Taken - before.Taken
		f.open = append(f.open, t)
	}
	return err
}

// settleLosses counts what was told lost since the last step began.
func (f *flooding) settleLosses(now tapeHead) {
	for _, t := range f.open {
		t.lost += now.Lost - f.lost
	}
	f.open, f.lost = nil, now.Lost
}

// sumTotals sums up what all nodes have sent by now.
func (f *flooding) sumTotals() (sum tapeHead, err error) {
	paths, err := filepath.Glob(filepath.Join(f.o.out, "*"+sentEnd))
	if err != nil {
		return sum, err
	}
	for _, path := range paths {
		head, err := readHead(path)
		if errors.Is(err, io.EOF) {
			continue // it is being made
		}
		if err != nil {
			return sum, err
		}
		sum.Taken += head.Taken
		sum.Lost += head.Lost
		sum.Done += head.Done
	}
	return sum, nil
}

// isEnough reports whether events and faults are enough.
func (f *flooding) isEnough() (bool, error) {
	sum, err := f.sumTotals()
	if err != nil {
		return false, err
	}
	if time.Since(f.told) > progressEvery {
		f.told = time.Now()
		f.report("after %v: %d events taken, %d lost, %d faults",
			time.Since(f.began).Round(time.Second), sum.Taken, sum.Lost, f.countFaults())
	}
	f.taken, f.took = sum.Taken, time.Since(f.began)
	return sum.Taken >= f.o.events && len(f.listMissingFaults()) == 0, nil
}

// listMissingFaults are the classes of faults that hit nobody yet.
func (f *flooding) listMissingFaults() (all []string) {
	for i, c := range classes {
		possible := slices.ContainsFunc(f.plan, func(s step) bool {
			return slices.ContainsFunc(s.Faults, func(x fault) bool {
				return classOf(x.Kind) == classes[i].name
			})
		})
		if t := f.tolls[c.name]; t == nil && (possible || !f.o.plain) {
			all = append(all, c.name)
		}
	}
	return all
}

// waitForOutcomes ends the sending and the processes, once all outcomes are known.
func (f *flooding) waitForOutcomes(ctx context.Context) error {
	f.report("the sending ends after %v: %d events taken", f.took.Round(time.Millisecond), f.taken)
	began := time.Now()
	f.sayStop()
	if err := f.waitUntilCalm(ctx); err != nil {
		return err
	}
	f.sayStop() // to one that was started again meanwhile
	isBusy := func(p *process) bool { return !p.lastReport().Idle }
	for slices.ContainsFunc(f.ps.nodes, isBusy) {
		if time.Since(began) > drainPatience {
			err := fmt.Errorf("%w: not all outcomes were told %v after the last event was sent: "+
				"the end of their senders would tell them", errUntold, drainPatience)
			return errors.Join(err, listUntold(f.o.out), f.leaveAll())
		}
		if err := waitFor(ctx, lookTick); err != nil {
			return err
		}
	}
	f.report("all outcomes told %v after the last event was sent",
		time.Since(began).Round(time.Millisecond))
	sum, err := f.sumTotals()
	f.settleLosses(sum)
	return errors.Join(err, f.leaveAll())
}

// sayStop has all nodes send no more. One that has ended is started again later.
func (f *flooding) sayStop() {
	for _, p := range f.ps.nodes {
		_, _ = io.WriteString(p.in, sayStop+"\n")
	}
}

// leaveAll ends all nodes in order.
func (r *runner) leaveAll() error {
	for _, p := range r.ps.nodes {
		p.sendSignal(syscall.SIGTERM)
	}
	late := time.After(leavePatience)
	for i, p := range r.ps.nodes {
		select {
		case <-p.ended:
		case <-late:
			return fmt.Errorf("%s has not left after %v", nodeName(i), leavePatience)
		}
	}
	return nil
}

// judgeRun checks every event, and all that a run without a flood promises; told says
// that all outcomes were told in time.
func (f *flooding) judgeRun(told bool) error {
	if err := cutTapes(f.o.out); err != nil {
		return err
	}
	p, err := checkTapes(f.o.out)
	if err != nil {
		return err
	}
	promises, err := auditFolder(f.o.out)
	if err != nil {
		return err
	}
	w := io.MultiWriter(f.out, f.log)
	for _, c := range classes {
		if t := f.tolls[c.name]; t != nil {
			fmt.Fprintf(w, "%-12s %3d faults in %6.1f s: %9d events taken, %6.0f a second; "+
				"%d told lost\n", c.name, t.faults, t.time.Seconds(), t.taken,
				float64(t.taken)/t.time.Seconds(), t.lost)
		}
	}
	f.report("%d faults, %d restarts, longest until all were active: %v (L2: %v)", f.countFaults(),
		f.restarts,
		f.slowest.Round(time.Millisecond), activeBound(f.o.config))
	f.report("%d events in %v: %.0f a second", f.taken-f.first, f.took.Round(time.Millisecond),
		float64(f.taken-f.first)/f.took.Seconds())
	p.printCounts(w, told)
	f.slept = p.slept
	promises.lacks = nil // what a flood has no evidence of is no fault
	return errors.Join(p.formVerdict(), promises.formVerdict())
}

// checkProved is an error where too little happened.
func (f *flooding) checkProved() error {
	lacking := f.listMissingFaults()
	if f.slept == 0 {
		lacking = append(lacking, slowHandler)
	}
	if f.taken < f.o.events {
		lacking = append(lacking, fmt.Sprintf("%d more events", f.o.events-f.taken))
	}
	if len(lacking) == 0 {
		return nil
	}
	return fmt.Errorf("%w: missing: %s", errUnproved, strings.Join(lacking, ", "))
}

// isFlood reports whether nodes send events of which each is accounted for.
func (o options) isFlood() bool { return o.events > 0 || o.stuck || o.rate > 0 }

// floodTask is that of a node, nil where nothing is flooded. Only the handler of
// the last one is slow.
func (o options) floodTask(node, run int) *floodTask {
	if !o.isFlood() {
		return nil
	}
	t := &floodTask{
		Run: run, Dir: o.out, Room: o.events + 1<<20, Bytes: o.payload, Stuck: o.stuck,
		Slow: node == o.nodes-1 && o.events > 0,
	}
	if o.rate > 0 {
		// Restarts are slower than any of these.
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
