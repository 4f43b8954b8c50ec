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
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	first       = flag.Uint64("seed", 1, "first seed")
	runs        = flag.Int("runs", 0, "number of seeds to run in processes of their own")
	budget      = flag.Duration("budget", 0, "CPU time after which no more seeds run; 0 for no limit")
	shrinks     = flag.Duration("shrink", 3*time.Minute, "time limit for shrinking a plan that failed")
	inside      = flag.Int("inside", 0, "number of seeds to run in this process")
	workerCount = flag.Int("workers", runtime.NumCPU(), "number of processes at a time")
	graphs      = flag.Bool("graphs", false, "draw graphs of calls only")
	planFile    = flag.String("plan", "", "file with a plan to run in this process")
)

// shortRuns is the number of seeds of a plain go test, and graphRuns that of graphs of calls.
const (
	shortRuns = 4
	graphRuns = 10
)

// TestDrawn runs some seeds, or those that TestSwarm asks for.
func TestDrawn(t *testing.T) {
	n := cmp.Or(*inside, shortRuns)
	if *runs > 0 || *planFile != "" {
		t.Skip("other plans are run")
	}
	for seed := *first; seed < *first+uint64(n); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if *inside == 0 {
				playPlan(t, drawPlan(seed))
				return
			}
			fmt.Fprintf(os.Stderr, "seed %d\n", seed) // a panic in a bubble ends the process
			began := cpuTime()
			w := playPlan(t, drawPlan(seed))
			fmt.Fprintf(os.Stderr, "ended: %d faults, %d calls, %d ms\n", len(w.plan.Faults),
				w.calls.Load(), (cpuTime() - began).Milliseconds())
		})
	}
}

// TestHandlersNeverStandStill draws graphs of handlers that call each other.
func TestHandlersNeverStandStill(t *testing.T) {
	if *runs > 0 || *inside > 0 || *planFile != "" {
		t.Skip("other plans are run")
	}
	for seed := *first; seed < *first+graphRuns; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playPlan(t, drawPlan(seed*graphEvery)) })
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
			playPlan(t, p)
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
	s := &campaign{t: t, next: *first, began: time.Now()}
	var workers sync.WaitGroup
	for range *workerCount {
		workers.Go(s.runBatches)
	}
	workers.Wait()
	if s.out != "" {
		t.Errorf("seed %d fails after %d runs and %.1f s of CPU time: %s\n%s",
			s.failed, len(s.costs)+1, s.until.Seconds(), kindOf(s.out), s.out)
		shrinkPlan(t, drawPlan(s.failed), kindOf(s.out))
		return
	}
	slices.Sort(s.costs)
	t.Logf("%d runs from seed %d: nothing failed; %d faults, %d checked calls; %.0f s, %.0f s of CPU "+
		"time, %d ms for the median run", len(s.costs), *first, s.faults, s.calls,
		time.Since(s.began).Seconds(), s.busy.Seconds(), s.costs[len(s.costs)/2])
}

// campaign is a run of many seeds by several workers.
type campaign struct {
	t     *testing.T
	began time.Time

	mu            sync.Mutex
	next          uint64        // the next seed
	busy          time.Duration // CPU time of the batches that have ended
	costs         []int         // CPU time of each run in milliseconds
	faults, calls int
	failed        uint64        // the first seed that failed
	until         time.Duration // value of busy when the seed failed
	out           string        // output of the failed process; empty if no seed has failed
}

// runBatches runs batches until a run fails or all seeds have run.
func (s *campaign) runBatches() {
	for {
		seed, n := s.takeBatch()
		if n == 0 {
			return
		}
		env := cheap
		if (seed-*first)/batch%8 == 0 {
			env = nil
		}
		out, took, failed := runChild(s.t, env, "-test.run=^TestDrawn$", fmt.Sprint("-seed=", seed),
			fmt.Sprint("-inside=", n), fmt.Sprint("-histories=", *histories),
			fmt.Sprint("-graphs=", *graphs))
		s.addBatch(out, took, failed)
	}
}

// takeBatch returns the first seed of the next batch and how many seeds it has.
func (s *campaign) takeBatch() (seed uint64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == "" && (*budget == 0 || s.busy < *budget) {
		seed, n = s.next, min(batch, *runs-int(s.next-*first))
		s.next += uint64(n)
	}
	return seed, n
}

// addBatch adds the results of a batch.
func (s *campaign) addBatch(out string, took time.Duration, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += took
	for _, line := range endedLine.FindAllStringSubmatch(out, -1) {
		var faults, calls, cost int
		fmt.Sscan(strings.Join(line[1:], " "), &faults, &calls, &cost)
		s.faults, s.calls, s.costs = s.faults+faults, s.calls+calls, append(s.costs, cost)
	}
	if !failed || s.out != "" {
		return
	}
	s.out, s.until = out, s.busy
	lines := seedLine.FindAllStringSubmatch(out, -1)
	if len(lines) == 0 {
		s.t.Errorf("no seed has run")
		return
	}
	fmt.Sscan(lines[len(lines)-1][1], &s.failed)
	if at := failedLine.FindStringSubmatch(out); at != nil {
		fmt.Sscan(at[1], &s.failed)
	}
}

var (
	endedLine  = regexp.MustCompile(`(?m)^ended: (\d+) faults, (\d+) calls, (\d+) ms$`)
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

// cheap makes a run cheaper: one goroutine runs at a time, keys are exchanged without ML-KEM, and
// stacks begin at their usual size. One batch in eight runs as users do.
var cheap = []string{"GOMAXPROCS=1", "GODEBUG=tlsmlkem=0,adaptivestackstart=1"}

// runChild runs tests of this program in another process, with more environment variables.
func runChild(
	t *testing.T, env []string, args ...string,
) (out string, took time.Duration, failed bool) {
	t.Helper()
	run := exec.Command(os.Args[0], append(args, "-test.timeout=1h", "-test.failfast")...)
	// A run needs little memory, unless it fails.
	run.Env = append(append(os.Environ(), "GOGC=800", "GOMEMLIMIT=500MiB"), env...)
	b, err := run.CombinedOutput()
	if run.ProcessState == nil {
		t.Error(err)
		return err.Error(), 0, true
	}
	return string(b), run.ProcessState.UserTime() + run.ProcessState.SystemTime(), err != nil
}
