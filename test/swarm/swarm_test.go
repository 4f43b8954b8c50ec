// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	first    = flag.Uint64("seed", 1, "first seed")
	runs     = flag.Int("runs", 0, "number of seeds to run in processes of their own")
	budget   = flag.Duration("budget", 0, "CPU time after which no more seeds run; 0 for no limit")
	shrinks  = flag.Duration("shrink", 3*time.Minute, "time limit for shrinking a plan that failed")
	inside   = flag.Int("inside", 0, "number of seeds to run in this process")
	planFile = flag.String("plan", "", "file with a plan to run in this process")
)

// shortRuns is the number of seeds of a plain go test.
const shortRuns = 4

// TestDrawn runs some seeds, or those that TestSwarm asks for.
func TestDrawn(t *testing.T) {
	n := cmp.Or(*inside, shortRuns)
	if *runs > 0 || *planFile != "" {
		t.Skip("other plans are run")
	}
	for seed := *first; seed < *first+uint64(n); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if *inside > 0 {
				fmt.Fprintf(os.Stderr, "seed %d\n", seed) // a panic in a bubble ends the process
			}
			play(t, draw(seed))
		})
	}
}

// TestKept runs the plans in testdata, which have failed before, or the one of -plan.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if *planFile != "" {
		files = []string{*planFile}
	} else if *runs > 0 || *inside > 0 {
		t.Skip("other plans are run")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var p plan
			if err := json.Unmarshal(content, &p); err != nil {
				t.Fatal(err)
			}
			play(t, p)
		})
	}
}

// batch is the number of seeds of one process.
const batch = 20

// TestSwarm runs many seeds in processes of their own, because a deadlock in a bubble ends the
// process. It shrinks the first plan that fails.
func TestSwarm(t *testing.T) {
	if *runs == 0 {
		t.Skip("run make swarm-nodes, or with -runs")
	}
	var busy time.Duration
	began := time.Now()
	for done := 0; done < *runs && (*budget == 0 || busy < *budget); {
		n := min(batch, *runs-done)
		seed := *first + uint64(done)
		out, took, failed := child(t, "-test.run=^TestDrawn$", fmt.Sprint("-seed=", seed),
			fmt.Sprint("-inside=", n), fmt.Sprint("-histories=", *histories))
		busy += took
		if failed {
			lines := seedLine.FindAllStringSubmatch(out, -1)
			if len(lines) == 0 {
				t.Fatalf("no seed has run:\n%s", out)
			}
			fmt.Sscan(lines[len(lines)-1][1], &seed)
			if at := failedLine.FindStringSubmatch(out); at != nil {
				fmt.Sscan(at[1], &seed)
			}
			t.Errorf("seed %d fails after %d runs and %.1f s of CPU time: %s\n%s",
				seed, seed-*first, busy.Seconds(), kindOf(out), out)
			shrinkPlan(t, draw(seed), kindOf(out))
			return
		}
		done += n
	}
	t.Logf("%d runs from seed %d: nothing failed; %.0f s, %.0f s of CPU time",
		*runs, *first, time.Since(began).Seconds(), busy.Seconds())
}

var (
	seedLine   = regexp.MustCompile(`(?m)^seed (\d+)$`)
	failedLine = regexp.MustCompile(`--- FAIL: TestDrawn/seed_(\d+)`)
	kindLine   = regexp.MustCompile(`\[([a-z]+)\] `)
)

// kindOf returns what failed, by the output of a process.
func kindOf(out string) string {
	switch at := kindLine.FindStringSubmatch(out); {
	case at != nil:
		return at[1]
	case strings.Contains(out, "athenatest: split brain"):
		return "split brain"
	case strings.Contains(out, "athenatest: "):
		return "athenatest"
	case strings.Contains(out, "deadlock: "):
		return "deadlock"
	case strings.Contains(out, "panic: test timed out"):
		return "timeout"
	case strings.Contains(out, "panic: "), strings.Contains(out, "fatal error: "):
		return "panic"
	}
	return "other"
}

// child runs tests of this program in another process.
func child(t *testing.T, args ...string) (out string, took time.Duration, failed bool) {
	t.Helper()
	run := exec.Command(os.Args[0], append(args, "-test.timeout=1h", "-test.failfast")...)
	b, err := run.CombinedOutput()
	if run.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), run.ProcessState.UserTime() + run.ProcessState.SystemTime(), err != nil
}
