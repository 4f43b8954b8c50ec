// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo writes a program that takes the place of go. Its list prints one package, and its n-th
// test prints the n-th output and fails unless the last line of that begins with ok. It returns the
// path of the program and a function that counts the tests.
func fakeGo(t *testing.T, outputs ...string) (program string, count func() int) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range outputs {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i+1)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program = filepath.Join(dir, "go")
	script := "#!/bin/sh\ncd " + dir + "\nif [ $1 = list ]; then echo example.org/p; exit; fi\n" +
		"echo >>tests\nn=$(wc -l <tests | tr -d ' ')\ncat $n\ntail -n 1 $n | grep -q '^ok'\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, func() int {
		tests, _ := os.ReadFile(filepath.Join(dir, "tests"))
		return strings.Count(string(tests), "\n")
	}
}

// TestRaceRepeatsOnlyCrashes checks that scripts/race.sh tests a package again only if the race
// detector itself has crashed.
func TestRaceRepeatsOnlyCrashes(t *testing.T) {
	const (
		ok      = "ok  \texample.org/p\t1.0s\n"
		check   = "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346\nFAIL\texample.org/p\t1.0s\nFAIL\n"
		crash   = "SIGSEGV: segmentation violation\nPC=0x1\nFAIL\texample.org/p\t1.0s\nFAIL\n"
		failure = "--- FAIL: TestP (0.1s)\n    p_test.go:1: no\nFAIL\nFAIL\texample.org/p\t1.0s\nFAIL\n"
		nested  = "    --- FAIL: TestP/one (0.1s)\n" + crash
		race    = "WARNING: DATA RACE\n" + crash
		broken  = "FAIL\texample.org/p [build failed]\nFAIL\n"
		other   = "ok  \texample.org/a\t1.0s\n" + crash
	)
	for _, c := range []struct {
		name    string
		outputs []string
		runs    int
		fails   bool
		prints  string
	}{
		{"success", []string{ok}, 1, false, ""},
		{"failure", []string{failure, ok}, 1, true, ""},
		{"failure and crash", []string{nested, ok}, 1, true, ""},
		{"race and crash", []string{race, ok}, 1, true, ""},
		{"broken", []string{broken, ok}, 1, true, ""},
		{"no output", []string{"", ok}, 1, true, ""},
		{"crash", []string{crash, ok}, 2, false, "run 2 of 3"},
		{"crash after another package", []string{other, crash, ok}, 3, false, "run 3 of 3"},
		{"failed check of the detector", []string{check, ok}, 2, false, "run 2 of 3"},
		{"crash, then failure", []string{crash, failure, ok}, 2, true, ""},
		{"three crashes", []string{crash, crash, crash}, 3, false, "example.org/p skipped"},
	} {
		program, count := fakeGo(t, c.outputs...)
		cmd := exec.Command("../scripts/race.sh")
		cmd.Env = append(os.Environ(), "GO="+program)
		out, err := cmd.CombinedOutput()
		if got := count(); (err != nil) != c.fails || got != c.runs ||
			!strings.Contains(string(out), c.prints) {
			t.Errorf("%s: %v after %d runs, want an error %t after %d, and the output %q; got:\n%s",
				c.name, err, got, c.fails, c.runs, c.prints, out)
		}
	}
}

// TestBeside checks that scripts/beside.sh runs commands simultaneously, prints the output of each
// in one piece, and fails and names those that fail.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	// Each of two commands waits for a file of the other.
	meet := func(own, other string) string {
		return fmt.Sprintf("echo begin %s; touch %s/%[1]s; "+
			"until [ -e %[2]s/%[3]s ]; do sleep 0.01; done; echo end %[1]s", own, dir, other)
	}
	for _, c := range []struct {
		commands []string
		prints   []string
		failed   string
	}{
		{[]string{"echo alone"}, []string{"alone\n"}, ""},
		{[]string{meet("a", "b"), meet("b", "a")}, []string{"begin a\n", "begin b\nend b\n"}, ""},
		{[]string{"true", meet("c", "d"), meet("d", "c")},
			[]string{"begin c\nend c\n", "begin d\nend d\n"}, ""},
		{[]string{"exit 3", "true"}, nil, "failed: exit 3\n"},
		{[]string{"true", "true", "echo out; exit 3"}, []string{"out\n"},
			"failed: echo out; exit 3\n"},
	} {
		run := exec.Command("../scripts/beside.sh", c.commands...)
		run.Env = append(os.Environ(), "JOBS=2") // .ci/run can have set 1
		out, err := run.CombinedOutput()
		for _, want := range append(c.prints, c.failed) {
			if (err != nil) != (c.failed != "") || !strings.Contains(string(out), want) {
				t.Errorf("%q: %v, and prints %q; want a failure: %t, and %q", c.commands, err, out,
					c.failed != "", want)
			}
		}
	}
}
