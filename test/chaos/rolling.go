// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// handOver is the default of the longest permitted time without a leader while the leader restarts.
// A leaving leader names its successor, so that no node waits for a timeout.
const handOver = 50 * time.Millisecond

// rollingRun restarts every node in turn while all nodes send.
type rollingRun struct {
	*runner
	leaders int // number of restarts of a leader
	from    int64
}

// runRolling restarts the nodes one at a time with SIGTERM. Before each restart, all nodes must be
// active and vote again. It checks the events and the changes of leader.
func runRolling(ctx context.Context, o options, out io.Writer) (err error) {
	r, err := newRunner(o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeWorld()) }()
	s := &rollingRun{runner: r}
	err = os.WriteFile(filepath.Join(o.out, planFile), []byte("each node in order\n"), 0o644)
	if err == nil {
		err = r.runDuring(ctx, s.runRounds)
	}
	if err != nil {
		return err
	}
	return s.judgeRun()
}

// runRounds restarts all nodes once, and again until the time is over.
func (s *rollingRun) runRounds(ctx context.Context) error {
	if err := s.waitUntilCalm(ctx); err != nil {
		return err
	}
	s.from, s.began = readMonotonic(), time.Now()
	for rounds := 0; rounds == 0 || time.Since(s.began) < s.o.length; rounds++ {
		for i := range s.ps.nodes {
			if err := s.restartNode(ctx, i); err != nil {
				return err
			}
		}
	}
	f := flooding{runner: s.runner, costs: map[string]*classCost{}}
	sent, err := f.sumTotals()
	f.accepted, f.took = sent.Accepted, time.Since(s.began)
	return errors.Join(err, f.waitForOutcomes(ctx))
}

func (s *rollingRun) restartNode(ctx context.Context, node int) error {
	// Before LeaseTimeout, a restarted node does not vote for a new leader (protocol.md section 5). If
	// two of three nodes had just restarted, the third could not hand over leadership.
	if err := waitFor(ctx, s.o.config.WithDefaults().LeaseTimeout); err != nil {
		return err
	}
	leads := s.ps.findLeader() == node
	if leads {
		s.leaders++
	}
	s.writeJournal("restart %s (leader: %t)", nodeName(node), leads)
	s.ps.nodes[node].sendSignal(syscall.SIGTERM)
	select {
	case <-s.ps.nodes[node].ended:
	case <-time.After(leaveTimeout):
		return fmt.Errorf("%s had not left after %v", nodeName(node), leaveTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.waitUntilCalm(ctx)
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
	changes, longest := countLeaderless(terms)
	s.report("%d restarts, %d of them of the leader; %d leader changes; at most %v without "+
		"a leader", s.restarts, s.leaders, changes, longest.Round(10*time.Microsecond))
	faults := []error{p.formVerdict(), f.formVerdict()}
	if changes > s.leaders {
		faults = append(faults, fmt.Errorf("%d leader changes, but only %d restarts of a leader",
			changes, s.leaders))
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
	for i := 1; i < len(terms); i++ {
		changes++
		longest = max(longest, time.Duration(terms[i].begin-terms[i-1].end))
	}
	return changes, longest
}
