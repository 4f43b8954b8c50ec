// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/test/sim"
)

// TestSimulation checks that a few seeds run without violations.
func TestSimulation(t *testing.T) {
	for runs, want := range map[string][]string{
		"1": {"seeds      7: 1 run, all clean\n", "gap between two leases: none\n", " in 1 run\n"},
		"3": {"seeds      7 to 9: 3 runs, all clean\n", " x real time; "},
	} {
		stdout := clean(t, "--seed", "7", "--runs", runs, "--size", "1", "--for", "10s")
		for _, w := range want {
			if !strings.Contains(stdout, w) {
				t.Errorf("athena sim --runs %s prints\n%s\nwant %q in it", runs, stdout, w)
			}
		}
	}
}

// clean runs athena sim and checks that it succeeds.
func clean(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := athena(append([]string{"sim"}, args...)...)
	if code != cli.ExitDone || stderr != "" {
		t.Fatalf("athena sim %q: code %d, error %q, want %d and none", args, code, stderr, cli.ExitDone)
	}
	return stdout
}

// aFailure returns a made-up failure, since no seed fails.
func aFailure() sim.Report {
	run := sim.Run(sim.Options{Seed: 7, Size: 3, For: 20 * time.Second})
	run.Violation = &sim.Violation{Invariant: "I9", At: time.Second, Text: "made up"}
	return sim.Report{First: 6, Runs: 2, Failed: []sim.Result{run}}
}

// keepAliveLine matches a history line about a sent or received keep-alive.
var keepAliveLine = regexp.MustCompile(`(to|from) n[0-9]+ [A-Za-z]*KeepAlive`)

// TestSimulationFailed checks that a failed run prints the events, then the violation, and a
// command that repeats the run.
func TestSimulationFailed(t *testing.T) {
	var out strings.Builder
	err := simulation{}.printEnd(&out, aFailure())
	if err == nil {
		t.Fatal("a failed run returned no error")
	}
	_, command, _ := strings.Cut(err.Error(), cli.Self()+" ")
	if want := "sim --seed 7 --size 3 --for 20s"; command != want {
		t.Errorf("got %q, want it to end with %q", err, want)
	}
	trace, summary, _ := strings.Cut(out.String(), "\nseeds      6 to 7: 2 runs, 1 failed\n")
	if strings.Count(trace, "\n") < 10 || !strings.Contains(summary, "I9 at 1s: made up") {
		t.Errorf("prints\n%s\nwant the events, then the report", &out)
	}
	// The trace keeps decisions about a keep-alive, but omits the message itself.
	if !strings.HasPrefix(trace, "the last ") || keepAliveLine.MatchString(trace) {
		t.Errorf("prints\n%s\nwant no keep-alives, and their number", trace)
	}
}

// TestTail checks that the tail of a history omits keep-alives, and reports how many keep-alives
// after its first line were omitted.
func TestTail(t *testing.T) {
	var all []sim.Record
	sim.Run(sim.Options{Seed: 7, Size: 5, For: 3 * time.Minute, Record: func(r sim.Record) {
		if r.Kind != sim.Stepped {
			all = append(all, r)
		}
	}})
	tail := &tail{}
	beats, others := 0, 0
	for _, r := range all {
		tail.addRecord(r)
		if !r.IsPeriodic() {
			others++
		}
	}
	left := traceTail
	for i := len(all) - 1; left > 0; i-- {
		if all[i].IsPeriodic() {
			beats++
		} else {
			left--
		}
	}
	var out strings.Builder
	tail.printTail(&out)
	head, lines, _ := strings.Cut(out.String(), "\n")
	want := fmt.Sprintf("the last %d of %d events, omitting %d keep-alives", traceTail, others, beats)
	if !strings.HasPrefix(head, want) || strings.Count(lines, "\n") != traceTail || beats == 0 {
		t.Errorf("%d lines below %q, want %d below %q",
			strings.Count(lines, "\n"), head, traceTail, want)
	}
}

// TestHistory checks that --history prints every event of a run, from a seed or a file.
func TestHistory(t *testing.T) {
	stdout := clean(t, "--seed", "7", "--size", "3", "--for", "10s", "--history")
	lines, steps := 0, 0
	record := func(r sim.Record) {
		if r.Kind == sim.Stepped {
			steps++
			return
		}
		lines++
		if !strings.Contains(stdout, r.String()+"\n") {
			t.Errorf("no line %q in the history", r)
		}
	}
	_, r := sim.Capture(sim.Options{Seed: 7, Size: 3, For: 10 * time.Second, Record: record})
	history, _, _ := strings.Cut(stdout, "\nseeds ")
	if got := strings.Count(history, "\n"); got != lines {
		t.Errorf("%d lines of history, want %d", got, lines)
	}
	content, err := r.Format()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := clean(t, "--replay", file, "--history"); !strings.HasPrefix(got, history) {
		t.Errorf("the history of the file differs from that of the seed:\n%s", got)
	}
	_, stdout, _ = athena("sim", "--seed", "7", "--size", "3", "--for", "10s", "--history=json")
	printed := json.NewDecoder(strings.NewReader(stdout))
	for i := range steps {
		var s steplog.Step
		if err := printed.Decode(&s); err != nil || s.Event == "" {
			t.Fatalf("step %d of %d: %+v, %v", i+1, steps, s, err)
		}
	}
	if printed.More() {
		t.Errorf("more than %d steps", steps)
	}
}

// TestShrink checks that the file is written only if a run fails.
func TestShrink(t *testing.T) {
	file := filepath.Join(t.TempDir(), "found it.json")
	cleanRun := func(want string) {
		t.Helper()
		got := clean(t, "--seed", "7", "--size", "1", "--for", "10s", "--shrink", file)
		if !strings.Contains(got, file+" is unchanged: no run failed\n") {
			t.Errorf("a clean run prints\n%s", got)
		}
		if content, _ := os.ReadFile(file); string(content) != want {
			t.Errorf("a clean run leaves the file with %q, want %q", content, want)
		}
	}
	cleanRun("")
	if _, err := os.Stat(file); err == nil {
		t.Error("a clean run created an empty file")
	}
	var out strings.Builder
	err := simulation{shrink: file}.printEnd(&out, aFailure())
	if err == nil || !strings.Contains(err.Error(), "seed 7 violates I9") {
		t.Errorf("a failed run returned the error %v", err)
	}
	_, rest, _ := strings.Cut(out.String(), "\nwrote '")
	if want := "sim --replay '" + file + "'\n"; !strings.HasSuffix(rest, want) {
		t.Errorf("prints\n%s\nwant it to end with %q", &out, want)
	}
	got := clean(t, "--replay", file)
	if !strings.Contains(got, "no violation; the file was recorded for: seed 7") {
		t.Errorf("replay prints\n%s", got)
	}
	content, _ := os.ReadFile(file)
	cleanRun(string(content))
	// If the file cannot be written, the failure is still printed.
	out.Reset()
	err = simulation{shrink: filepath.Join(file, "x")}.printEnd(&out, aFailure())
	if err == nil || !strings.Contains(err.Error(), "seed 7 violates I9") ||
		!strings.Contains(err.Error(), "--shrink: open ") || !strings.Contains(out.String(), "made up") {
		t.Errorf("a file that cannot be written: %v, prints\n%s", err, &out)
	}
}

// TestCoverageNamesEmptyCells checks that the error names the empty cells, at most 20 of them.
func TestCoverageNamesEmptyCells(t *testing.T) {
	var table sim.Table
	empty := table.Empty()
	for n, want := range map[int]string{
		2:          " 2 cells of the table: earlier run after loss, earlier run after dupl",
		len(empty): fmt.Sprint(", and ", len(empty)-20, " more (use"),
	} {
		if err := checkCovered(empty[:n]); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "an hour") {
			t.Errorf("%d empty cells: %v, want %q in it", n, err, want)
		}
	}
	if err := checkCovered(nil); err != nil {
		t.Errorf("no empty cell: %v", err)
	}
}

// TestNoRunIsNoSuccess checks that a budget too short for a single run is a failure.
func TestNoRunIsNoSuccess(t *testing.T) {
	code, stdout, stderr := athena("sim", "--budget", "1ns")
	if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, "nothing was checked") {
		t.Errorf("got code %d, %q and %q, want %d and the reason", code, stdout, stderr, cli.ExitFailed)
	}
}
