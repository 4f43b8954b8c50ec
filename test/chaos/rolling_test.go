// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWitness kills each of two hosts and a witness once, without and with the return of the
// preferred host. The full run is "make witness".
func TestWitness(t *testing.T) {
	skipUnderRace(t)
	for _, back := range []time.Duration{0, 2 * time.Second} {
		o := floodOptions(t)
		o.nodes, o.witness, o.back, o.length = witnessNodes, true, back, time.Millisecond
		o.config.LeaderTimeout = 2 * time.Second
		var out bytes.Buffer
		if err := runWitness(t.Context(), o, &out); err != nil {
			t.Fatalf("return after %v: %v\n%s%s", back, err, &out, logs(o.out))
		}
		t.Logf("%s", &out)
	}
}

// TestCheckLeaders plants a witness that leads and a leader that changes once more than expected.
func TestCheckLeaders(t *testing.T) {
	led := func(node int, token uint64) hold {
		return hold{owner{node: nodeName(node)}, token, int64(10 * token), int64(10*token + 5)}
	}
	sound := []hold{led(preferredNode, 1), led(secondNode, 2), led(preferredNode, 3)}
	if err := checkLeaders(sound, 0, 2); err != nil {
		t.Errorf("two changes: %v", err)
	}
	if err := checkLeaders(sound, 0, 1); err == nil {
		t.Error("a change that was not expected was not found")
	}
	if err := checkLeaders([]hold{led(preferredNode, 1), led(witnessNode, 2)}, 0, 1); err == nil {
		t.Error("a witness that led was not found")
	}
}

// TestRolling upgrades and downgrades three nodes. A copy of this program stands for that of the
// release before. The full run is "make rolling". This test only checks that no node waits for a
// timeout, because other tests use the machine too.
func TestRolling(t *testing.T) {
	skipUnderRace(t)
	o := floodOptions(t)
	o.nodes, o.rate, o.length = 3, 300, time.Millisecond
	o.config.LeaderTimeout = 2 * time.Second
	o.handOver = o.config.LeaderTimeout / 2
	o.previous = filepath.Join(t.TempDir(), "previous")
	program, err := os.ReadFile(thisProgram)
	if err == nil {
		err = os.WriteFile(o.previous, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runRolling(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, logs(o.out))
	}
	t.Logf("%s", &out)
	journal, err := os.ReadFile(filepath.Join(o.out, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	for node := range o.nodes {
		for _, previous := range []bool{false, true} {
			want := fmt.Sprintf("previous program: %t", previous)
			lines := regexp.MustCompile("restart " + nodeName(node) + ` \(.*` + want)
			if n := len(lines.FindAll(journal, -1)); n != 1 {
				t.Errorf("%d restarts of %s with %s, want 1", n, nodeName(node), want)
			}
		}
	}
}

// TestRecordTerms plants faults in the evidence of a lock.
func TestRecordTerms(t *testing.T) {
	held := func(node string, run int64, token uint64, begin, end int64) evidence {
		return evidence{Kind: kindHold, Key: lockKey, Node: node, Run: run, Token: token,
			Begin: begin, End: end}
	}
	write := func(node string, run int64, token, seq uint64) evidence {
		return evidence{Kind: kindWrite, Key: lockKey, Node: "register", From: node, FromRun: run,
			Token: token, Seq: seq, Verdict: accepted}
	}
	sound := []evidence{
		held("n1", 1, 5, 100, 200), write("n1", 1, 5, 1), held("n2", 2, 7, 300, 400),
		write("n2", 2, 7, 1),
	}
	for _, c := range []struct {
		name, want string
		lines      []evidence
	}{
		{"sound", "", nil},
		{"two holders", "I2, I8", []evidence{held("n3", 3, 8, 350, 450)}},
		{"a token that falls", "I3: token 6", []evidence{held("n3", 3, 6, 500, 600)}},
		{"a shared token", "I3: token 7", []evidence{held("n3", 3, 7, 500, 600)}},
		{"a write without the lock", "I3: token 9", []evidence{write("n3", 3, 9, 1)}},
		{"a late write that was accepted", "register: write 2", []evidence{write("n1", 1, 5, 2)}},
	} {
		f := newFindings()
		for _, e := range append(slices.Clone(sound), c.lines...) {
			if err := f.takeLine(e); err != nil {
				t.Fatal(err)
			}
		}
		f.checkAll()
		found := strings.Join(f.faults, "\n")
		isFound := strings.Contains(found, lockKey+": "+c.want)
		if c.want == "" && found != "" || c.want != "" && !isFound {
			t.Errorf("%s: faults %q, want %q", c.name, found, c.want)
		}
		if err := f.checkRecordTerms(); !errors.Is(err, errUnproved) {
			t.Errorf("%s: %v, want that the job has no evidence", c.name, err)
		}
	}
}

// TestLongestPause counts only the pauses that end in the interval of a step.
func TestLongestPause(t *testing.T) {
	terms := []hold{{begin: 0, end: 10}, {begin: 30, end: 40}, {begin: 45, end: 50}}
	for _, c := range []struct{ from, until, want int64 }{
		{0, 100, 20}, {31, 100, 5}, {0, 30, 0}, {0, 31, 20}, {46, 100, 0},
	} {
		if got := longestPause(terms, c.from, c.until); int64(got) != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.from, c.until, got, c.want)
		}
	}
}
