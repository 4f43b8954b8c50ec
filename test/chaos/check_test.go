// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
)

// books are the evidence of an artificial run: for each file, its lines in order.
type books map[string][]evidence

func (b books) add(node string, run int64, e evidence) {
	e.Node, e.Run = node, run
	name := node + ".jsonl"
	b[name] = append(b[name], e)
}

func (b books) hold(node string, run int64, token uint64, begin, end int64) {
	b.add(node, run, evidence{Kind: kindHold, Token: token, Begin: begin, End: end})
}

func (b books) write(from string, run int64, token uint64, verdict string) {
	b.add("register", 1, evidence{
		Kind: kindWrite, From: from, FromRun: run, Token: token, Verdict: verdict,
		Seq: uint64(len(b[registerEvidence]))})
}

func (b books) events(node, from string, run int64, first, last uint64) {
	b.add(node, 1, evidence{Kind: kindEvents, From: from, FromRun: run, First: first, Last: last})
}

func (b books) sent(node string, run int64, to string, first, last uint64) {
	b.add(node, run, evidence{Kind: kindSent, To: to, First: first, Last: last})
}

// view records that a node, which still has its first store, shows a state. In members, a name with
// an apostrophe, such as "n2'", stands for a member that has lost its first store.
func (b books) view(node string, version, revision uint64, leader string, members ...string) {
	v := &nodeView{
		StoreID: node, Version: version, Revision: revision, Role: "follower", Leader: leader,
		Quorate: true,
	}
	for _, m := range members {
		name := strings.TrimRight(m, "'")
		v.Members = append(v.Members, seat{Name: name, StoreID: m, Status: "active", Voter: true})
	}
	b.add(node, 1, evidence{Kind: kindView, View: v})
}

// lastView returns the newest view of a node.
func (b books) lastView(node string) *nodeView {
	lines := b[node+".jsonl"]
	return lines[len(lines)-1].View
}

// begun returns the evidence of three nodes that started and did nothing else.
func begun() books {
	b := books{}
	for i, node := range []string{"n1", "n2", "n3"} {
		b.add(node, int64(i+1), evidence{Kind: kindStart, Size: 3})
	}
	b.add("register", 1, evidence{Kind: kindStart})
	b.add("runner", 1, evidence{Kind: kindStart})
	return b
}

// sound returns the evidence of a run of three nodes without faults.
func sound() books {
	b := begun()
	b.hold("n1", 1, 1, 100, 99)
	b.hold("n1", 1, 1, 100, 200)
	b.hold("n1", 1, 1, 200, 300)
	b.hold("n2", 2, 3, 301, 500)
	b.hold("n1", 9, 4, 600, 650) // another run of the node
	b.hold("n1", 9, 4, 700, 750) // the same run, after its lease had expired
	b.write("n1", 1, 1, accepted)
	b.write("n1", 1, 1, accepted)
	b.write("n2", 2, 3, accepted)
	b.write("n1", 1, 1, refusedLower)
	b.write("n1", 9, 4, accepted)
	b.events("n1", "n2", 2, 1, 10)
	b.events("n1", "n2", 2, 12, 13) // 11 was lost
	b.events("n1", "n2", 8, 1, 1)   // another run of n2
	b.events("n2", "n1", 1, 1, 5)
	b.sent("n2", 2, "n1", 1, 4)
	b.sent("n2", 2, "n1", 5, 13) // killed before it recorded event 14 as sent
	b.sent("n2", 8, "n1", 1, 3)  // events 2 and 3 were lost
	b.sent("n1", 1, "n2", 2, 2)
	b.sent("n1", 1, "n2", 4, 9) // events 6 to 9 were lost
	b.sent("n1", 1, "n3", 1, 2) // n3 recorded none
	for _, node := range []string{"n1", "n2"} {
		b.view(node, 1, 0, "n1", "n1", "n2", "n3")
		b.view(node, 1, 1, "n1", "n1", "n2", "n3")
		b.view(node, 3, 0, "n2", "n1", "n2", "n3'") // n3 was replaced in a revision that no view shows
	}
	return b
}

func (b books) audit(t *testing.T) *findings {
	t.Helper()
	f, err := auditFolder(b.folder(t))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// folder writes the files of a run with these books.
func (b books) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		planFile: "0: pause 1s\n",
		journalFile: "77 " + fmt.Sprintf(journalStart, 3, uint64(math.MaxUint64), 1) +
			", 5m0s, evidence in somewhere\n78 more\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, lines := range b {
		if err := os.WriteFile(filepath.Join(dir, name), text(t, lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// text returns the lines of one file.
func text(t testing.TB, lines []evidence) (all []byte) {
	t.Helper()
	for _, e := range lines {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, line...), '\n')
	}
	return all
}

func TestSoundEvidence(t *testing.T) {
	f := sound().audit(t)
	if len(f.faults) > 0 {
		t.Errorf("faults %q, want none", f.faults)
	}
	if err := f.formVerdict(); err != nil {
		t.Errorf("verdict %v, want none", err)
	}
	if len(f.holds) != 4 || f.countChanges() != 2 || f.smallestGap != 1 || f.events.events != 18 ||
		f.writes[accepted] != 4 || f.writes[refusedLower] != 1 || f.seats.commits != 3 {
		t.Errorf("holds %v, %d changes, gap %d, %d events, writes %v, %d commits;"+
			" want 4, 2, 1, 18, 4 and 1, 3",
			f.holds, f.countChanges(), f.smallestGap, f.events.events, f.writes, f.seats.commits)
	}
}

// TestLostEvents checks that the checker counts events that were sent without an error but did not
// arrive.
func TestLostEvents(t *testing.T) {
	b := sound()
	var said strings.Builder
	b.audit(t).printFindings(&said)
	want := "events that Send accepted but that never arrived: 9 of 25\n"
	if !strings.Contains(said.String(), want) {
		t.Errorf("printed\n%s\nwant %q", &said, want)
	}
	b["n3.jsonl"][0].Daemon = true
	if lost, sent := b.audit(t).events.countLost(); lost != 7 || sent != 23 {
		t.Errorf("with a daemon: %d of %d lost, want 7 of 23", lost, sent)
	}
	b.sent("n2", 8, "n1", 3, 4)
	_, err := auditFolder(b.folder(t))
	if err == nil || !strings.Contains(err.Error(), "n2.jsonl line ") {
		t.Errorf("an event sent twice: %v, want an error with file and line", err)
	}
}

// TestLateWrite checks a fault: an earlier write is accepted after a later one of the same writer,
// within a term or across terms.
func TestLateWrite(t *testing.T) {
	for _, token := range []uint64{4, 6} {
		b := sound()
		b.hold("n1", 9, token, 800, 900)
		b.write("n1", 9, token, accepted)
		b[registerEvidence][len(b[registerEvidence])-1].Seq = 1
		want := fmt.Sprintf(
			`register: write 1 by n1 (run 9) with token %d: "accepted", want "late"`, token)
		if got := b.audit(t).faults; !slices.Equal(got, []string{want}) {
			t.Errorf("token %d: faults %q, want %q", token, got, want)
		}
	}
}

// TestHeldByStore checks that a node does not count as a holder of a state if its seat names
// another store.
func TestHeldByStore(t *testing.T) {
	for third, want := range map[string]int{"n3": 1, "n3'": 0} {
		b := begun()
		b.view("n1", 1, 0, "n1", "n1", "n2", third)
		b.view("n3", 1, 0, "n1", "n1", "n2", third)
		if got := b.audit(t).seats.commits; got != want {
			t.Errorf("n3 with its first store, and the seat of %s: %d commits, want %d", third, got, want)
		}
	}
}

// TestTooLittleEvidence removes all evidence of one kind. The checker must report this and fail.
func TestTooLittleEvidence(t *testing.T) {
	for _, k := range []struct{ kind, want string }{
		{kindHold, "no node ever had authority"},
		{kindWrite, "the register accepted no write"},
		{kindView, "no node showed a state of a chosen leader"},
		{kindEvents, "no event arrived"},
	} {
		b := sound()
		for name, lines := range b {
			b[name] = slices.DeleteFunc(lines, func(e evidence) bool { return e.Kind == k.kind })
		}
		f := b.audit(t)
		var said strings.Builder
		f.printFindings(&said)
		err := f.formVerdict()
		if err == nil || !strings.Contains(err.Error(), k.want) || reportFailure(err, io.Discard) != 1 {
			t.Errorf("without %s: %v, want %q and code 1", k.kind, err, k.want)
		}
		if strings.Contains(said.String(), "no promise was broken") {
			t.Errorf("without %s: printed that no promise was broken", k.kind)
		}
	}
}

// FuzzEvidence checks arbitrary files as evidence of a node or of the register. It must not panic,
// and errors must name file and line.
func FuzzEvidence(f *testing.F) {
	b := sound()
	f.Add(text(f, b["n1.jsonl"]), false)
	f.Add(text(f, b[registerEvidence]), true)
	f.Fuzz(func(t *testing.T, text []byte, isRegister bool) {
		name := "n1.jsonl"
		if isRegister {
			name = registerEvidence
		}
		found := newFindings()
		if err := readEvidence(name, bytes.NewReader(text), found.takeLine); err != nil {
			if said := err.Error(); !strings.HasPrefix(said, name+" line ") &&
				said != "evidence missing: "+name+" is empty" {
				t.Fatalf("%q: no file and line", said)
			}
			return
		}
		found.checkAll()
		found.printFindings(io.Discard)
		_ = found.formVerdict() // the input may break any promise
		if len(found.faults) > maxFaultsReported {
			t.Fatalf("%d faults reported, want at most %d", len(found.faults), maxFaultsReported)
		}
		if lost, sent := found.events.countLost(); lost > sent {
			t.Fatalf("%d of %d events lost", lost, sent)
		}
	})
}

// TestBrokenPromises adds one fault at a time to evidence without faults.
func TestBrokenPromises(t *testing.T) {
	for _, k := range []struct {
		name, rule string
		plant      func(b books)
	}{
		{"two with authority simultaneously", "I2, I8", func(b books) { b.hold("n3", 3, 5, 640, 660) }},
		{"one within the other's time", "I2, I8", func(b books) { b.hold("n3", 3, 5, 710, 711) }},
		{"one around the other's time", "I2, I8", func(b books) { b.hold("n3", 3, 5, 690, 800) }},
		{"overlap by an instant", "I2, I8", func(b books) { b.hold("n3", 3, 5, 750, 800) }},
		{"a long time, and its third neighbour", "I2, I8", func(b books) {
			b.hold("n3", 3, 5, 1000, 2000)
			b.hold("n2", 2, 5, 1100, 1200)
			b.hold("n1", 9, 5, 1300, 1400)
		}},
		{"a token of two nodes", "I3", func(b books) { b.hold("n3", 3, 4, 800, 900) }},
		{"a token of two runs", "I3", func(b books) { b.hold("n1", 10, 4, 800, 900) }},
		{"a token that falls", "I3", func(b books) { b.hold("n3", 3, 2, 800, 900) }},
		{"a token that falls, seen once", "I3", func(b books) { b.hold("n3", 3, 2, 900, 800) }},
		{"a lower token accepted", "register", func(b books) { b.write("n2", 2, 3, accepted) }},
		{"a shared token refused", "I3", func(b books) { b.write("n2", 2, 4, refusedOther) }},
		{"a shared token accepted", "register", func(b books) { b.write("n2", 2, 4, accepted) }},
		{"a write without authority", "I3", func(b books) { b.write("n3", 3, 7, accepted) }},
		{"an event twice", "I9", func(b books) { b.events("n2", "n1", 1, 5, 5) }},
		{"events out of order", "I9", func(b books) {
			b.events("n2", "n1", 1, 7, 9)
			b.events("n2", "n1", 1, 6, 6)
		}},
		{"an event of an earlier run after a later one", "I9", func(b books) {
			b.events("n1", "n2", 2, 14, 14)
		}},
		{"an event twice, over a restart of the receiver", "I9", func(b books) {
			b.add("n2", 7, evidence{Kind: kindStart, Size: 3})
			b.add("n2", 7, evidence{Kind: kindEvents, From: "n1", FromRun: 1, First: 5, Last: 6})
		}},
		{"an event of another sender", "A15", func(b books) {
			b.add("n2", 2, evidence{Kind: kindForged, From: "n1"})
		}},
		{"two leaders of a version", "I1", func(b books) {
			b.view("n3", 3, 1, "n3", "n1", "n2", "n3")
		}},
		{"one number, two states", "I6", func(b books) {
			b.view("n3", 3, 0, "n2", "n1", "n2", "n3")
		}},
		{"a state below the last", "I7", func(b books) {
			b.view("n1", 1, 1, "n1", "n1", "n2", "n3")
		}},
		{"a member lost", "I4", func(b books) { b.view("n3", 4, 0, "n1", "n1", "n2") }},
		{"two voters replaced", "I4", func(b books) {
			b.view("n3", 4, 0, "n1", "n1''", "n2''", "n3'")
		}},
		{"a state below the last, of one that is no member of either", "I7", func(b books) {
			b.view("n3", 3, 5, "n2", "n1", "n2")
			b.view("n3", 3, 4, "n2", "n1", "n2")
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			b := sound()
			k.plant(b)
			f := b.audit(t)
			named := func(text string) bool { return strings.HasPrefix(text, k.rule+": ") }
			if !slices.ContainsFunc(f.faults, named) || f.formVerdict() == nil {
				t.Errorf("faults %q, want one of %s", f.faults, k.rule)
			}
		})
	}
}

// TestEvidenceCutOff checks that a truncated line is accepted only if its process was killed, and
// that errors name file and line.
func TestEvidenceCutOff(t *testing.T) {
	start := `{"Kind":"start","Node":"n1","Run":%d}` + "\n"
	first, second := fmt.Sprintf(start, 1), "\n"+fmt.Sprintf(start, 2)
	end := `{"Kind":"end","Node":"n1"}` + "\n"
	for _, k := range []struct{ name, text, want string }{
		{"at the end", first + `{"Kind":"ho`, ""},
		{"at the end, but for the line end", first + strings.TrimSpace(end), ""},
		{"before a start", first + `{"Kind":"ho` + second, ""},
		{"the start itself", `{"Kind":"st` + second, ""},
		{"nothing, before a start", first + second, ""},
		{"at the end, with a line end", first + `{"Kind":"ho` + "\n", "n1.jsonl line 2: truncated"},
		{"garbage at the end", first + "garbage\n", "n1.jsonl line 2: not evidence"},
		{"garbage at the end, without a line end", first + "garbage", "n1.jsonl line 2: not evidence"},
		{"zeros at the end", first + "\x00\x00", "n1.jsonl line 2: not evidence"},
		{"more behind a line", first + end[:len(end)-1] + " more\n", "n1.jsonl line 2: not evidence"},
		{"garbage before a start", first + "garbage" + second, "n1.jsonl line 2: not evidence"},
		{"a line before a start", first + `{"Kind":"ho` + "\n" + second, "n1.jsonl line 2: truncated"},
		{"in the middle", first + `{"Kind":"ho` + "\n" + end, "n1.jsonl line 2: truncated"},
		{"twice", first + "{\n{" + second, "n1.jsonl line 2: truncated"},
		{"unknown", first + end + `{"Kind":"other","Node":"n1"}` + "\n", "n1.jsonl line 3: unknown kind"},
		{"of another node", first + `{"Kind":"end","Node":"n2"}`,
			`n1.jsonl line 2: this evidence is of "n2"`},
		{"no view", first + `{"Kind":"view","Node":"n1"}`, "n1.jsonl line 2: the view has no contents"},
		{"a view of no store", first + `{"Kind":"view","Node":"n1","View":{}}`,
			"n1.jsonl line 2: the view has no StoreID"},
		{"no start", end, "n1.jsonl line 1: evidence missing"},
		{"empty", "", "evidence missing: n1.jsonl is empty"},
		{"too long", first + strings.Repeat("x", maxLineBytes+1), "n1.jsonl line 2: "},
	} {
		f := newFindings()
		err := readEvidence("n1.jsonl", strings.NewReader(k.text), f.takeLine)
		if text := fmt.Sprint(err); (err == nil) != (k.want == "") || !strings.Contains(text, k.want) {
			t.Errorf("%s: %v, want %q", k.name, err, k.want)
		}
	}
}

// TestEvidenceMissing removes each file in turn. Missing evidence must be an error, because it
// would hide faults.
func TestEvidenceMissing(t *testing.T) {
	dir := sound().folder(t)
	check := func() error { return runCommand(t.Context(), []string{"check", dir}) }
	if err := check(); err != nil {
		t.Fatalf("nothing missing: %v", err)
	}
	for _, name := range []string{
		"n1.jsonl", "n2.jsonl", "n3.jsonl", registerEvidence, runnerEvidence, journalFile, planFile,
	} {
		path := filepath.Join(dir, name)
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		want := "evidence missing: " + path
		if err := check(); err == nil || err.Error() != want || reportFailure(err, io.Discard) != 1 {
			t.Errorf("without %s: %v, want %q and code 1", name, err, want)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"", "77 of another program\n", "77 " + fmt.Sprintf(journalStart, 0, 1, 1),
		"77 " + fmt.Sprintf(journalStart, 2, 1, 1), // but there is evidence of three nodes
		"77 " + fmt.Sprintf(journalStart, 3, 1, 0), "77 " + fmt.Sprintf(journalStart, 3, 1, 3),
	} {
		if err := os.WriteFile(filepath.Join(dir, journalFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := check(); err == nil || !strings.Contains(err.Error(), journalFile) {
			t.Errorf("journal %q: %v, want an error with its name", text, err)
		}
	}
}

// TestManyFaults checks that the report of a run with many faults fits on a page.
func TestManyFaults(t *testing.T) {
	b := sound()
	for i := range 3 * maxFaultsReported {
		b.write("n3", 3, uint64(100+i/2), accepted) // every fault twice
	}
	f := b.audit(t)
	told := slices.Compact(slices.Sorted(slices.Values(f.faults)))
	if len(told) != maxFaultsReported || f.more != 2*maxFaultsReported {
		t.Errorf("%d faults and %d more, want %d and %d",
			len(f.faults), f.more, maxFaultsReported, 2*maxFaultsReported)
	}
	if err := f.formVerdict(); err == nil || !strings.Contains(err.Error(), "and 100 more") {
		t.Errorf("verdict %v, want the number of further faults", err)
	}
}

// TestRegister checks the register's decisions in sequence.
func TestRegister(t *testing.T) {
	b, err := openEvidence(filepath.Join(t.TempDir(), registerEvidence), evidence{Node: "register"})
	if err != nil {
		t.Fatal(err)
	}
	r := &register{evidence: b, states: map[string]registerState{}}
	for i, k := range []struct {
		from  string
		run   int64
		token uint64
		seq   uint64
		want  string
	}{
		{"n1", 1, 2, 1, accepted}, {"n1", 1, 2, 3, accepted}, {"n2", 2, 2, 1, refusedOther},
		{"n1", 1, 2, 2, refusedLate}, {"n1", 1, 2, 3, refusedLate},
		{"n1", 9, 2, 4, refusedOther}, {"n2", 2, 1, 2, refusedLower}, {"n2", 2, 3, 3, accepted},
		{"n1", 1, 2, 4, refusedLower}, {"n2", 2, 3, 4, accepted},
		{"n1", 1, 5, 2, refusedLate}, {"n1", 1, 5, 5, accepted},
	} {
		w := r.decideWrite(evidence{
			Kind: kindWrite, From: k.from, FromRun: k.run, Token: k.token, Seq: k.seq})
		if w.Verdict != k.want {
			t.Errorf("write %d: %s run %d token %d is %q, want %q",
				i, k.from, k.run, k.token, w.Verdict, k.want)
		}
	}
}

func TestASeatWithoutAStoreHasNoVote(t *testing.T) {
	m := member.Member{Status: member.Removed, Gone: true}
	if hasVote(m) {
		t.Error("a seat without a store: got a vote")
	}
	if m.StoreID[0] = 1; !hasVote(m) {
		t.Error("a seat that is kept: got no vote")
	}
}
