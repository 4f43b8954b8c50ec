// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/athena-go/athena/member"
)

// handOver is the default of the longest permitted time without a leader while the leader restarts.
// A leaving leader names its successor, so that no node waits for a timeout.
const handOver = 50 * time.Millisecond

// turns are what a run does to its nodes, one after another.
type turns interface {
	disturbNode(ctx context.Context, node int) error
	finishTurns(ctx context.Context) error // after the last turn, before the nodes are stopped
	judgeRun() error
}

// turnRun disturbs its nodes in turn.
type turnRun struct {
	*runner
	turns
	rounds int   // least number of rounds
	from   int64 // when the first turn began
}

// runInTurns disturbs each node once, and again until the time is over, and judges the run.
func runInTurns(
	ctx context.Context, o options, out io.Writer, newTurns func(*turnRun) turns,
) (err error) {
	r, err := newRunner(o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeWorld()) }()
	s := &turnRun{runner: r, rounds: 1}
	s.turns = newTurns(s)
	err = os.WriteFile(filepath.Join(o.out, planFile), []byte("each node in order\n"), 0o644)
	if err == nil {
		err = r.runDuring(ctx, s.runRounds)
	}
	if err != nil {
		return err
	}
	return s.turns.judgeRun()
}

func (s *turnRun) runRounds(ctx context.Context) error {
	if err := s.waitUntilCalm(ctx); err != nil {
		return err
	}
	s.from, s.began = readMonotonic(), time.Now()
	for n := 0; n < s.rounds || time.Since(s.began) < s.o.length; n++ {
		for node := range s.ps.nodes {
			if err := s.turns.disturbNode(ctx, node); err != nil {
				return err
			}
		}
	}
	return s.turns.finishTurns(ctx)
}

// rollingRun restarts every node in turn while all nodes send, lead a job, take a lock and run
// shards. With a previous program, each round changes the program of every node.
type rollingRun struct {
	*turnRun
	steps []rollingStep
}

// rollingStep is a planned restart of one node.
type rollingStep struct {
	node     int
	at       int64 // when the node was asked to leave
	led      bool
	previous bool // the node then runs the program of the release before
}

// runRolling restarts the nodes one at a time with SIGTERM. Before each restart, all nodes must be
// active and vote again. It checks the events, the terms and the changes of leader.
func runRolling(ctx context.Context, o options, out io.Writer) error {
	return runInTurns(ctx, o, out, func(t *turnRun) turns {
		if o.previous != "" {
			t.rounds = 2
		}
		return &rollingRun{turnRun: t}
	})
}

// finishTurns waits until all events have an outcome.
func (s *rollingRun) finishTurns(ctx context.Context) error {
	f := flooding{runner: s.runner, costs: map[string]*classCost{}}
	sent, err := f.sumTotals()
	f.accepted, f.took = sent.Accepted, time.Since(s.began)
	return errors.Join(err, f.waitForOutcomes(ctx))
}

func (s *rollingRun) disturbNode(ctx context.Context, node int) error {
	// Before LeaseTimeout, a restarted node does not vote for a new leader (protocol.md section 5). If
	// two of three nodes had just restarted, the third could not hand over leadership.
	if err := waitFor(ctx, s.o.config.WithDefaults().LeaseTimeout); err != nil {
		return err
	}
	if s.o.previous != "" {
		s.ps.isPrevious[node] = !s.ps.isPrevious[node]
	}
	leads := s.ps.findLeader() == node
	s.steps = append(s.steps, rollingStep{node, readMonotonic(), leads, s.ps.isPrevious[node]})
	s.writeJournal("restart %s (leader: %t; previous program: %t)", nodeName(node), leads,
		s.ps.isPrevious[node])
	s.ps.nodes[node].sendSignal(syscall.SIGTERM)
	select {
	case <-s.ps.nodes[node].ended:
	case <-time.After(leaveTimeout):
		return fmt.Errorf("%s had not left after %v", nodeName(node), leaveTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.waitUntilCalm(ctx); err != nil {
		return err
	}
	return s.checkProgram(node)
}

// checkProgram checks that a node runs the program that the step names.
func (s *rollingRun) checkProgram(node int) error {
	runs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", s.ps.nodes[node].cmd.Process.Pid))
	if err != nil {
		return err
	}
	want, err := os.Stat(s.ps.programOf(node))
	if err == nil && !os.SameFile(runs, want) {
		err = fmt.Errorf("%s does not run %s", nodeName(node), s.ps.programOf(node))
	}
	return err
}

// judgeRun checks each event, the promises that every run checks, and the changes of leader.
func (s *rollingRun) judgeRun() error {
	if err := truncateRecordings(s.o.out); err != nil {
		return err
	}
	p, err := checkRecordings(s.o.out)
	if err != nil {
		return err
	}
	f, err := auditFolder(s.o.out)
	if err != nil {
		return err
	}
	f.lacks = nil // a flood records less evidence on purpose
	p.printCounts(io.MultiWriter(s.out, s.log), true)
	terms := termsOf(f.holds, s.from)
	leaders := s.printSteps(f)
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	changes, longest := countLeaderless(terms)
	s.report("%d restarts, %d of them of the leader; %d leader changes; at most %v without "+
		"a leader; load %s", s.restarts, leaders, changes, longest.Round(10*time.Microsecond),
		strings.Fields(string(load))[0])
	faults := []error{p.formVerdict(), f.formVerdict(), f.checkRecordTerms()}
	if changes > leaders {
		faults = append(faults, fmt.Errorf("%d leader changes, but only %d restarts of a leader",
			changes, leaders))
	}
	if longest > s.o.handOver {
		faults = append(faults, fmt.Errorf("no leader for %v, want at most %v",
			longest, s.o.handOver))
	}
	if changes == 0 || p.done == 0 {
		faults = append(faults, fmt.Errorf("%w: %d leader changes, %d events handled",
			errUnproved, changes, p.done))
	}
	return errors.Join(faults...)
}

// printSteps prints how long each step left the cluster without a leader, its register without a
// write, and the job, the lock and each shard without a holder. It returns the number of restarts
// of a leader.
func (s *rollingRun) printSteps(f *findings) (leaders int) {
	s.report("%4s  %-15s  %-6s%11s%11s%11s%11s%11s", "step", "restart", "leader",
		"no leader", "no write", "no job", "no lock", "no shard")
	for i, step := range s.steps {
		until := int64(math.MaxInt64)
		if i+1 < len(s.steps) {
			until = s.steps[i+1].at
		}
		pause := func(holds []hold) float64 {
			return longestPause(termsOf(holds, s.from), step.at, until).Seconds() * 1000
		}
		shard := 0.0
		for i := range rollingShards {
			shard = max(shard, pause(f.recordOf(shardKey(i)).holds))
		}
		program, led := "", "no"
		if s.o.previous != "" {
			program = " to this"
		}
		if step.previous {
			program = " to previous"
		}
		if step.led {
			led, leaders = "yes", leaders+1
		}
		s.report("%4d  %-15s  %-6s%8.1f ms%8.1f ms%8.1f ms%8.1f ms%8.1f ms", i+1,
			nodeName(step.node)+program, led, pause(f.holds),
			longestPause(f.written, step.at, until).Seconds()*1000,
			pause(f.recordOf(jobKey).holds), pause(f.recordOf(lockKey).holds), shard)
	}
	return leaders
}

// checkRecordTerms checks that each record changed its holder, and that the holders wrote. The
// findings already contain broken promises.
func (f *findings) checkRecordTerms() error {
	for _, key := range recordKeys() {
		if r := f.recordOf(key); len(r.tokens) < 2 || r.writes[accepted] == 0 {
			return fmt.Errorf("%w: %s: %d tokens, %d writes", errUnproved, key, len(r.tokens),
				r.writes[accepted])
		}
	}
	return nil
}

// termsOf merges the intervals of authority of each token. It returns the merged intervals that do
// not end before the given time, ordered by token.
func termsOf(holds []hold, from int64) (terms []hold) {
	byToken := map[uint64]hold{}
	for _, h := range holds {
		begin, end := h.earliestEnd(), h.latest()
		if known, ok := byToken[h.token]; ok {
			begin, end = min(begin, known.begin), max(end, known.end)
		}
		h.begin, h.end = begin, end
		byToken[h.token] = h
	}
	for _, h := range byToken {
		if h.end >= from {
			terms = append(terms, h)
		}
	}
	slices.SortFunc(terms, func(a, b hold) int { return cmp.Compare(a.token, b.token) })
	return terms
}

// countLeaderless counts the changes of leader and returns the longest time between two terms.
func countLeaderless(terms []hold) (changes int, longest time.Duration) {
	return max(0, len(terms)-1), longestPause(terms, 0, math.MaxInt64)
}

// longestPause returns the longest time between two terms, if the later one began in the interval.
func longestPause(terms []hold, from, until int64) (longest time.Duration) {
	for i := 1; i < len(terms); i++ {
		if terms[i].begin >= from && terms[i].begin < until {
			longest = max(longest, time.Duration(terms[i].begin-terms[i-1].end))
		}
	}
	return longest
}

// The nodes of a run with two hosts and a small third. The first host should lead, and the third
// node is a witness.
const (
	preferredNode = iota
	secondNode
	witnessNode
	witnessNodes // their number
)

// preferenceOf returns the preference of a node in such a run.
func preferenceOf(node int) member.Preference {
	return [witnessNodes]member.Preference{1, 0, member.NeverLeads}[node]
}

// singleFailures are the failures of a witness run, a round for each. Those from firstOfNetwork on
// need a network of their own. The link that is cut is that to the next node.
var singleFailures = []string{"kill", "stop", "isolate", cutLink}

const (
	cutLink        = "cut link"
	firstOfNetwork = 2
)

// witnessRun lets each of three nodes fail in turn.
type witnessRun struct {
	*turnRun
	turn   int // number of failures
	losses int // failures of a leader
	backs  int // hand-overs to the preferred node
}

// runWitness lets each node fail in turn. Whichever it is, a host leads. The preferred host leads
// again after its failure if that is configured, and only then.
func runWitness(ctx context.Context, o options, out io.Writer) error {
	return runInTurns(ctx, o, out, func(t *turnRun) turns { return &witnessRun{turnRun: t} })
}

func (*witnessRun) finishTurns(context.Context) error { return nil }

// disturbNode makes a node fail, waits for a leader, and ends the failure.
func (s *witnessRun) disturbNode(ctx context.Context, node int) error {
	if s.turn == 0 && s.o.back > 0 && s.ps.findLeader() != preferredNode { // the first leader
		if err := s.awaitPreferred(ctx); err != nil {
			return err
		}
	}
	// A restarted node does not vote before this time (protocol.md section 5).
	if err := waitFor(ctx, 2*s.o.config.WithDefaults().LeaseTimeout); err != nil {
		return err
	}
	limit := 10 * s.o.config.LeaderTimeout
	hasLeader := func() bool { return s.ps.findLeader() >= 0 }
	if err := s.waitUntil(ctx, limit, hasLeader, "leader"); err != nil {
		return err
	}
	kinds := singleFailures
	if s.o.plain {
		kinds = kinds[:firstOfNetwork]
	}
	kind := kinds[s.turn/witnessNodes%len(kinds)]
	s.turn++
	before := s.ps.findLeader()
	s.writeJournal("%s leads", nodeName(before))
	order := []int{node, (node + 1) % witnessNodes, (node + 2) % witnessNodes}
	failure := s.inflictFault(fault{Kind: kind, Order: order})
	if err := failure[0].do(); err != nil {
		return err
	}
	replaced := before == node && kind != cutLink
	if replaced {
		s.losses++
	}
	leads := func() bool {
		leader := s.ps.findLeader()
		return leader >= 0 && (leader == before) != replaced
	}
	what := "leader after " + kind + " of " + nodeName(node)
	// The failure lasts after a leader was elected, so that the nodes notice all its effects.
	err := errors.Join(s.waitUntil(ctx, limit, leads, what),
		waitFor(ctx, s.o.config.LeaderTimeout), s.waitUntil(ctx, limit, leads, what))
	before = s.ps.findLeader()
	if err := errors.Join(err, failure[1].do()); err != nil {
		return err
	}
	if err := s.waitUntilCalm(ctx); err != nil || s.o.back == 0 || before == preferredNode {
		return err // judgeRun counts the changes of leader
	}
	return s.awaitPreferred(ctx)
}

// awaitPreferred waits until the preferred host leads again, and counts that.
func (s *witnessRun) awaitPreferred(ctx context.Context) error {
	s.backs++
	return s.waitUntil(ctx, s.o.back+10*s.o.config.LeaderTimeout, func() bool {
		return s.ps.findLeader() == preferredNode
	}, "return of the preferred leader")
}

// waitUntil waits until a condition holds.
func (s *witnessRun) waitUntil(
	ctx context.Context, limit time.Duration, holds func() bool, what string,
) error {
	for began := time.Now(); !holds(); {
		if time.Since(began) > limit {
			return fmt.Errorf("no %s within %v", what, limit)
		}
		if err := waitFor(ctx, lookTick); err != nil {
			return err
		}
	}
	return nil
}

// judgeRun checks the promises that every run checks, that the witness never led, and that the
// leader changed only because it failed or because the preferred one returned.
func (s *witnessRun) judgeRun() error {
	f, err := auditFolder(s.o.out)
	if err != nil {
		return err
	}
	f.lacks = nil // these nodes send no events
	s.report("%d failures, %d of them of the leader; %d returns of the preferred leader",
		s.turn, s.losses, s.backs)
	faults := []error{f.formVerdict(), checkLeaders(f.holds, s.from, s.losses+s.backs)}
	if s.losses == 0 {
		faults = append(faults, fmt.Errorf("%w: no leader failed", errUnproved))
	}
	return errors.Join(faults...)
}

// checkLeaders checks that the witness never led, and that the leader changed as often as expected
// since the given time.
func checkLeaders(holds []hold, from int64, want int) error {
	var faults []error
	for _, h := range holds {
		if h.node == nodeName(witnessNode) {
			faults = append(faults, fmt.Errorf("the witness led with token %d", h.token))
		}
	}
	if changes, _ := countLeaderless(termsOf(holds, from)); changes != want {
		faults = append(faults, fmt.Errorf("%d leader changes, want %d: one for each leader that "+
			"failed, and one for each return", changes, want))
	}
	return errors.Join(faults...)
}
