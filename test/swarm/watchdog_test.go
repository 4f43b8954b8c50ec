// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The limits of a run. The process exits if a run exceeds a limit, because such a run would never
// end.
const (
	maxSeconds = 600             // of virtual time
	maxBusy    = time.Minute     // of CPU time within a second of virtual time
	maxStuck   = 5 * time.Minute // of real time within a second of virtual time
)

// countSeconds counts the seconds of a bubble until stop is called.
func (w *world) countSeconds() (stop func()) {
	done := make(chan struct{})
	go func() {
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-done:
				return
			case <-every.C:
			}
			if w.seconds.Add(1) == maxSeconds {
				abortRun("hang", fmt.Sprintf("the run has not ended after %d s of virtual time", maxSeconds),
					"swarm.")
			}
		}
	}()
	return func() { close(done) }
}

// watchClock checks from outside of the bubble that virtual time passes until stop is called.
func (w *world) watchClock() (stop func()) {
	done := make(chan struct{})
	go func() {
		every := time.NewTicker(time.Second)
		defer every.Stop()
		seconds, busy, since := int64(-1), cpuTime(), time.Now()
		for {
			select {
			case <-done:
				return
			case <-every.C:
			}
			if now := w.seconds.Load(); now != seconds {
				seconds, busy, since = now, cpuTime(), time.Now()
			} else if cpuTime()-busy > maxBusy {
				abortRun("spin", fmt.Sprintf("virtual time stands still for %v of CPU time", maxBusy),
					"[runnable", "[running")
			} else if time.Since(since) > maxStuck {
				abortRun("stuck", fmt.Sprintf("virtual time stands still for %v", maxStuck), "bubble")
			}
		}
	}()
	return func() { close(done) }
}

// abortRun reports why a run cannot end, with the stacks that contain one of the words, and ends
// the process.
func abortRun(kind, what string, words ...string) {
	fmt.Fprintf(os.Stderr, "[%s] %s:\n%s\n", kind, what, stacksWith(words...))
	os.Exit(1)
}

// stacksWith returns the stacks of the goroutines that contain one of the words.
func stacksWith(words ...string) string {
	buf := make([]byte, 4<<20)
	var found []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, word := range words {
			if strings.Contains(stack, word) {
				found = append(found, stack)
				break
			}
		}
	}
	return strings.Join(found, "\n\n")
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
