// SPDX-License-Identifier: Apache-2.0

//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestProcessBench measures one cold start of a cluster. The program under test measures and also
// runs each of the nodes.
func TestProcessBench(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "rows")
	code, stdout, _ := run(t, "bench", "formation", "--size", "3", "--reps", "1",
		"--dir", t.TempDir(), "--out", out)
	rows, err := os.ReadFile(out)
	if code != 0 || err != nil || strings.Count(string(rows), "\n") != 2 {
		t.Errorf("code %d, %v, rows %q, want 0, none and two rows", code, err, rows)
	}
	if !strings.Contains(stdout, "median") {
		t.Errorf("prints %q, want a table", stdout)
	}
}

// TestProcessBenchStops checks that an interrupted measurement leaves no stores.
func TestProcessBenchStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "bench", "idle", "--dir", dir, "--out", filepath.Join(t.TempDir(), "rows"))
	stores := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "*", "*", "athena.state"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	eventually(t, "five nodes run", func() bool { return stores() == 5 })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "interrupt") {
		t.Errorf("code %d, %q, want 1 and the interrupt", code, p.stderr.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("after the interrupt: %v, %v, want no stores", left, err)
	}
}
