// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
)

const (
	// maxFaultsReported bounds the number of reported faults, since one broken rule affects many
	// lines.
	maxFaultsReported = 50
	// maxLineBytes bounds the length of a line of evidence.
	maxLineBytes = 1 << 20
)

// paths matches file names that differ between runs.
var paths = regexp.MustCompile(`/run/[^ :]*`)

// owner is one run of one node.
type owner struct {
	node string
	run  int64
}

// hold is an interval in which a node had authority.
type hold struct {
	owner
	token      uint64
	begin, end int64 // end is before begin if authority was seen only once
}

func (h hold) earliestEnd() int64 { return min(h.begin, h.end) }
func (h hold) latest() int64      { return max(h.begin, h.end) }

// findings holds what the checker read, and the faults that it found. The promises are those of
// docs/protocol.md section 11.
type findings struct {
	faults   []string        // without repetitions
	reported map[string]bool // the texts
	more     int             // number of repetitions and of faults beyond maxFaultsReported

	holds    []hold
	tokens   map[uint64]owner // the first node that was seen with authority, by token
	owned    map[use]bool
	ends     map[string]int // number of nodes that stopped by themselves, by cause
	writes   map[string]int // by verdict
	register registerState  // the state of the register, recomputed
	written  []hold         // times of the accepted writes, in order
	seats    *seats
	events   *eventCheck
	claims   *claimCheck
	lacks    []string // promises that could not be checked
	// smallestGap is the shortest time between the authority of two nodes, or 0 if only one had
	// authority.
	smallestGap time.Duration
	stalls      []evidence // intervals in which processes were not running
	other       *findings  // findings of the second cluster; nil without one
	excused     int        // changes of its leader that are explained by stalls
	// records are the findings about the holders of each lock, job and shard, by key.
	records map[string]*findings
}

// use records that a node had authority with a token.
type use struct {
	owner
	token uint64
}

func newFindings() *findings {
	return &findings{
		reported: map[string]bool{}, tokens: map[uint64]owner{}, owned: map[use]bool{},
		ends: map[string]int{}, writes: map[string]int{}, seats: newSeats(), events: newEventCheck(),
		claims: newClaimCheck(), records: map[string]*findings{},
	}
}

// noteFault records a fault.
func (f *findings) noteFault(rule, format string, args ...any) {
	text := rule + ": " + fmt.Sprintf(format, args...)
	if f.reported[text] || len(f.faults) == maxFaultsReported {
		f.more++
		return
	}
	f.reported[text] = true
	f.faults = append(f.faults, text)
}

// formVerdict returns an error with the first faults and the promises that were not checked.
func (f *findings) formVerdict() error {
	var unchecked error
	if len(f.lacks) > 0 {
		unchecked = fmt.Errorf("too little happened to check every promise: %s",
			strings.Join(f.lacks, "; "))
	}
	if len(f.faults) == 0 {
		return unchecked
	}
	var all []error
	for _, text := range f.faults {
		all = append(all, errors.New(text))
	}
	if f.more > 0 {
		all = append(all, fmt.Errorf("and %d more", f.more))
	}
	return errors.Join(fmt.Errorf("a promise was broken:\n%w", errors.Join(all...)), unchecked)
}

// readEvidence passes each line of evidence of one process to take. If its process was killed, a
// line may be truncated: the last line of the file, or the line before the next process starts.
func readEvidence(name string, r io.Reader, take func(evidence) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	lines.Split(scanWhole)
	number, starts, cut := 0, 0, 0
	for lines.Scan() {
		number++
		var e evidence
		line := lines.Bytes()
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		err := json.Unmarshal(text, &e)
		switch {
		case cut > 0 && (err != nil || e.Kind != kindStart):
			return fmt.Errorf("%s line %d: truncated, and no process starts after it", name, cut)
		case ended && len(text) == 0:
			continue // the newline with which the next process ended a truncated line
		case err != nil && isBegun(text):
			if ended {
				cut = number
			}
			continue
		case err != nil:
			return fmt.Errorf("%s line %d: not evidence: %w", name, number, err)
		}
		cut = 0
		if e.Node+".jsonl" != name {
			return fmt.Errorf("%s line %d: this evidence is of %q", name, number, e.Node)
		}
		if e.Kind == kindStart {
			starts++
		}
		if starts == 0 {
			return fmt.Errorf("%s line %d: evidence missing: no line for the start of the process",
				name, number)
		}
		if err := take(e); err != nil {
			return fmt.Errorf("%s line %d: %w", name, number, err)
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return fmt.Errorf("%s line %d: %w", name, number+1, err)
	case cut > 0:
		return fmt.Errorf("%s line %d: truncated, and no process starts after it", name, cut)
	case starts == 0:
		return fmt.Errorf("evidence missing: %s is empty", name)
	}
	return nil
}

// scanWhole splits like bufio.ScanLines but keeps newlines, to detect a truncated last line.
func scanWhole(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// isBegun reports whether a line may be the beginning of a line of evidence.
func isBegun(line []byte) bool {
	var e evidence
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&e)
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// takeLine checks one line against all earlier lines.
func (f *findings) takeLine(e evidence) error {
	if key := e.Key; key != "" {
		e.Key = ""
		return f.recordOf(key).takeLine(e)
	}
	switch who := (owner{e.Node, e.Run}); e.Kind {
	case kindStart:
		f.seats.size = max(f.seats.size, e.Size)
		if e.Daemon {
			f.events.daemons[e.Node] = true
		}
	case kindHold:
		f.onHold(hold{who, e.Token, e.Begin, e.End})
	case kindView:
		if e.View == nil {
			return errors.New("the view has no contents")
		}
		if e.View.StoreID == "" {
			return errors.New("the view has no StoreID")
		}
		f.seats.onView(f, who, e)
	case kindEvents:
		f.events.onEvents(f, e)
	case kindSent:
		return f.events.onSent(who, e)
	case kindForged:
		f.noteFault("A15", "%s received an event from %s that %s", e.Node, e.From, e.Cause)
	case kindEnd:
		f.ends[paths.ReplaceAllString(e.Cause, "FILE")]++
		if strings.Contains(e.Cause, cluster.ErrSplitVersion.Error()) {
			f.noteFault("I1", "%s stopped: %s", f.nameOf(who), e.Cause)
		}
	case kindWrite:
		f.onWrite(e)
	case kindStall:
		f.stalls = append(f.stalls, e)
	case kindOp: // for test/linear
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	return nil
}

// recordOf returns the findings about the holders of a lock, job or shard.
func (f *findings) recordOf(key string) *findings {
	if f.records[key] == nil {
		f.records[key] = newFindings()
	}
	return f.records[key]
}

// onHold merges adjacent intervals of authority.
func (f *findings) onHold(h hold) {
	if other, used := f.tokens[h.token]; used && other != h.owner {
		f.noteFault("I3", "token %d: both %s and %s had authority with it", h.token, f.nameOf(other),
			f.nameOf(h.owner))
	}
	if _, used := f.tokens[h.token]; !used {
		f.tokens[h.token] = h.owner
	}
	f.owned[use{h.owner, h.token}] = true
	if n := len(f.holds); n > 0 {
		last := &f.holds[n-1]
		goesOn := last.owner == h.owner && last.token == h.token
		if last.end < last.begin {
			goesOn = goesOn && last.begin == h.begin
		} else {
			goesOn = goesOn && last.end == h.begin
		}
		if goesOn {
			last.end = h.end
			return
		}
	}
	f.holds = append(f.holds, h)
}

func (f *findings) nameOf(o owner) string { return fmt.Sprintf("%s (run %d)", o.node, o.run) }

// onWrite repeats the register's decision and checks the accepted writes.
func (f *findings) onWrite(e evidence) {
	f.writes[e.Verdict]++
	if want := f.register.judgeWrite(e); want != e.Verdict {
		f.noteFault("register", "write %d by %s with token %d: %q, want %q",
			e.Seq, f.nameOf(writerOf(e)), e.Token, e.Verdict, want)
	}
	switch {
	case e.Verdict == refusedOther:
		f.noteFault("I3", "token %d: both %s and %s wrote with it", e.Token,
			f.nameOf(writerOf(f.register.top)), f.nameOf(writerOf(e)))
		return
	case !f.owned[use{writerOf(e), e.Token}]:
		f.noteFault("I3", "token %d: %s wrote with it, but never had authority with it",
			e.Token, f.nameOf(writerOf(e)))
	}
	if e.Verdict == accepted {
		f.register.acceptWrite(e)
		f.written = append(f.written, hold{begin: e.At, end: e.At})
	}
}

// checkAll makes the checks that need all evidence.
func (f *findings) checkAll() {
	f.checkOverlap()
	f.checkGrowth()
	for _, key := range slices.Sorted(maps.Keys(f.records)) {
		r := f.records[key]
		r.checkOverlap()
		r.checkGrowth()
		for _, text := range r.faults {
			f.noteFault(key, "%s", text)
		}
	}
	f.seats.checkCommitted(f)
	f.checkClaims()
	f.noteLack(len(f.holds) == 0, "no node ever had authority")
	f.noteLack(f.writes[accepted] == 0, "the register accepted no write")
	f.noteLack(len(f.seats.states) == 0, "no node showed a state of a chosen leader")
	f.noteLack(f.events.events == 0 && f.seats.size-len(f.events.daemons) > 1, "no event arrived")
}

func (f *findings) noteLack(so bool, text string) {
	if so {
		f.lacks = append(f.lacks, text)
	}
}

// checkOverlap checks I2 and I8: no two nodes have authority simultaneously.
func (f *findings) checkOverlap() {
	holds := slices.DeleteFunc(slices.Clone(f.holds), func(h hold) bool { return h.end < h.begin })
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.begin, b.begin) })
	for i := 1; i < len(holds); i++ {
		last, h := holds[i-1], holds[i]
		if last.owner == h.owner {
			if last.end > h.end {
				holds[i] = last // it ends later
			}
			continue
		}
		if h.begin <= last.end {
			f.noteFault("I2, I8",
				"%s with token %d had authority from %d, but %s with token %d had it until %d, %v later",
				f.nameOf(h.owner), h.token, h.begin, f.nameOf(last.owner), last.token, last.end,
				time.Duration(last.end-h.begin))
			if last.end > h.end {
				holds[i] = last
			}
			continue
		}
		gap := time.Duration(h.begin - last.end)
		if f.smallestGap == 0 || gap < f.smallestGap {
			f.smallestGap = gap
		}
	}
}

// checkGrowth checks I3: authority that certainly began later has a higher token, or the same
// token and owner.
func (f *findings) checkGrowth() {
	byLatest := slices.Clone(f.holds)
	slices.SortFunc(byLatest, func(a, b hold) int { return cmp.Compare(a.latest(), b.latest()) })
	byEarliest := slices.Clone(f.holds)
	slices.SortFunc(byEarliest, func(a, b hold) int {
		return cmp.Compare(a.earliestEnd(),
			b.earliestEnd())
	})
	var top hold
	over := 0
	for _, h := range byEarliest {
		for ; over < len(byLatest) && byLatest[over].latest() < h.earliestEnd(); over++ {
			if byLatest[over].token > top.token {
				top = byLatest[over]
			}
		}
		if top.token > h.token {
			f.noteFault("I3", "token %d of %s at %d came after token %d of %s at %d",
				h.token, f.nameOf(h.owner), h.earliestEnd(), top.token, f.nameOf(top.owner), top.latest())
		}
	}
}

// countChanges counts the times that authority passed to another run.
func (f *findings) countChanges() int {
	holds := slices.Clone(f.holds)
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.token, b.token) })
	n := 0
	for i := 1; i < len(holds); i++ {
		if holds[i].owner != holds[i-1].owner {
			n++
		}
	}
	return n
}

// printFindings prints how much was checked, so that an empty run is not mistaken for a proof.
func (f *findings) printFindings(w io.Writer) {
	fmt.Fprintf(w, "authority: %d intervals, %d tokens, %d leader changes, smallest gap %v\n",
		len(f.holds), len(f.tokens), f.countChanges(), f.smallestGap)
	fmt.Fprintf(w, "register: %d writes accepted, %d with a lower token refused\n",
		f.writes[accepted], f.writes[refusedLower])
	lost, sent := f.events.countLost()
	fmt.Fprintf(w, "events: %d arrived on %d pairs\n", f.events.events, len(f.events.heard))
	fmt.Fprintf(w, "events that Send accepted but that never arrived: %d of %d\n", lost, sent)
	fmt.Fprintf(w, "states: %d of chosen leaders, %d of them committed\n",
		len(f.seats.states), f.seats.commits)
	for cause, n := range f.ends {
		if cause != "left" {
			fmt.Fprintf(w, "a node stopped by itself %d times: %s\n", n, cause)
		}
	}
	f.claims.printClaims(w, "")
	f.printOther(w)
	if f.formVerdict() == nil {
		fmt.Fprintln(w, "no promise was broken")
	}
}
