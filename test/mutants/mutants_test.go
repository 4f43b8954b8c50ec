// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/test/sim"
)

var (
	all    = flag.Bool("mutants", false, "build every mutant and run seeds until it is caught")
	one    = flag.String("mutant", "", "the name of the only mutant to run")
	budget = flag.Duration("budget", time.Minute,
		"CPU time on all cores within which a mutant must be caught")
	seed  = flag.Uint64("seed", 1, "first seed")
	table = flag.Bool("table", false, "write the table of README.md")
	fresh = flag.Bool("fresh", false, "run seeds, and keep the runs that they find")
)

// root is the folder of the module.
const root = "../.."

// applyPatch returns the changed files of a mutant, by path in the module.
func applyPatch(t *testing.T, m Mutant) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.Edits {
		if _, ok := files[e.File]; !ok {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				t.Fatal(err)
			}
			files[e.File] = string(b)
		}
		if n := strings.Count(files[e.File], e.Old); n != 1 || e.Old == e.New {
			t.Fatalf("%s is stale: its text occurs %d times in %s, want once:\n%s", m.Name, n, e.File, e.Old)
		}
		files[e.File] = strings.Replace(files[e.File], e.Old, e.New, 1)
	}
	return files
}

func TestMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range Table() {
		t.Run(m.Name, func(t *testing.T) {
			if applyPatch(t, m); names[m.Name] || m.Rule == "" || len(m.Edits) == 0 {
				t.Errorf("%+v: want a unique name, a rule and a change", m)
			}
			names[m.Name] = true
		})
	}
}

// TestMutantsAreCaught builds the simulator with each bug. Each takes some seconds, so the
// test needs -mutants or -mutant NAME.
func TestMutantsAreCaught(t *testing.T) {
	if !*all && *one == "" {
		t.Skip("run with -mutants: it takes minutes")
	}
	var rows []string
	for _, m := range Table() {
		if *one != "" && m.Name != *one {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			found, took := hunt(t, m)
			if found.invariant == "" {
				t.Errorf("%s survives: %s", m.Name, m.Rule)
				return
			}
			row := fmt.Sprintf("| %s | %s | %s | %s | %.1f |",
				m.Name, m.Rule, found.run(), found.invariant, took.Seconds())
			t.Logf("%s\n%v", row, found)
			rows = append(rows, row)
		})
	}
	if *table && !t.Failed() {
		writeTable(t, rows)
	}
}

// page is the document with the table of mutants.
const page = "README.md"

const (
	tableBegin = "<!-- mutants: written by go test ./test/mutants -mutants -table -->\n"
	tableEnd   = "<!-- end of mutants -->\n"
)

// splitPage returns the text before the table, its rows, and the text after it.
func splitPage(t *testing.T) (before, rows, behind string) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), tableBegin)
	rows, behind, ends := strings.Cut(rest, tableEnd)
	if !ok || !ends {
		t.Fatalf("%s has no place for the table of mutants", page)
	}
	return before, rows, behind
}

func writeTable(t *testing.T, rows []string) {
	t.Helper()
	before, _, behind := splitPage(t)
	text := before + tableBegin + "| mutant | rule of protocol.md | run | broke | seconds |\n" +
		"|:--|:--|--:|:--|--:|\n" + strings.Join(rows, "\n") + "\n" + tableEnd + behind
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTableNamesEveryMutant checks that the table lists exactly the mutants of Table, with
// their rules.
func TestTableNamesEveryMutant(t *testing.T) {
	_, rows, _ := splitPage(t)
	for _, m := range Table() {
		if !strings.Contains(rows, "| "+m.Name+" | "+m.Rule+" |") {
			t.Errorf("%s has no row for %s: go test ./test/mutants -mutants -table -timeout 3h",
				page, m.Name)
		}
	}
	if n := strings.Count(rows, "\n"); n != len(Table())+2 {
		t.Errorf("the table of %s has %d lines for %d mutants", page, n, len(Table()))
	}
}

// overlay writes the changed files of a mutant and returns the path of the file for
// -overlay.
func overlay(t *testing.T, m Mutant) string {
	t.Helper()
	return overlayOf(t, applyPatch(t, m))
}

// overlayOf writes changed files and returns the path of the file for -overlay.
func overlayOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range files {
		path, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// build builds a command with a mutant and returns its path.
func build(t *testing.T, m Mutant, command string) string {
	t.Helper()
	return buildWith(t, applyPatch(t, m), command)
}

// buildWith builds a command with changed files and returns its path.
func buildWith(t *testing.T, files map[string]string, command string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "command")
	run := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlayOf(t, files),
		"-o", bin, command)
	run.Dir = root
	if b, err := run.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", command, err, b)
	}
	return bin
}

// runs runs a command built with a mutant. An exit code of 1 means that the mutant is
// caught.
func runs(t *testing.T, m Mutant, command *exec.Cmd) (out string, caught bool) {
	t.Helper()
	b, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("running %s: %v\n%s", m.Name, err, b)
	}
	return string(b), err != nil
}

// tested runs the test that was written for a mutant.
func tested(t *testing.T, m Mutant) (found catch, took time.Duration) {
	t.Helper()
	run := exec.Command("go", "test", "-overlay", overlay(t, m), "-count=1",
		"-run", "^"+m.Test+"$", "./"+cmp.Or(m.Package, "test/sim"))
	run.Dir = root
	out, caught := runs(t, m, run)
	where, failed := violation.FindStringSubmatch(out), failedTest.FindString(out)
	switch {
	case caught && where != nil:
		found = catch{invariant: where[1], text: where[0]}
	case caught && m.Package != "" && failed != "":
		found = catch{invariant: "a test", text: failed}
	}
	return found, run.ProcessState.UserTime() + run.ProcessState.SystemTime()
}

// failedTest matches the line of a failed test of another package than sim. Such a test describes
// one node, so no invariant is broken.
var failedTest = regexp.MustCompile(`--- FAIL: Test[^\n]*`)

// violation matches a broken invariant in the output of a failed test.
var violation = regexp.MustCompile(`\b([IL][1-9][0-9]?) at [0-9ms.]+: [^\n]*`)

// hunt catches a mutant with its test, with its stored run or, if byEveryOrder lists it, with the
// explorer. Otherwise it runs seeds until one fails only with the mutant. It also returns the CPU
// time of the search, summed over all cores.
func hunt(t *testing.T, m Mutant) (found catch, took time.Duration) {
	t.Helper()
	if m.Test != "" {
		return tested(t, m)
	}
	bin := build(t, m, "./test/sim/cmd/sweep")
	kept, last := again(t, m, bin)
	if kept.invariant != "" && (!*fresh || kept.seed == 0) {
		return kept, last
	}
	if kept.invariant == "" && slices.Contains(byEveryOrder, m.Name) {
		return exploreMutant(t, m, false)
	}
	next := *seed
	for took < *budget {
		out, busy := start(t, bin, "-runs", "1000000", "-failures", "1", "-seed", fmt.Sprint(next),
			"-budget", (*budget - took).String())
		took += busy
		if found = first(out); found.seed == 0 {
			break
		}
		if sim.Run(sim.Options{Seed: found.seed}).Violation == nil {
			if *fresh {
				shrink(t, m, bin, found, took)
			}
			return found, took
		}
		next = found.seed + 1
	}
	return kept, took
}

// file returns the path of the stored run of a mutant.
func (m Mutant) file() string {
	return filepath.Join(root, "test/sim/testdata/regress", m.Name+".json")
}

// noteForm is the format of the note of a stored run that was found with a seed. The note
// of a hand-written run begins with byHand.
const (
	noteForm = "seed %d, found after %f s with the mutant "
	byHand   = "by hand"
)

// again repeats the stored run of a mutant, if there is one.
func again(t *testing.T, m Mutant, bin string) (found catch, took time.Duration) {
	t.Helper()
	content, err := os.ReadFile(m.file())
	if errors.Is(err, fs.ErrNotExist) {
		return catch{}, 0
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.ParseReplay(content)
	if err != nil {
		t.Fatal(err)
	}
	out, busy := start(t, bin, "-replay", m.file())
	found = first(out)
	found.seed = 0
	if found.invariant == "" {
		t.Logf("the kept run no longer catches %s; running seeds", m.Name)
		return catch{}, 0
	}
	if strings.HasPrefix(r.Note, byHand) {
		return found, busy
	}
	var seconds float64
	if _, err := fmt.Sscanf(r.Note, noteForm, &found.seed, &seconds); err != nil {
		t.Fatalf("%s: the note %q: %v", m.file(), r.Note, err)
	}
	return found, time.Duration(seconds * float64(time.Second))
}

// shrink shrinks and stores the run that caught a mutant, unless the shrunk run also fails
// without the mutant.
func shrink(t *testing.T, m Mutant, bin string, found catch, took time.Duration) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.json")
	start(t, bin, "-runs", "1", "-seed", fmt.Sprint(found.seed), "-shrink", file,
		"-shrink-within", "40s", "-note",
		fmt.Sprintf(", found after %.1f s with the mutant %s", took.Seconds(), m.Name))
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.ParseReplay(content)
	if err != nil {
		t.Fatal(err)
	}
	if v := sim.Reproduce(r, nil).Violation; v != nil {
		t.Logf("the shrunk run fails without the mutant too, and is not kept: %v", v)
		return
	}
	if err := os.WriteFile(m.file(), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// start runs the simulator built with a mutant.
func start(t *testing.T, bin string, args ...string) (out string, took time.Duration) {
	t.Helper()
	run := exec.Command(bin, args...)
	b, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("%s: %v\n%s", run, err, b)
	}
	return string(b), run.ProcessState.UserTime() + run.ProcessState.SystemTime()
}

// catch is the first violation that a mutant caused, if any. Seed 0 means a hand-written
// run or the explorer.
type catch struct {
	seed            uint64
	every           bool
	invariant, text string
}

func (c catch) String() string { return fmt.Sprintf("%s: %.120s", c.run(), c.text) }

// run returns the name of the run in the table.
func (c catch) run() string {
	switch {
	case c.every:
		return "every order"
	case c.seed == 0:
		return byHand
	}
	return fmt.Sprint("seed ", c.seed)
}

// first parses the output of a failed run: "seed 7: N=3, ..." and later "I1 at 3s: ...".
func first(out string) catch {
	var c catch
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		name, _, is := strings.Cut(line, " at ")
		switch seed, failed := strings.CutPrefix(line, "seed "); {
		case failed:
			number, _, _ := strings.Cut(seed, ":")
			c.seed, _ = strconv.ParseUint(number, 10, 64)
		case c.seed != 0 && is && !strings.ContainsAny(name, " :"):
			c.invariant, c.text = name, line
			return c
		}
	}
	return c
}
