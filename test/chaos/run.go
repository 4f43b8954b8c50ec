// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
)

const (
	// slack is how much longer than its bound the machine may need for what the
	// protocol promises: processes wait for processors here.
	slack = 2
	// lookTick is how often the runner looks at what nodes say.
	lookTick = 20 * time.Millisecond
	// auditEvery is how often a soak checks what there is.
	auditEvery = 15 * time.Minute

	planFile    = "plan.txt"
	journalFile = "journal.txt"
	// journalStart begins the first line of the journal, after the time; the
	// checker reads the number of nodes and of clusters from it.
	journalStart = "%d nodes, seed %d, clusters: %d"
)

// runner carries a plan out.
type runner struct {
	o     options
	world *world
	ps    *processes
	other *processes // the second cluster; nil without one
	began time.Time
	spare int       // the first so many nodes live through a soak
	out   io.Writer // for people
	log   *os.File  // what was done when

	faults   map[string]int // that hit somebody, by kind
	restarts int
	slowest  time.Duration // until all were active
	usage    [][]usage     // of each node
	audited  time.Time
}

// runChaos makes a world, lets everything go wrong in it, and checks what happened.
// What it made on the machine is gone afterwards; the evidence stays.
func runChaos(ctx context.Context, o options, out io.Writer) (err error) {
	r, err := newRunner(o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeWorld()) }()
	if err = r.startAll(); err == nil {
		err = r.runPlan(ctx)
	}
	r.ps.killAll()
	r.other.killAll()
	return errors.Join(err, r.judgeRun())
}

// newRunner makes a world, and the journal of what is done there.
func newRunner(o options, out io.Writer) (*runner, error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	if old, err := filepath.Glob(filepath.Join(o.out, "*.jsonl")); err != nil || len(old) > 0 {
		return nil, fmt.Errorf("-out %s: has evidence of another run: name another folder", o.out)
	}
	log, err := os.Create(filepath.Join(o.out, journalFile))
	if err != nil {
		return nil, err
	}
	r := &runner{
		o: o, out: out, log: log, faults: map[string]int{},
		usage: make([][]usage, o.nodes),
	}
	if o.soak {
		r.spare = 1
	}
	before := time.Now()
	if o.plain {
		r.world, err = newPlainWorld(o.nodes)
	} else {
		r.world, err = newWorld(o.nodes * o.countClusters())
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	r.report(journalStart+", %v, evidence in %s", o.nodes, o.seed, o.countClusters(), o.length, o.out)
	if !o.plain {
		r.report("%d namespaces, bridge and disks took %v",
			o.nodes*o.countClusters(), time.Since(before).Round(time.Millisecond))
	}
	if r.world.without != "" {
		r.report("left out: no memory: %s", r.world.without)
	}
	return r, nil
}

// removeWorld takes away what it made on the machine.
func (r *runner) removeWorld() error { return errors.Join(r.world.removeAll(), r.log.Close()) }

// startAll starts the registers and every node.
func (r *runner) startAll() (err error) {
	secret := cluster.NewSecret()
	if r.ps, err = startAll(r.o, r.world, 0, secret); err != nil || r.o.countClusters() == 1 {
		return err
	}
	r.other, err = startOther(r.o, r.world, secret)
	return err
}

// report says something to people and to the journal.
func (r *runner) report(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
	r.writeJournal(format, args...)
}

// writeJournal writes to the journal, with the clock of the evidence.
func (r *runner) writeJournal(format string, args ...any) {
	fmt.Fprintf(r.log, "%d "+format+"\n", append([]any{readMonotonic()}, args...)...)
}

// runPlan lets the plan happen, and waits for the end of it.
func (r *runner) runPlan(ctx context.Context) error {
	// Steps may be shorter than was thought; the clock decides where to end.
	plan := newPlan(r.o.seed, r.o.nodes, 2*r.o.length)
	if err := writePlan(filepath.Join(r.o.out, planFile), plan); err != nil {
		return err
	}
	if err := r.waitUntilCalm(ctx); err != nil {
		return err
	}
	r.began, r.audited = time.Now(), time.Now()
	for i, s := range plan {
		if time.Since(r.began) >= r.o.length {
			break
		}
		if err := r.runStep(ctx, i, s); err != nil {
			return fmt.Errorf("step %d (%v): %w", i, s, err)
		}
	}
	r.writeJournal("faults are over after %v", time.Since(r.began))
	if err := r.waitUntilCalm(ctx); err != nil {
		return err
	}
	return r.relieveDaemon(ctx)
}

// relieveDaemon lets a daemon that leads at the end leave, and come back. It does not
// write to the register: where it led all the time, nobody did.
func (r *runner) relieveDaemon(ctx context.Context) error {
	leader := r.ps.findLeader()
	if leader < 0 || !r.ps.isDaemon(leader) {
		return nil
	}
	r.writeJournal("%s leads: it leaves", nodeName(leader))
	r.ps.nodes[leader].sendSignal(syscall.SIGTERM)
	select {
	case <-r.ps.nodes[leader].ended:
	case <-time.After(slack * activeBound(r.o.config)):
		return fmt.Errorf("%s does not end after SIGTERM", nodeName(leader))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.waitUntilCalm(ctx)
}

func writePlan(path string, plan []step) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	for i, s := range plan {
		fmt.Fprintf(file, "%d: %v\n", i, s)
	}
	return file.Close()
}

func (r *runner) runStep(ctx context.Context, i int, s step) error {
	if s.Calm {
		if err := r.waitUntilCalm(ctx); err != nil {
			return err
		}
		if err := r.sampleUsage(); err != nil {
			return err
		}
	}
	if err := waitFor(ctx, s.Pause); err != nil {
		return err
	}
	if r.o.soak || r.o.events > 0 {
		r.writeJournal("step %d: %v", i, s)
	} else {
		r.report("step %d: %v", i, s)
	}
	var all []action
	for _, f := range s.Faults {
		actions := r.inflictFault(f)
		if len(actions) > 0 {
			r.faults[f.Kind]++
		}
		all = append(all, actions...)
	}
	slices.SortStableFunc(all, func(a, b action) int { return int(a.at - b.at) })
	began := time.Now()
	for k, a := range all {
		if err := waitFor(ctx, a.at-time.Since(began)); err != nil {
			return err
		}
		if r.other != nil && i < len(firstKinds) && k == len(all)-1 {
			// Nothing but the wrong seed could keep a node from its cluster.
			if err := r.waitUntilCalm(ctx); err != nil {
				return err
			}
		}
		if err := a.do(); err != nil {
			return err
		}
	}
	return r.restartAll()
}

// waitFor waits, also when there is nothing to wait for any more.
func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// restartAll wakes and starts whoever does not run: two faults of a step may have met
// in one node, and a node that could not save has ended.
func (r *runner) restartAll() error {
	for i, p := range r.ps.nodes {
		p.sendSignal(syscall.SIGCONT)
		if err := r.restartNode(i); err != nil {
			return err
		}
	}
	return nil
}

// waitUntilCalm waits until every node is active under one quorate leader of its cluster.
func (r *runner) waitUntilCalm(ctx context.Context) error {
	began, after := time.Now(), readMonotonic()
	bound := slack * activeBound(r.o.config)
	for !r.ps.areActive(after) || !r.other.areActive(after) {
		if took := time.Since(began); took > bound {
			r.tellReports("", r.ps)
			r.tellReports("other ", r.other)
			return fmt.Errorf("not all nodes are active after %v without faults (L2 bounds that by %v)",
				took.Round(time.Millisecond), activeBound(r.o.config))
		}
		if err := waitFor(ctx, lookTick); err != nil {
			return err
		}
		// One that was leaving when it was to be started again.
		if err := r.restartAll(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	r.slowest = max(r.slowest, took)
	r.writeJournal("all active after %v", took)
	return nil
}

// tellReports tells what each node of a cluster reported last.
func (r *runner) tellReports(prefix string, ps *processes) {
	if ps == nil {
		return
	}
	for i, p := range ps.nodes {
		r.report("%s%s: alive %v, said %+v", prefix, nodeName(i), p.isAlive(), p.lastReport())
	}
}

// sampleUsage notes what nodes use. A soak also checks now and then what there is.
func (r *runner) sampleUsage() error {
	if !r.o.soak {
		return nil
	}
	for i := range r.ps.nodes {
		if u, ok := r.usageOf(i); ok {
			r.usage[i] = append(r.usage[i], u)
			r.writeJournal("%s uses %.0f goroutines, %.0f files, %.0f bytes",
				nodeName(i), u.goroutines, u.files, u.bytes)
		}
	}
	if time.Since(r.audited) < auditEvery {
		return nil
	}
	r.audited = time.Now()
	f, err := auditFolder(r.o.out)
	if err != nil {
		return err
	}
	r.report("after %v: %d faults, %d changes of the leader, all active",
		time.Since(r.began).Round(time.Second), r.countFaults(), f.countChanges())
	return f.formVerdict()
}

func (r *runner) countFaults() (n int) {
	for _, c := range r.faults {
		n += c
	}
	return n
}

// judgeRun tells what happened, and what of it should not have.
func (r *runner) judgeRun() error {
	f, err := auditFolder(r.o.out)
	if err != nil {
		return err
	}
	r.report("faults: %d", r.countFaults())
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		r.report("  %-12s %d", kind, r.faults[kind])
	}
	r.report("restarts: %d; longest until all were active: %v (L2: %v)",
		r.restarts, r.slowest.Round(time.Millisecond), activeBound(r.o.config))
	f.printFindings(io.MultiWriter(r.out, r.log))
	faults := []error{f.formVerdict()}
	if r.countFaults() < r.o.minFaults || f.countChanges() < r.o.minChanges {
		faults = append(faults, fmt.Errorf("only %d faults and %d changes of the leader, want %d and %d",
			r.countFaults(), f.countChanges(), r.o.minFaults, r.o.minChanges))
	}
	if r.o.soak {
		var all []slope
		for i, samples := range r.usage {
			all = append(all, findSlopes(nodeName(i), samples)...)
		}
		faults = append(faults, printSlopes(io.MultiWriter(r.out, r.log), all))
	}
	return errors.Join(faults...)
}
