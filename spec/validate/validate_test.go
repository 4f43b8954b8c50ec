// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/steplog"
)

// shortRuns is the number of simulator runs that make test validates.
const shortRuns = 8

// toolsOf returns the options of a test, or skips the test if node or Quint is missing.
func toolsOf(t *testing.T) options {
	t.Helper()
	o := options{spec: "..", quint: "../../bin/quint", steps: 300, seed: 1, faults: 2e9, size: 3}
	if dir := os.Getenv("QUINT"); dir != "" {
		o.quint = dir
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join(o.quint, "node_modules")); err != nil {
		t.Skip("Quint is not installed: run scripts/quint.sh")
	}
	return o
}

// TestHistories checks that drawn histories are behaviours of the specification.
func TestHistories(t *testing.T) {
	o := toolsOf(t)
	o.runs = shortRuns
	if err := o.judgeHistories(t.TempDir(), o.listRuns()); err != nil {
		t.Error(err)
	}
}

// TestRejects checks that a history that breaks a rule is rejected: a lease ends later than the
// echoes allow, or the promise of a vote was not saved.
func TestRejects(t *testing.T) {
	o := toolsOf(t)
	for name, spoil := range map[string]func(*steplog.Step) bool{
		"has authority": func(s *steplog.Step) bool {
			s.Until += 1_000_000_000
			return s.Version > 0
		},
		"saves": func(s *steplog.Step) bool {
			if s.Saved == nil || s.Saved.Promised.IsZero() {
				return false
			}
			s.Saved.Promised.Ballot.Round += 7
			return true
		},
	} {
		steps := o.drawHistory(7)
		i := 0
		for i < len(steps) && !spoil(&steps[i]) {
			i++
		}
		if i == len(steps) {
			t.Fatalf("%s: no step of the run to spoil", name)
		}
		trace, err := o.addTrace(t.TempDir(), "spoiled", steps)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := o.replayTraces(&out, []string{trace}); !errors.Is(err, errRejected) {
			t.Errorf("%s: got %v, want %v:\n%s", name, err, errRejected, &out)
		}
		if !strings.Contains(out.String(), "rejected") {
			t.Errorf("%s: the verdict does not say so: %s", name, &out)
		}
	}
}

// TestStepsInJSON checks that a history that was written to a file and read again has the same
// trace.
func TestStepsInJSON(t *testing.T) {
	o := options{steps: 3000, faults: 20e9, size: 3}
	var file bytes.Buffer
	e := json.NewEncoder(&file)
	drawn := o.drawHistory(3)
	for _, s := range drawn {
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "3.json")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := readHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := translateHistory("3", drawn, o.steps)
	if err != nil {
		t.Fatal(err)
	}
	got, err := translateHistory("3", read, o.steps)
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Events) < 1000 || len(got.Events) != len(want.Events) || got.Tables != want.Tables {
		t.Errorf("got %d entries from the file, want %d and the same tables", len(got.Events),
			len(want.Events))
	}
}
