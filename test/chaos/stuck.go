// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

const (
	maxStuckNodes = 11
	// stuckSettling is what nodes get to come to rest before they are measured.
	stuckSettling = 500 * time.Millisecond
	// toldPatience is how long senders may need to learn what a member that was
	// killed and started again took with it.
	toldPatience = 10 * time.Second
)

// The limits of what waits between a Send and a handler, for one sender, and what
// it takes to keep it. The first two are of transport/quicnet and transport.
const (
	windowBytes  = 256 << 10 // that may be sent before they are read
	pendingBytes = 256 << 10 // of frames that wait to be written, and as many that are
	readBytes    = 64 << 10  // of the buffer of a reader, and of a frame in it
	eventBytes   = 1 << 10   // of an event that waits, besides its body
	outcomeBytes = 512       // of an outcome that is awaited
	packetShare  = 2         // memory for a byte that waits in packets
	garbageShare = 2         // memory of Go for a byte that lives (GOGC=100)
	runtimeBytes = 8 << 20   // of stacks and pages that are not quite used
)

// bound is what a node may need because of a handler that never returns.
type bound struct {
	events   int // that one Send after the other has taken
	receiver int // bytes that live at the receiver, for one sender
	sender   int // bytes that live at a sender
}

func newBound(payload int) bound {
	waiting := min(receiver.QueueLength, max(1, receiver.QueueBytes/payload))
	// One more is with the handler, and one with the reader.
	events := waiting + 2 + (windowBytes+2*pendingBytes+readBytes)/payload
	return bound{
		events:   events,
		receiver: (waiting+2)*(2*payload+eventBytes) + packetShare*windowBytes + readBytes,
		sender:   2*pendingBytes + packetShare*windowBytes + events*outcomeBytes,
	}
}

// roomBeside is the memory of a process that has some before, when so much more lives.
func roomBeside(before, lives int) int { return before + garbageShare*lives + runtimeBytes }

// memoryUse is what one process needs, in bytes.
type memoryUse struct{ before, peak, heapBefore, heapPeak int }

// stuckRun is a run in which one handler never returns.
type stuckRun struct {
	*runner
	victim int // its node
	use    []memoryUse
	from   int64 // of the flood, by the clock of the evidence
	until  int64
}

// runStuck lets all nodes send to one whose handler never returns, and checks what
// that costs, and that nobody sees it in the views.
func runStuck(ctx context.Context, o options, out io.Writer) (err error) {
	r, err := newRunner(o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeWorld()) }()
	s := &stuckRun{runner: r, use: make([]memoryUse, o.nodes)}
	if err = r.runDuring(ctx, s.floodLeader); err != nil {
		return err
	}
	return s.judgeRun()
}

// floodLeader floods the leader, since all others need it: then it is killed.
func (s *stuckRun) floodLeader(ctx context.Context) error {
	if err := s.waitUntilCalm(ctx); err != nil {
		return err
	}
	if err := waitFor(ctx, stuckSettling); err != nil {
		return err
	}
	if s.victim = s.ps.findLeader(); s.victim < 0 {
		return errors.New("there is no leader")
	}
	for i, p := range s.ps.nodes {
		before, err := memoryOf(p, "VmRSS:")
		if err != nil {
			return err
		}
		s.use[i] = memoryUse{before: before, heapBefore: int(p.lastReport().HeapBytes)}
	}
	s.report("the handler of %s, which leads, never returns; the others send to it for %v",
		nodeName(s.victim), s.o.length)
	s.from = readMonotonic()
	if err := s.tellNodes(saySend + nodeName(s.victim)); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < s.o.length; {
		if err := waitFor(ctx, lookTick); err != nil {
			return err
		}
		for i, p := range s.ps.nodes {
			s.use[i].heapPeak = max(s.use[i].heapPeak, int(p.lastReport().HeapBytes))
		}
	}
	s.until = readMonotonic()
	for i, p := range s.ps.nodes {
		peak, err := memoryOf(p, "VmHWM:")
		if err != nil {
			return err
		}
		s.use[i].peak = peak
	}
	return s.releaseStuck(ctx)
}

// tellNodes says something to all nodes but the stuck one.
func (s *stuckRun) tellNodes(line string) error {
	for i, p := range s.ps.nodes {
		if i == s.victim {
			continue
		}
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// releaseStuck kills the stuck node and starts it again: every event that waited for it
// is told lost then.
func (s *stuckRun) releaseStuck(ctx context.Context) error {
	if err := s.tellNodes(sayStop); err != nil {
		return err
	}
	s.ps.nodes[s.victim].kill()
	if err := s.restartNode(s.victim); err != nil {
		return err
	}
	began := time.Now()
	for i, p := range s.ps.nodes {
		for i != s.victim && !p.lastReport().Idle {
			if time.Since(began) > toldPatience {
				return fmt.Errorf("%s does not know all outcomes %v after the kill",
					nodeName(i), toldPatience)
			}
			if err := waitFor(ctx, lookTick); err != nil {
				return err
			}
		}
	}
	s.report("it was killed and started again; all outcomes were told within %v",
		time.Since(began).Round(time.Millisecond))
	return s.leaveAll()
}

// memoryOf reads a line of the status of a process, in bytes.
func memoryOf(p *process, line string) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(l, line); ok {
			var kilobytes int
			_, err := fmt.Sscan(value, &kilobytes)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("process %d: no %s", p.cmd.Process.Pid, line)
}

// judgeRun compares memory and events with their bounds, and reads all views.
func (s *stuckRun) judgeRun() error {
	if err := cutTapes(s.o.out); err != nil {
		return err
	}
	p, err := checkTapes(s.o.out)
	if err != nil {
		return err
	}
	faults := []error{p.formVerdict(), s.checkMemory()}
	b := newBound(s.o.payload)
	for i := range s.ps.nodes {
		if i == s.victim {
			continue
		}
		head, err := readHead(tapePath(s.o.out, nodeName(i), 1, nodeName(s.victim), sentEnd))
		if err != nil {
			return err
		}
		if head.Taken == 0 || head.Taken > uint64(b.events) || head.Done > 0 {
			faults = append(faults, fmt.Errorf("%s: %d events taken, %d told handled: "+
				"want 1 to %d, and none", nodeName(i), head.Taken, head.Done, b.events))
		}
	}
	s.report("events: %d taken by Send, of at most %d x %d; %d were told lost, "+
		"%d had reached the handler", p.taken, len(s.ps.nodes)-1, b.events, p.unknown+p.notRun, p.handled)
	views := 0
	for i := range s.ps.nodes {
		n, err := checkViews(filepath.Join(s.o.out, nodeName(i)+".jsonl"), s.o.nodes, s.from, s.until)
		views += n
		faults = append(faults, err)
	}
	s.report("views: %d new ones while it was stuck", views)
	err = errors.Join(faults...)
	if err == nil {
		s.report("memory stayed within its bounds, all members active under one leader, each loss told")
	}
	return err
}

// checkMemory compares what the processes needed with what they may.
func (s *stuckRun) checkMemory() error {
	b := newBound(s.o.payload)
	s.report("at the receiver, for a sender: %d KiB may live, of %d waiting events with their bodies "+
		"twice, the window of %d KiB in packets, a reader",
		b.receiver>>10, receiver.QueueLength, windowBytes>>10)
	s.report("at a sender: %d KiB may live, of two buffers of %d KiB, the window in packets, "+
		"%d outcomes", b.sender>>10, pendingBytes>>10, b.events)
	s.report("a process may have what it had + %d x what may live + %d MiB",
		garbageShare, runtimeBytes>>20)
	var faults []error
	for i, u := range s.use {
		lives, what := b.sender, "sends"
		if i == s.victim {
			lives, what = b.receiver*(len(s.use)-1), "is stuck"
		}
		resident, heap := roomBeside(u.before, lives), roomBeside(u.heapBefore, lives)
		s.report("%-4s %-8s  resident %6d KiB before, %6d at most, may be %6d; heap %6d, %6d, %6d",
			nodeName(i), what, u.before>>10, u.peak>>10, resident>>10,
			u.heapBefore>>10, u.heapPeak>>10, heap>>10)
		if u.peak > resident || u.heapPeak > heap {
			faults = append(faults, fmt.Errorf("%s: %d bytes resident and %d of heap, "+
				"want at most %d and %d", nodeName(i), u.peak, u.heapPeak, resident, heap))
		}
	}
	return errors.Join(faults...)
}

// checkViews wants every view that a node showed from one time to another to have
// all members active under the leader of the last view before, and counts them.
func checkViews(path string, nodes int, from, until int64) (views int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, missingFile(err)
	}
	defer file.Close()
	var before *sight
	var faults []error
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var e evidence
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Kind != kindView || e.At > until {
			continue // the last line may have been cut off
		}
		if e.At < from {
			before = e.View
			continue
		}
		views++
		if fault := oddView(before, e.View, nodes); fault != "" {
			faults = append(faults, fmt.Errorf("%s: %v after the flood began: %s",
				e.Node, time.Duration(e.At-from), fault))
		}
	}
	if before == nil {
		faults = append(faults, fmt.Errorf("evidence missing: no view in %s before the flood", path))
	} else if fault := oddView(before, before, nodes); fault != "" {
		faults = append(faults, fmt.Errorf("%s before the flood: %s", path, fault))
	}
	return views, errors.Join(append(faults, lines.Err())...)
}

// oddView says what is wrong with a view, empty for nothing.
func oddView(before, v *sight, nodes int) string {
	active := 0
	for _, m := range v.Members {
		if m.Status == member.Active.String() {
			active++
		}
	}
	switch {
	case active != nodes:
		return fmt.Sprintf("%d of %d members active: %v", active, nodes, v.Members)
	case !v.Quorate || before != nil && (v.Leader != before.Leader || v.Version != before.Version):
		return fmt.Sprintf("leader %s of version %d, quorate %v, want %s of version %d",
			v.Leader, v.Version, v.Quorate, before.Leader, before.Version)
	default:
		return ""
	}
}
