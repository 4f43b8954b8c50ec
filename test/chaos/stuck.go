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
	// stuckSettling is the time for nodes to settle before they are measured.
	stuckSettling = 500 * time.Millisecond
	// outcomeTimeout is the time for senders to learn the outcomes of events to a member that was
	// killed and restarted.
	outcomeTimeout = 10 * time.Second
)

// The limits of the buffers between a Send and a handler, for one sender, and their memory
// overhead. The first limits are those of transport/quicnet, transport/tlsnet and internal/mesh.
const (
	quicWindow   = 256 << 10 // sent but not yet read
	tlsWindow    = 1 << 20   // sent over TLS but not yet read
	pendingBytes = 256 << 10 // frames that wait to be written; as many bytes are being written
	readBytes    = 64 << 10  // a reader's buffer and the frame in it
	eventBytes   = 1 << 10   // a waiting event, without its body
	outcomeBytes = 512       // a pending outcome
	packetShare  = 2         // memory per byte that waits in packets
	garbageShare = 2         // memory of the Go runtime per live byte (GOGC=100)
	runtimeBytes = 8 << 20   // stacks and partly used pages
)

// bound limits what a handler that never returns may cost a node.
type bound struct {
	window   int // sent but not yet read
	events   int // events accepted by successive calls of Send
	receiver int // live bytes at the receiver for one sender
	sender   int // live bytes at a sender
}

func (o options) newBound() bound {
	payload, window := o.payload, quicWindow
	if o.tls {
		window = tlsWindow
	}
	waiting := min(receiver.QueueLength, max(1, receiver.QueueBytes/payload))
	// One more event is in the handler, and another one in the reader.
	events := waiting + 2 + (window+2*pendingBytes+readBytes)/payload
	return bound{
		window:   window,
		events:   events,
		receiver: (waiting+2)*(2*payload+eventBytes) + packetShare*window + readBytes,
		sender:   2*pendingBytes + packetShare*window + events*outcomeBytes,
	}
}

// roomBeside returns how much memory a process may use, given its memory use at first and the
// growth of its live bytes since then.
func roomBeside(before, lives int) int { return before + garbageShare*lives + runtimeBytes }

// memoryUse is the memory of one process, in bytes.
type memoryUse struct{ before, peak, heapBefore, heapPeak int }

// stuckRun is a run in which a handler never returns.
type stuckRun struct {
	*runner
	victim int // node with the stuck handler
	use    []memoryUse
	from   int64 // start of the flood, by the clock of the evidence
	until  int64
}

// runStuck makes all nodes send to one whose handler never returns. It checks the memory that this
// costs, and that it does not affect any view.
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

// floodLeader floods the leader, on which all others depend, and then kills it.
func (s *stuckRun) floodLeader(ctx context.Context) error {
	if err := s.waitUntilCalm(ctx); err != nil {
		return err
	}
	if err := waitFor(ctx, stuckSettling); err != nil {
		return err
	}
	if s.victim = s.ps.findLeader(); s.victim < 0 {
		return errors.New("the cluster has no leader")
	}
	for i, p := range s.ps.nodes {
		before, err := memoryOf(p, "VmRSS:")
		if err != nil {
			return err
		}
		s.use[i] = memoryUse{before: before, heapBefore: int(p.lastReport().HeapBytes)}
	}
	s.report("the handler of the leader, %s, never returns; the others send to it for %v",
		nodeName(s.victim), s.o.length)
	s.from = readMonotonic()
	if err := s.sendLine(lineSend + nodeName(s.victim)); err != nil {
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

// sendLine sends a line to all nodes but the stuck one.
func (s *stuckRun) sendLine(line string) error {
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

// releaseStuck kills and restarts the stuck node, so that all events to it are reported as lost.
func (s *stuckRun) releaseStuck(ctx context.Context) error {
	if err := s.sendLine(lineStop); err != nil {
		return err
	}
	s.ps.nodes[s.victim].kill()
	if err := s.restartNode(s.victim); err != nil {
		return err
	}
	began := time.Now()
	for i, p := range s.ps.nodes {
		for i != s.victim && !p.lastReport().Idle {
			if time.Since(began) > outcomeTimeout {
				return fmt.Errorf("%s does not have all outcomes %v after the kill",
					nodeName(i), outcomeTimeout)
			}
			if err := waitFor(ctx, lookTick); err != nil {
				return err
			}
		}
	}
	s.report("the stuck node was killed and restarted; all outcomes were reported within %v",
		time.Since(began).Round(time.Millisecond))
	return s.leaveAll()
}

// memoryOf reads a line of a process's status, in bytes.
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
	return 0, fmt.Errorf("the status of process %d has no line %s", p.cmd.Process.Pid, line)
}

// judgeRun compares the use of memory and the number of events with their bounds, and checks all
// views.
func (s *stuckRun) judgeRun() error {
	if err := truncateRecordings(s.o.out); err != nil {
		return err
	}
	p, err := checkRecordings(s.o.out)
	if err != nil {
		return err
	}
	faults := []error{p.formVerdict(), s.checkMemory()}
	b := s.o.newBound()
	for i := range s.ps.nodes {
		if i == s.victim {
			continue
		}
		head, err := readHead(recordingPath(s.o.out, nodeName(i), 1, nodeName(s.victim), sentEnd))
		if err != nil {
			return err
		}
		if head.Accepted == 0 || head.Accepted > uint64(b.events) || head.Done > 0 {
			faults = append(faults, fmt.Errorf("%s: %d events accepted, %d reported handled: "+
				"want 1 to %d and 0", nodeName(i), head.Accepted, head.Done, b.events))
		}
	}
	s.report("events: %d accepted by Send, at most %d x %d; %d were reported lost, "+
		"%d had reached the handler",
		p.accepted, len(s.ps.nodes)-1, b.events, p.unknown+p.notRun, p.handled)
	views := 0
	for i := range s.ps.nodes {
		n, err := checkViews(filepath.Join(s.o.out, nodeName(i)+".jsonl"), s.o.nodes, s.from, s.until)
		views += n
		faults = append(faults, err)
	}
	s.report("views: %d new ones while the handler was stuck", views)
	err = errors.Join(faults...)
	if err == nil {
		s.report("memory stayed within bounds, all members were active under one leader, and " +
			"every loss was reported")
	}
	return err
}

// checkMemory compares the memory of the processes with the bounds.
func (s *stuckRun) checkMemory() error {
	b := s.o.newBound()
	s.report("the receiver may hold %d KiB for each sender: %d queued events with their bodies "+
		"twice, the %d KiB window in packets, and a reader",
		b.receiver>>10, receiver.QueueLength, b.window>>10)
	s.report("a sender may hold %d KiB: two buffers of %d KiB, the window in packets, and "+
		"%d outcomes", b.sender>>10, pendingBytes>>10, b.events)
	s.report("limit of a process: its memory before the run + %d x the bytes it may hold + %d MiB",
		garbageShare, runtimeBytes>>20)
	var faults []error
	for i, u := range s.use {
		lives, what := b.sender, "sends"
		if i == s.victim {
			lives, what = b.receiver*(len(s.use)-1), "is stuck"
		}
		resident, heap := roomBeside(u.before, lives), roomBeside(u.heapBefore, lives)
		s.report("%-4s %-8s  resident KiB: %6d before, %6d peak, %6d limit; heap KiB: %6d, %6d, %6d",
			nodeName(i), what, u.before>>10, u.peak>>10, resident>>10,
			u.heapBefore>>10, u.heapPeak>>10, heap>>10)
		if u.peak > resident || u.heapPeak > heap {
			faults = append(faults, fmt.Errorf("%s: %d bytes resident and %d bytes of heap, "+
				"want at most %d and %d", nodeName(i), u.peak, u.heapPeak, resident, heap))
		}
	}
	return errors.Join(faults...)
}

// checkViews checks and counts the views of a node in a time interval. In each view all members
// must be active under the leader of the last view before the interval.
func checkViews(path string, nodes int, from, until int64) (views int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, missingFile(err)
	}
	defer file.Close()
	var before *nodeView
	var faults []error
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var e evidence
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Kind != kindView || e.At > until {
			continue // the last line may be truncated
		}
		if e.At < from {
			before = e.View
			continue
		}
		views++
		if fault := viewFault(before, e.View, nodes); fault != "" {
			faults = append(faults, fmt.Errorf("%s: %v after the flood began: %s",
				e.Node, time.Duration(e.At-from), fault))
		}
	}
	if before == nil {
		faults = append(faults, fmt.Errorf("evidence missing: no view in %s before the flood", path))
	} else if fault := viewFault(before, before, nodes); fault != "" {
		faults = append(faults, fmt.Errorf("%s before the flood: %s", path, fault))
	}
	return views, errors.Join(append(faults, lines.Err())...)
}

// viewFault describes what is wrong with a view, or returns "".
func viewFault(before, v *nodeView, nodes int) string {
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
		return fmt.Sprintf("leader %s at version %d, quorate %v, want %s at version %d",
			v.Leader, v.Version, v.Quorate, before.Leader, before.Version)
	default:
		return ""
	}
}
