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
	"strings"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
)

const (
	// slack multiplies the bounds of the protocol, because the processes here wait for CPUs.
	slack = 2
	// lookTick is the interval at which the runner checks the reports of nodes.
	lookTick = 20 * time.Millisecond
	// auditEvery is the interval at which a soak checks its evidence.
	auditEvery = 15 * time.Minute

	planFile    = "plan.txt"
	journalFile = "journal.txt"
	// journalStart is the text of the journal's first line after the time. The checker reads the
	// numbers of nodes and clusters from that line.
	journalStart = "%d nodes, seed %d, clusters: %d"
)

// runner executes a plan.
type runner struct {
	o     options
	world *world
	ps    *processes
	other *processes // the second cluster; nil without one
	began time.Time
	spare int       // number of nodes that a soak does not restart, counted from the first
	out   io.Writer // for the user
	log   *os.File  // the journal

	faults   map[string]int // number of faults that affected a node, by kind
	restarts int
	slowest  time.Duration // the longest wait until all nodes were active
	usage    [][]usage     // samples of each node
	audited  time.Time

	claimants [claimHosts]*claimant // by host; nil if the host is free
}

// runChaos creates a world, injects faults, and checks the evidence. It removes everything that
// it created on the machine except the evidence.
func runChaos(ctx context.Context, o options, out io.Writer) (err error) {
	r, err := newRunner(o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeWorld()) }()
	if err = r.startAll(); err == nil {
		err = r.runPlan(ctx)
	}
	r.killClaimants()
	r.ps.killAll()
	r.other.killAll()
	return errors.Join(err, r.judgeRun())
}

// newRunner creates a world and its journal.
func newRunner(o options, out io.Writer) (*runner, error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	if old, err := filepath.Glob(filepath.Join(o.out, "*.jsonl")); err != nil || len(old) > 0 {
		return nil, fmt.Errorf("-out %s: contains the evidence of another run: use another directory",
			o.out)
	}
	if old, err := filepath.Glob(filepath.Join(o.history, "*")); o.history != "" &&
		(err != nil || len(old) > 0) {
		return nil, fmt.Errorf("-history %s: not empty: use another directory", o.history)
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
		r.world, err = newWorld(o.nodes*o.countClusters(), o.countGuests())
	}
	if err == nil && o.names {
		if err = r.world.startNames(); err != nil {
			err = errors.Join(err, r.world.removeAll())
		}
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	r.report(journalStart+", %v, evidence in %s", o.nodes, o.seed, o.countClusters(), o.length, o.out)
	if !o.plain {
		r.report("creating %d namespaces, the bridge and the disks took %v",
			o.nodes*o.countClusters()+o.countGuests(), time.Since(before).Round(time.Millisecond))
		if why := r.world.unfrozen; why != nil {
			r.report("frozen and slow disks are left out: %v", why)
		}
	}
	if r.world.without != "" {
		r.report("memory faults are left out: %s", r.world.without)
	}
	if o.nemesis > 0 && !canShiftClocks() {
		r.report("shifted clocks are left out: this kernel has no time namespaces")
	}
	return r, nil
}

// removeWorld removes everything that the run created on the machine.
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

// report prints a line for the user and writes it to the journal.
func (r *runner) report(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
	r.writeJournal(format, args...)
}

// writeJournal writes a line to the journal, with the time of the evidence's clock.
func (r *runner) writeJournal(format string, args ...any) {
	fmt.Fprintf(r.log, "%d "+format+"\n", append([]any{readMonotonic()}, args...)...)
}

// runPlan runs the plan and waits until all nodes are active.
func (r *runner) runPlan(ctx context.Context) error {
	// Steps may be shorter than estimated; the clock ends the run.
	plan := newPlan(r.o.seed, r.o.nodes, 2*r.o.length, r.o.only)
	if r.o.nemesis > 0 {
		plan = newSchedule(r.o)
	}
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
	r.writeJournal("faults ended after %v", time.Since(r.began))
	if err := r.waitUntilCalm(ctx); err != nil {
		return err
	}
	return r.relieveDaemon(ctx)
}

// relieveDaemon restarts a daemon that leads at the end. If the daemon led all the time, the
// register would have no writes, because a daemon does not write to it.
func (r *runner) relieveDaemon(ctx context.Context) error {
	leader := r.ps.findLeader()
	if leader < 0 || !r.ps.isDaemon(leader) {
		return nil
	}
	r.writeJournal("%s leads and is asked to leave", nodeName(leader))
	r.ps.nodes[leader].sendSignal(syscall.SIGTERM)
	select {
	case <-r.ps.nodes[leader].ended:
	case <-time.After(slack * activeBound(r.o.config)):
		return fmt.Errorf("%s did not exit after SIGTERM", nodeName(leader))
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
		first := len(r.o.only) == 0 && i < len(firstKinds) && s.Faults[0].Kind == firstKinds[i]
		if first && k == len(all)-1 || endsDespiteClaims(all[k:]) {
			// Only the wrong seed, or a typo, can still keep a node out of its cluster.
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

// waitFor waits for d or until ctx is done.
func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// restartAll resumes and starts all nodes. Two faults of a step may have affected the same node,
// and a node that could not save has stopped.
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
			r.printReports("", r.ps)
			r.printReports("other ", r.other)
			return fmt.Errorf("not all nodes are active after %v without faults (limit of L2: %v)",
				took.Round(time.Millisecond), activeBound(r.o.config))
		}
		if err := waitFor(ctx, lookTick); err != nil {
			return err
		}
		// Restart a node that was still leaving at its last restart.
		if err := r.restartAll(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	r.slowest = max(r.slowest, took)
	r.writeJournal("all active after %v", took)
	return nil
}

// printReports prints the latest report of each node of a cluster.
func (r *runner) printReports(prefix string, ps *processes) {
	if ps == nil {
		return
	}
	for i, p := range ps.nodes {
		r.report("%s%s: running: %v, last report: %+v", prefix, nodeName(i), p.isAlive(), p.lastReport())
	}
}

// sampleUsage records the usage of the nodes. A soak also checks its evidence periodically.
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
	r.report("after %v: %d faults, %d leader changes, all active",
		time.Since(r.began).Round(time.Second), r.countFaults(), f.countChanges())
	return f.formVerdict()
}

func (r *runner) countFaults() (n int) {
	for _, c := range r.faults {
		n += c
	}
	return n
}

// countAnnouncedEnds counts the runs of the first cluster whose end was announced.
func (r *runner) countAnnouncedEnds() (n int, err error) {
	for i := range r.o.nodes {
		log, err := os.ReadFile(filepath.Join(r.o.out, nodeName(i)+".log"))
		if err != nil {
			return 0, err
		}
		n += strings.Count(string(log), "announced that the process of this node has ended")
	}
	return n, nil
}

// judgeRun checks the evidence and prints the results.
func (r *runner) judgeRun() error {
	f, err := auditFolder(r.o.out)
	if err != nil {
		return err
	}
	r.report("faults: %d", r.countFaults())
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		r.report("  %-12s %d", kind, r.faults[kind])
	}
	r.report("restarts: %d; longest time until all were active: %v (L2: %v)",
		r.restarts, r.slowest.Round(time.Millisecond), activeBound(r.o.config))
	announced, err := r.countAnnouncedEnds()
	if err != nil {
		return err
	}
	r.report("announced ends: %d", announced)
	f.printFindings(io.MultiWriter(r.out, r.log))
	faults := []error{f.formVerdict()}
	if r.countFaults() < r.o.minFaults || f.countChanges() < r.o.minChanges {
		faults = append(faults, fmt.Errorf("only %d faults and %d leader changes, want at least %d and "+
			"%d", r.countFaults(), f.countChanges(), r.o.minFaults, r.o.minChanges))
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
