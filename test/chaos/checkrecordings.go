// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// killedFile lists the runs that were killed with SIGKILL. Each line contains the name of a node
// and the number of the start.
const killedFile = "killed.txt"

// maxExamples bounds the reported examples of one kind of fault.
const maxExamples = 5

// floodRun identifies one run of a node in a flood.
type floodRun struct {
	node string
	run  int
}

// sentRun is what one run of a node sent to another node.
type sentRun struct {
	from   floodRun
	to     string
	killed bool // killed by SIGKILL, which excuses events in flight
	ended  bool // gracefully
	marks  []uint32
}

// receivedRun is what one run of a node received from another node, in order.
type receivedRun struct {
	at     floodRun
	from   string
	killed bool
	marks  []uint64
}

// sentAt locates an event in the recording of its sender.
type sentAt struct {
	sentRun
	seq uint64
}

func (s sentAt) String() string {
	return fmt.Sprintf("%s (run %d) to %s: event %d", s.from.node, s.from.run, s.to, s.seq)
}

// heardAt locates an event in the recording of its handler.
type heardAt struct {
	receivedRun
	run int // of the sender
	seq uint64
}

func (h heardAt) String() string {
	return fmt.Sprintf("%s (run %d) from %s: event %d of run %d",
		h.at.node, h.at.run, h.from, h.seq, h.run)
}

// floodCheck counts the events and faults of a flood.
type floodCheck struct {
	accepted, refused, handled uint64
	done, notRun, unknown      uint64 // outcomes: nil, an error because no handler ran, and unknown
	unknownHandled             uint64 // events with an unknown outcome that were handled
	excused                    uint64 // sent without an outcome by nodes that were killed
	excusedHandled             uint64
	slept                      uint64
	pairs                      map[[2]string]bool // pairs of nodes between which events were handled

	faults []string
	byKind map[string]int // faults by kind
}

func newFloodCheck() *floodCheck {
	return &floodCheck{pairs: map[[2]string]bool{}, byKind: map[string]int{}}
}

// noteFault counts a fault, and keeps the first examples of each kind.
func (p *floodCheck) noteFault(kind, format string, args ...any) {
	p.byKind[kind]++
	if p.byKind[kind] <= maxExamples {
		p.faults = append(p.faults, kind+": "+fmt.Sprintf(format, args...))
	}
}

// formVerdict returns an error that names the faults, or nil.
func (p *floodCheck) formVerdict() error {
	if len(p.faults) == 0 {
		return nil
	}
	var all []error
	for _, text := range p.faults {
		all = append(all, errors.New(text))
	}
	for kind, n := range p.byKind {
		if n > maxExamples {
			all = append(all, fmt.Errorf("%s: %d in total", kind, n))
		}
	}
	return fmt.Errorf("a promise about events was broken:\n%w", errors.Join(all...))
}

// printCounts prints what was checked; complete means that all outcomes arrived in time.
func (p *floodCheck) printCounts(w io.Writer, complete bool) {
	fmt.Fprintf(w, "events: %d accepted by Send, %d handled on %d pairs; %d not accepted\n",
		p.accepted, p.handled, len(p.pairs), p.refused)
	fmt.Fprintf(w, "outcomes: %d handled, %d lost; of the lost ones, %d were not handled, and of the "+
		"other %d, %d had been handled\n",
		p.done, p.unknown+p.notRun, p.notRun, p.unknown, p.unknownHandled)
	fmt.Fprintf(w, "no outcome because the sender was killed: %d (%d handled)\n",
		p.excused, p.excusedHandled)
	fmt.Fprintf(w, "a slow handler slept %d times\n", p.slept)
	if len(p.faults) == 0 && complete {
		fmt.Fprintln(w, "all events were in order, at most once and intact, and each loss was reported")
	}
}

// checkPair checks all events from one node to another. Both lists contain one entry for each run,
// in order.
func (p *floodCheck) checkPair(sent []sentRun, heard []receivedRun) {
	seen := map[int][]uint64{} // marks by run of the sender; 0 means not handled
	for _, s := range sent {
		seen[s.from.run] = make([]uint64, len(s.marks))
	}
	var run int
	var seq uint64
	for _, h := range heard {
		for i, mark := range h.marks {
			if mark == 0 && h.killed && i == len(h.marks)-1 {
				continue // killed just before it wrote the mark
			}
			run, seq = p.checkHeard(seen, h, mark, run, seq)
		}
	}
	for _, s := range sent {
		for i, mark := range s.marks {
			p.checkSent(s, uint64(i+1), mark, seen[s.from.run][i])
		}
	}
}

// checkHeard checks one handled event; lastRun and lastSeq identify its predecessor.
func (p *floodCheck) checkHeard(
	seen map[int][]uint64, h receivedRun, mark uint64, lastRun int, lastSeq uint64,
) (run int, seq uint64) {
	run, seq = heardParts(mark)
	what := heardAt{h, run, seq}
	p.handled++
	p.pairs[[2]string{h.from, h.at.node}] = true
	if mark&heardBad != 0 {
		p.noteFault("corrupted", "%v", what)
		return lastRun, lastSeq
	}
	events := seen[run]
	if seq == 0 || seq > uint64(len(events)) {
		p.noteFault("never sent", "%v", what)
		return lastRun, lastSeq
	}
	if mark&heardBeside != 0 {
		p.noteFault("concurrent with another event of its sender", "%v", what)
	}
	if mark&heardReturned == 0 && !h.killed {
		p.noteFault("its handler never returned", "%v", what)
	}
	switch {
	case events[seq-1] != 0:
		p.noteFault("handled twice", "%v", what)
	case run < lastRun || run == lastRun && seq <= lastSeq:
		p.noteFault("out of order", "%v, after event %d of run %d", what, lastSeq, lastRun)
	}
	events[seq-1] = mark
	return run, seq
}

// checkSent checks one sent event. heard is the mark of its handler, or 0 if the event was not
// handled.
func (p *floodCheck) checkSent(s sentRun, seq uint64, mark uint32, heard uint64) {
	taken, refused := mark&markAccepted != 0, mark&markRefused != 0
	done, unknown, notRun := mark>>8&0xff, mark>>16&0xff, mark>>24
	outcomes := done + unknown + notRun
	what := sentAt{s, seq}
	p.countEvent(taken, refused, heard != 0, done, unknown, notRun)
	switch {
	case mark == 0 && s.killed:
		return // killed between writing the counter and the mark
	case mark&markTried == 0:
		p.noteFault("evidence", "%v: not attempted", what)
	case refused && heard != 0:
		p.noteFault("Send failed, but it was handled", "%v", what)
	case refused && outcomes > 0:
		p.noteFault("Send failed, but it had an outcome", "%v", what)
	case outcomes > 1:
		p.noteFault("more than one outcome", "%v: %d nil, %d unknown, %d not run",
			what, done, unknown, notRun)
	case done > 0 && heard == 0:
		p.noteFault("reported as handled, but it was not", "%v", what)
	case done > 0 && heard&heardReturned == 0:
		p.noteFault("reported as handled before its handler returned", "%v", what)
	case notRun > 0 && heard != 0:
		p.noteFault("reported that no handler ran, but one did", "%v", what)
	case s.killed:
	case !taken && !refused:
		p.noteFault("Send never returned", "%v", what)
	case taken && outcomes == 0:
		p.noteFault("no outcome", "%v: handled %v", what, heard != 0)
	}
}

func (p *floodCheck) countEvent(taken, refused, handled bool, done, unknown, notRun uint32) {
	p.done += uint64(done)
	p.unknown += uint64(unknown)
	p.notRun += uint64(notRun)
	if refused {
		p.refused++
	}
	if unknown > 0 && handled {
		p.unknownHandled++
	}
	if !taken {
		return
	}
	p.accepted++
	if done+unknown+notRun == 0 {
		p.excused++
		if handled {
			p.excusedHandled++
		}
	}
}

// checkRecordings checks all recordings in a folder, after their processes have ended.
func checkRecordings(dir string) (*floodCheck, error) {
	killed, err := readKilled(filepath.Join(dir, killedFile))
	if err != nil {
		return nil, err
	}
	sent, heard := map[[2]string][]floodRun{}, map[[2]string][]floodRun{}
	for end, runs := range map[string]map[[2]string][]floodRun{sentEnd: sent, heardEnd: heard} {
		paths, err := filepath.Glob(filepath.Join(dir, "*"+end))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			of, other, err := parseRecordingPath(path, end)
			if err != nil {
				return nil, err
			}
			pair := [2]string{of.node, other}
			if end == heardEnd {
				pair = [2]string{other, of.node} // from the sender to the receiver
			}
			runs[pair] = append(runs[pair], of)
		}
	}
	if len(sent) == 0 || len(heard) != len(sent) {
		return nil, fmt.Errorf("evidence missing: %s: %d pairs of nodes sent, %d received",
			dir, len(sent), len(heard))
	}
	p := newFloodCheck()
	for pair := range sent {
		if err := p.readPair(dir, pair, sent[pair], heard[pair], killed); err != nil {
			return nil, err
		}
	}
	slices.Sort(p.faults)
	return p, nil
}

// readPair maps and checks the recordings of one pair of nodes.
func (p *floodCheck) readPair(
	dir string, pair [2]string, senders, receivers []floodRun, killed map[floodRun]bool,
) error {
	byRun := func(a, b floodRun) int { return cmp.Compare(a.run, b.run) }
	slices.SortFunc(senders, byRun)
	slices.SortFunc(receivers, byRun)
	var sent []sentRun
	for _, of := range senders {
		t, done, err := openRecording[uint32](recordingPath(dir, of.node, of.run, pair[1], sentEnd))
		if err != nil {
			return err
		}
		defer done()
		b := sentRun{of, pair[1], killed[of], t.head.Ended == 1, t.marks}
		if !b.ended && !b.killed {
			p.noteFault("stopped by itself", "%s (run %d)", of.node, of.run)
		}
		sent = append(sent, b)
	}
	var heard []receivedRun
	for _, of := range receivers {
		t, done, err := openRecording[uint64](recordingPath(dir, of.node, of.run, pair[0], heardEnd))
		if err != nil {
			return err
		}
		defer done()
		p.slept += t.head.Slept
		heard = append(heard, receivedRun{of, pair[0], killed[of], t.marks})
	}
	p.checkPair(sent, heard)
	return nil
}

// listPending returns an error that names the first events that have no outcome although their
// senders are running.
func listPending(dir string) error {
	killed, err := readKilled(filepath.Join(dir, killedFile))
	if err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+sentEnd))
	if err != nil {
		return err
	}
	p := newFloodCheck()
	for _, path := range paths {
		of, to, err := parseRecordingPath(path, sentEnd)
		if err != nil {
			return err
		}
		t, done, err := openRecording[uint32](path)
		if err != nil {
			return err
		}
		for i, mark := range t.marks {
			if mark&markAccepted != 0 && mark>>8 == 0 && !killed[of] && t.head.Ended == 0 {
				p.noteFault("no outcome yet", "%v", sentAt{sentRun{from: of, to: to}, uint64(i + 1)})
			}
		}
		done()
	}
	return p.formVerdict()
}

func parseRecordingPath(path, end string) (of floodRun, other string, err error) {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), end), "-")
	if len(parts) == 3 {
		_, err = fmt.Sscan(parts[1], &of.run)
	}
	if err != nil || len(parts) != 3 {
		return of, "", fmt.Errorf("%s: not a file name of a recording", path)
	}
	of.node = parts[0]
	return of, parts[2], nil
}

func readKilled(path string) (map[floodRun]bool, error) {
	killed := map[floodRun]bool{}
	file, err := os.Open(path)
	if err != nil {
		return nil, missingFile(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var of floodRun
		if _, err := fmt.Sscan(lines.Text(), &of.node, &of.run); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		killed[of] = true
	}
	return killed, lines.Err()
}
