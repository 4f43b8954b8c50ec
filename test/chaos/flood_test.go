// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
)

const (
	taken   = markTried | markAccepted
	good    = taken | outcomeDone
	lost    = taken | outcomeUnknown
	refused = markTried | markRefused
)

// pairTest holds the marks that two runs left, one as the sender and one as the receiver.
type pairTest struct {
	name   string
	want   string // kind of the only fault; empty for no fault
	sent   []uint32
	heard  []uint64
	killed string // "sender", "reader" or ""
}

// ok returns marks of events that were handled in this order.
func ok(seqs ...uint64) (marks []uint64) {
	for _, seq := range seqs {
		marks = append(marks, heardOf(1, seq)|heardReturned)
	}
	return marks
}

// odd returns the mark of the only handled event.
func odd(marks uint64) []uint64 { return []uint64{heardOf(1, 1) | marks} }

var pairTests = []pairTest{
	{"well", "", []uint32{good, lost, lost, refused, taken | outcomeNotRun, good}, ok(1, 3, 6), ""},
	{"twice", "handled twice", []uint32{good, good}, ok(1, 1, 2), ""},
	{"twice, and later", "handled twice", []uint32{good, good}, ok(1, 2, 1), ""},
	{"swapped", "out of order", []uint32{good, good, good}, ok(1, 3, 2), ""},
	{"made up", "never sent", []uint32{good}, ok(1, 2), ""},
	{"number 0", "never sent", []uint32{good}, ok(1, 0), ""},
	{"no such run", "never sent", []uint32{lost}, []uint64{heardOf(2, 1) | heardReturned}, ""},
	{"checksum", "corrupted", []uint32{lost}, odd(heardReturned | heardBad), ""},
	{"side by side", "concurrent with another event of its sender", []uint32{good},
		odd(heardReturned | heardBeside), ""},
	{"handler still running", "its handler never returned", []uint32{lost}, odd(0), ""},
	{"killed in its handler", "", []uint32{lost}, append(odd(0), 0), "reader"},
	{"nil for a dropped event", "reported as handled, but it was not",
		[]uint32{good, good}, ok(1), ""},
	{"nil at a killed sender", "reported as handled, but it was not",
		[]uint32{good}, nil, "sender"},
	{"nil too early", "reported as handled before its handler returned",
		[]uint32{good}, odd(0), "reader"},
	{"handled, but reported as not run", "reported that no handler ran, but one did",
		[]uint32{taken | outcomeNotRun}, ok(1), ""},
	{"no outcome, handled", "no outcome", []uint32{taken}, ok(1), ""},
	{"no outcome, not handled", "no outcome", []uint32{taken}, nil, ""},
	{"no outcome, reader killed", "no outcome", []uint32{taken}, nil, "reader"},
	{"no outcome, sender killed", "", []uint32{good, taken, taken}, ok(1, 3), "sender"},
	{"killed while it sent", "", []uint32{good, markTried}, ok(1, 2), "sender"},
	{"killed before it marked", "", []uint32{good, 0}, ok(1), "sender"},
	{"one outcome twice", "more than one outcome", []uint32{good + outcomeDone}, ok(1), ""},
	{"two outcomes", "more than one outcome", []uint32{good | outcomeUnknown}, ok(1), ""},
	{"failed, handled", "Send failed, but it was handled", []uint32{refused}, ok(1), ""},
	{"failed, with an outcome", "Send failed, but it had an outcome",
		[]uint32{refused | outcomeUnknown}, nil, ""},
	{"Send still running", "Send never returned", []uint32{markTried}, nil, ""},
	{"a gap", "evidence", []uint32{good, 0, good}, ok(1, 3), ""},
}

// TestCheckPair checks each fault that the checker must find in events, and cases without a fault.
func TestCheckPair(t *testing.T) {
	for _, test := range pairTests {
		t.Run(test.name, func(t *testing.T) {
			p := newFloodCheck()
			sender, reader := test.killed == "sender", test.killed == "reader"
			p.checkPair(
				[]sentRun{{from: floodRun{"n1", 1}, to: "n2", killed: sender, marks: test.sent}},
				[]receivedRun{{at: floodRun{"n2", 1}, from: "n1", killed: reader, marks: test.heard}},
			)
			kinds := slices.Sorted(maps.Keys(p.byKind))
			if got := strings.Join(kinds, "; "); got != test.want {
				t.Errorf("got %q, want %q: %v", got, test.want, p.faults)
			}
			if err := p.formVerdict(); (err == nil) != (test.want == "") {
				t.Errorf("verdict %v, want an error only for a fault", err)
			}
		})
	}
}

// TestCheckPairOverRuns checks that order and at-most-once delivery are verified across restarts of
// both ends.
func TestCheckPairOverRuns(t *testing.T) {
	sent := []sentRun{
		{from: floodRun{"n1", 1}, to: "n2", killed: true, marks: []uint32{lost, lost, lost}},
		{from: floodRun{"n1", 2}, to: "n2", marks: []uint32{lost, lost}},
	}
	for want, marks := range map[string][2][]uint64{
		"":              {{heardOf(1, 1), heardOf(1, 2)}, {heardOf(1, 3), heardOf(2, 1)}},
		"handled twice": {{heardOf(1, 1), heardOf(1, 2)}, {heardOf(1, 2), heardOf(2, 1)}},
		"out of order":  {{heardOf(1, 1), heardOf(2, 1)}, {heardOf(1, 2), heardOf(2, 2)}},
	} {
		p := newFloodCheck()
		p.checkPair(sent, []receivedRun{
			{at: floodRun{"n2", 1}, from: "n1", killed: true, marks: marks[0]},
			{at: floodRun{"n2", 2}, from: "n1", killed: true, marks: marks[1]},
		})
		if len(p.faults) > 0 != (want != "") || want != "" && !strings.HasPrefix(p.faults[0], want) {
			t.Errorf("got %q, want %q", p.faults, want)
		}
		if want == "" && (p.handled != 4 || p.unknownHandled != 4 || p.accepted != 5) {
			t.Errorf("got %+v, want 5 accepted, 4 handled, all with an unknown outcome", p)
		}
	}
}

// writeTapes writes the recordings of a node that sent four events, one of which failed, and
// received three.
func writeTapes(t *testing.T, dir, node, other string) {
	t.Helper()
	out, err := createRecording[uint32](recordingPath(dir, node, 1, other, sentEnd), 1000)
	if err != nil {
		t.Fatal(err)
	}
	in, err := createRecording[uint64](recordingPath(dir, node, 1, other, heardEnd), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(3) {
		noteTry(out, seq+1)
		noteSent(out, seq+1, nil)
		noteOutcome(out, seq+1, outcomeDone)
		*noteHeard(in, heardOf(1, seq+1)) |= heardReturned
	}
	noteTry(out, 4)
	noteSent(out, 4, io.EOF)
	out.head.Ended = 1
	if noteTry(out, 1001) || noteHeard(&recording[uint64]{head: &recordingHead{}}, 1) != nil {
		t.Error("marks in a full recording")
	}
}

// TestTapes checks that recordings, truncated to their used part, are read as they were written.
// Other files must give an error.
func TestTapes(t *testing.T) {
	dir := t.TempDir()
	writeTapes(t, dir, "n1", "n2")
	writeTapes(t, dir, "n2", "n1")
	_, err := checkRecordings(dir)
	if err == nil || !strings.Contains(err.Error(), "evidence missing") {
		t.Errorf("without %s: %v, want that it is reported missing", killedFile, err)
	}
	if err := os.WriteFile(filepath.Join(dir, killedFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := listPending(dir); err != nil {
		t.Errorf("no event without an outcome: %v, want no error", err)
	}
	waits, err := createRecording[uint32](recordingPath(dir, "n3", 1, "n1", sentEnd), 1)
	if err != nil {
		t.Fatal(err)
	}
	noteTry(waits, 1)
	noteSent(waits, 1, nil)
	if err := listPending(dir); err == nil || !strings.Contains(err.Error(),
		"n3 (run 1) to n1: event 1") {
		t.Errorf("one event without an outcome: %v, want its name", err)
	}
	if err := os.Remove(recordingPath(dir, "n3", 1, "n1", sentEnd)); err != nil {
		t.Fatal(err)
	}
	if err := truncateRecordings(dir); err != nil {
		t.Fatal(err)
	}
	path := recordingPath(dir, "n1", 1, "n2", sentEnd)
	if info, err := os.Stat(path); err != nil || info.Size() != headBytes+4*4 {
		t.Errorf("cut to %v, %v, want 4 marks", info.Size(), err)
	}
	p, err := checkRecordings(dir)
	if err != nil || p.formVerdict() != nil || p.accepted != 6 || p.handled != 6 || p.refused != 2 {
		t.Fatalf("%+v, %v, want 6 accepted and handled, 2 refused", p, err)
	}
	if err := os.Truncate(path, headBytes+3*4); err != nil {
		t.Fatal(err)
	}
	if _, err := checkRecordings(dir); err == nil || !strings.Contains(err.Error(), "not evidence") {
		t.Errorf("a truncated recording: %v, want an error", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = checkRecordings(dir)
	if err == nil || !strings.Contains(err.Error(), "evidence missing") {
		t.Errorf("without a recording: %v, want that it is reported missing", err)
	}
}

// TestFloodPlan checks that each round has a fault of each class, and that a run without its own
// network only has faults of processes.
func TestFloodPlan(t *testing.T) {
	o := options{nodes: 5, seed: 3, length: 10 * time.Minute, config: cluster.DefaultConfig()}
	plan := newFloodPlan(o)
	seen := map[string]bool{}
	for _, s := range plan[:len(classes)] {
		seen[classOf(s.Faults[0].Kind)] = true
	}
	if len(seen) != len(classes) {
		t.Errorf("the first %d steps have classes %v, want each", len(classes), seen)
	}
	o.plain = true
	for _, s := range newFloodPlan(o) {
		for _, f := range s.Faults {
			if !slices.Contains([]string{"kill", "kill several", "stop", "stutter", "leave"}, f.Kind) {
				t.Fatalf("%v on loopback, want faults of processes only", f)
			}
		}
	}
}

func floodOptions(t *testing.T) options {
	t.Helper()
	o := options{
		seed: 1, length: time.Minute, out: t.TempDir(), plain: true, config: cluster.DefaultConfig(),
	}
	o.config.RetryInterval = 100 * ms
	return o
}

// TestEvents floods three real nodes, kills one of them during the flood, and checks each event.
// The full run, with network faults, is "make events".
func TestEvents(t *testing.T) {
	o := floodOptions(t)
	o.nodes, o.events = 3, 20_000
	plan := []step{{
		Pause: 100 * ms, Faults: []fault{{Kind: "kill", For: 200 * ms, Order: []int{1, 0, 2}}},
	}}
	var out bytes.Buffer
	if err := runEvents(t.Context(), o, plan, &out); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, logs(o.out))
	}
	t.Logf("%s", &out)
	p, err := checkRecordings(o.out)
	if err != nil {
		t.Fatal(err)
	}
	if p.accepted < o.events || p.unknown == 0 || p.excused == 0 || len(p.pairs) != 6 {
		t.Errorf("%d accepted, %d lost, %d of the killed node, %d pairs: want %d, some, some and 6",
			p.accepted, p.unknown, p.excused, len(p.pairs), o.events)
	}
	// Without its entry in killedFile, the killed node has events without an outcome.
	if err := os.WriteFile(filepath.Join(o.out, killedFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err = checkRecordings(o.out)
	if err != nil || p.formVerdict() == nil || p.byKind["no outcome"] == 0 {
		t.Errorf("without the note of the kill: %v, %v, want events without an outcome",
			p.formVerdict(), err)
	}
	// A flood in which a class of faults is missing proves too little.
	f := flooding{runner: &runner{o: o}, plan: plan, slept: 1, accepted: o.events}
	if err := f.checkProved(); !errors.Is(err, errUnproved) || reportFailure(err, io.Discard) != 3 {
		t.Errorf("no kill happened: %v, want an error, and code 3", err)
	}
}

// underRace is true under the race detector.
var underRace bool

// skipUnderRace skips a test of times or of memory.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("the race detector needs too much time and memory of its own")
	}
}

// TestStuck lets two real nodes send to a third whose handler never returns. The full run is
// "make stuck".
func TestStuck(t *testing.T) {
	skipUnderRace(t)
	o := floodOptions(t)
	o.nodes, o.length, o.stuck, o.payload = 4, 2*time.Second, true, 1024
	// The timeout is shorter than the run, so that heartbeats are needed, and long enough for a busy
	// machine.
	o.config.HeartbeatTimeout, o.config.LeaderTimeout = time.Second, 2*time.Second
	var out bytes.Buffer
	if err := runStuck(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, logs(o.out))
	}
	t.Logf("%s", &out)
}

// TestLeaderless checks the number of changes of leader and the longest time without a leader, even
// if authority is recorded in pieces. Earlier terms are ignored.
func TestLeaderless(t *testing.T) {
	holds := []hold{
		{token: 3, begin: 500, end: 900}, {token: 2, begin: 100, end: 200},
		{token: 1, begin: 10, end: 20}, {token: 2, begin: 300, end: 200},
		{token: 4, begin: 907, end: 950},
	}
	changes, longest := countLeaderless(termsOf(holds, 150))
	if changes != 2 || longest != 200 {
		t.Errorf("got %d changes and %v, want 2 and 200ns", changes, longest)
	}
	if changes, longest = countLeaderless(termsOf(holds, 905)); changes != 0 || longest != 0 {
		t.Errorf("got %d changes and %v after all but one, want none", changes, longest)
	}
}

// TestStuckBound checks that two faults are found: a process exceeds its memory bound, and a view
// changes.
func TestStuckBound(t *testing.T) {
	o := options{nodes: 2, payload: 1024}
	log, err := os.Create(filepath.Join(t.TempDir(), journalFile))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	use := memoryUse{before: 20 << 20, peak: 24 << 20}
	s := stuckRun{
		runner: &runner{o: o, out: io.Discard, log: log}, use: []memoryUse{use, use},
	}
	if err := s.checkMemory(); err != nil {
		t.Errorf("4 MiB more: %v, want none", err)
	}
	s.use[1].peak = 40 << 20
	if err := s.checkMemory(); err == nil {
		t.Error("20 MiB more at a sender: no error, want one")
	}
	s.use[1].peak, s.use[0].heapPeak = 0, 40<<20
	if err := s.checkMemory(); err == nil {
		t.Error("40 MiB of heap at the receiver of one sender: no error, want one")
	}
	line := func(at int64, leader, status string) string {
		return fmt.Sprintf(`{"Kind":"view","Node":"n1","At":%d,"View":{"Leader":%q,"Quorate":true,`+
			`"Members":[{"Status":"active"},{"Status":%q}]}}`+"\n", at, leader, status)
	}
	for text, want := range map[string]bool{
		line(5, "n1", "active"):                                 true,
		line(5, "n1", "active") + line(12, "n1", "active"):      true,
		line(5, "n1", "active") + line(30, "n2", "unreachable"): true, // after the interval
		line(5, "n1", "active") + line(12, "n1", "unreachable"): false,
		line(5, "n1", "active") + line(12, "n2", "active"):      false,
		line(5, "n1", "unreachable"):                            false,
		line(12, "n1", "active"):                                false,
	} {
		path := filepath.Join(t.TempDir(), "n1.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := checkViews(path, 2, 10, 20); (err == nil) != want {
			t.Errorf("%s: %v, want no error: %v", text, err, want)
		}
	}
}

// logs returns the log files of the nodes of a run.
func logs(dir string) string {
	var all strings.Builder
	paths, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is valid
	for _, path := range paths {
		text, err := os.ReadFile(path)
		fmt.Fprintln(&all, path, err)
		all.Write(text)
	}
	return all.String()
}
