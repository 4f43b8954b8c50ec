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

// killedFile lists the runs that were ended by SIGKILL: a node and the number of
// its start, a line each.
const killedFile = "killed.txt"

// maxOddTold bounds the examples of one kind of fault.
const maxOddTold = 5

// floodRun is one start of one node.
type floodRun struct {
	node string
	run  int
}

// sentBook is what one run of a node sent to another node.
type sentBook struct {
	from   floodRun
	to     string
	killed bool // by SIGKILL, so that what was under way is excused
	ended  bool // in order
	marks  []uint32
}

// heardBook is what one run of a node got from another node, in this order.
type heardBook struct {
	at     floodRun
	from   string
	killed bool
	marks  []uint64
}

// sentAt is an event as its sender knows it.
type sentAt struct {
	sentBook
	seq uint64
}

func (s sentAt) String() string {
	return fmt.Sprintf("%s (run %d) to %s: event %d", s.from.node, s.from.run, s.to, s.seq)
}

// heardAt is an event as a handler got it.
type heardAt struct {
	heardBook
	run int // of the sender
	seq uint64
}

func (h heardAt) String() string {
	return fmt.Sprintf("%s (run %d) from %s: event %d of run %d",
		h.at.node, h.at.run, h.from, h.seq, h.run)
}

// post is what the checker of a flood counts and finds.
type post struct {
	taken, refused, handled uint64
	done, notRun, unknown   uint64 // told nil, that no handler ran, and neither
	unknownHandled          uint64 // of the last
	excused                 uint64 // taken and never told: their senders were killed
	excusedHandled          uint64
	slept                   uint64
	pairs                   map[[2]string]bool // with events that were handled

	faults []string
	odd    map[string]int // faults by kind
}

func newPost() *post { return &post{pairs: map[[2]string]bool{}, odd: map[string]int{}} }

// noteFault notes what is wrong; of each kind the first ones with where.
func (p *post) noteFault(kind, format string, args ...any) {
	p.odd[kind]++
	if p.odd[kind] <= maxOddTold {
		p.faults = append(p.faults, kind+": "+fmt.Sprintf(format, args...))
	}
}

// formVerdict is an error that names what is wrong.
func (p *post) formVerdict() error {
	if len(p.faults) == 0 {
		return nil
	}
	var all []error
	for _, text := range p.faults {
		all = append(all, errors.New(text))
	}
	for kind, n := range p.odd {
		if n > maxOddTold {
			all = append(all, fmt.Errorf("%s: %d in all", kind, n))
		}
	}
	return fmt.Errorf("events are not as promised:\n%w", errors.Join(all...))
}

// printCounts tells what was checked; told says that all outcomes were told in time.
func (p *post) printCounts(w io.Writer, told bool) {
	fmt.Fprintf(w, "events: %d taken by Send, %d handled on %d pairs; %d not taken by Send\n",
		p.taken, p.handled, len(p.pairs), p.refused)
	fmt.Fprintf(w, "outcomes: %d handled, %d lost; of these %d surely not handled, and of the "+
		"other %d %d were handled all the same\n",
		p.done, p.unknown+p.notRun, p.notRun, p.unknown, p.unknownHandled)
	fmt.Fprintf(w, "never told, since their sender was killed: %d, of which %d were handled\n",
		p.excused, p.excusedHandled)
	fmt.Fprintf(w, "a slow handler slept %d times\n", p.slept)
	if len(p.faults) == 0 && told {
		fmt.Fprintln(w, "in order, at most once, unharmed, and each loss told")
	}
}

// checkPair checks all events from one node to another. Both lists have a book for
// each run, in the order of the runs.
func (p *post) checkPair(sent []sentBook, heard []heardBook) {
	seen := map[int][]uint64{} // marks by run of the sender, 0 for not handled
	for _, s := range sent {
		seen[s.from.run] = make([]uint64, len(s.marks))
	}
	var run int
	var seq uint64
	for _, h := range heard {
		for i, mark := range h.marks {
			if mark == 0 && h.killed && i == len(h.marks)-1 {
				continue // killed right before it wrote this
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

// checkHeard takes one event that a handler got, after that of lastRun and lastSeq.
func (p *post) checkHeard(
	seen map[int][]uint64, h heardBook, mark uint64, lastRun int, lastSeq uint64,
) (run int, seq uint64) {
	run, seq = heardParts(mark)
	what := heardAt{h, run, seq}
	p.handled++
	p.pairs[[2]string{h.from, h.at.node}] = true
	if mark&heardBad != 0 {
		p.noteFault("changed on the way", "%v", what)
		return lastRun, lastSeq
	}
	events := seen[run]
	if seq == 0 || seq > uint64(len(events)) {
		p.noteFault("never sent", "%v", what)
		return lastRun, lastSeq
	}
	if mark&heardBeside != 0 {
		p.noteFault("beside another one of its sender", "%v", what)
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

// checkSent takes one event that was sent; heard is how it was handled, 0 for not
// at all.
func (p *post) checkSent(s sentBook, seq uint64, mark uint32, heard uint64) {
	taken, refused := mark&markTaken != 0, mark&markRefused != 0
	done, unknown, notRun := mark>>8&0xff, mark>>16&0xff, mark>>24
	outcomes := done + unknown + notRun
	what := sentAt{s, seq}
	p.countEvent(taken, refused, heard != 0, done, unknown, notRun)
	switch {
	case mark == 0 && s.killed:
		return // killed between the counter and the mark
	case mark&markTried == 0:
		p.noteFault("evidence", "%v: was not tried", what)
	case refused && heard != 0:
		p.noteFault("Send failed, and it was handled", "%v", what)
	case refused && outcomes > 0:
		p.noteFault("Send failed, and an outcome was told", "%v", what)
	case outcomes > 1:
		p.noteFault("more than one outcome", "%v: %d nil, %d unknown, %d not run",
			what, done, unknown, notRun)
	case done > 0 && heard == 0:
		p.noteFault("told that it was handled, and it was not", "%v", what)
	case done > 0 && heard&heardReturned == 0:
		p.noteFault("told that it was handled, before its handler returned", "%v", what)
	case notRun > 0 && heard != 0:
		p.noteFault("told that no handler ran, and one did", "%v", what)
	case s.killed:
	case !taken && !refused:
		p.noteFault("Send never returned", "%v", what)
	case taken && outcomes == 0:
		p.noteFault("never told", "%v: handled %v", what, heard != 0)
	}
}

func (p *post) countEvent(taken, refused, handled bool, done, unknown, notRun uint32) {
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
	p.taken++
	if done+unknown+notRun == 0 {
		p.excused++
		if handled {
			p.excusedHandled++
		}
	}
}

// checkTapes reads all tapes of a folder. Their processes have ended.
func checkTapes(dir string) (*post, error) {
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
			of, other, err := parseTapePath(path, end)
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
		return nil, fmt.Errorf("evidence missing: %s: %d pairs sent, %d got", dir, len(sent), len(heard))
	}
	p := newPost()
	for pair := range sent {
		if err := p.readPair(dir, pair, sent[pair], heard[pair], killed); err != nil {
			return nil, err
		}
	}
	slices.Sort(p.faults)
	return p, nil
}

// readPair maps the tapes of one pair and checks them.
func (p *post) readPair(
	dir string, pair [2]string, senders, receivers []floodRun, killed map[floodRun]bool,
) error {
	byRun := func(a, b floodRun) int { return cmp.Compare(a.run, b.run) }
	slices.SortFunc(senders, byRun)
	slices.SortFunc(receivers, byRun)
	var sent []sentBook
	for _, of := range senders {
		t, done, err := readTape[uint32](tapePath(dir, of.node, of.run, pair[1], sentEnd))
		if err != nil {
			return err
		}
		defer done()
		b := sentBook{of, pair[1], killed[of], t.head.Ended == 1, t.marks}
		if !b.ended && !b.killed {
			p.noteFault("ended by itself", "%s (run %d)", of.node, of.run)
		}
		sent = append(sent, b)
	}
	var heard []heardBook
	for _, of := range receivers {
		t, done, err := readTape[uint64](tapePath(dir, of.node, of.run, pair[0], heardEnd))
		if err != nil {
			return err
		}
		defer done()
		p.slept += t.head.Slept
		heard = append(heard, heardBook{of, pair[0], killed[of], t.marks})
	}
	p.checkPair(sent, heard)
	return nil
}

// listUntold is an error that names the first events whose senders wait for an outcome,
// while they run.
func listUntold(dir string) error {
	killed, err := readKilled(filepath.Join(dir, killedFile))
	if err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+sentEnd))
	if err != nil {
		return err
	}
	p := newPost()
	for _, path := range paths {
		of, to, err := parseTapePath(path, sentEnd)
		if err != nil {
			return err
		}
		t, done, err := readTape[uint32](path)
		if err != nil {
			return err
		}
		for i, mark := range t.marks {
			if mark&markTaken != 0 && mark>>8 == 0 && !killed[of] && t.head.Ended == 0 {
				p.noteFault("not told yet", "%v", sentAt{sentBook{from: of, to: to}, uint64(i + 1)})
			}
		}
		done()
	}
	return p.formVerdict()
}

func parseTapePath(path, end string) (of floodRun, other string, err error) {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), end), "-")
	if len(parts) == 3 {
		_, err = fmt.Sscan(parts[1], &of.run)
	}
	if err != nil || len(parts) != 3 {
		return of, "", fmt.Errorf("%s: not a name of evidence", path)
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
