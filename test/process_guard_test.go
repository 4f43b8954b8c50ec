// SPDX-License-Identifier: Apache-2.0

//go:build linux

package test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var kills = flag.Int("kills", 1, "how often TestProcessGuard kills the leader each way")

var announcedEnd = regexp.MustCompile(`process of this node has ended .*voters=[12]\b`)

// TestProcessGuard kills leaders with and without athena guard, at the timings as shipped, and
// prints the times without a leader.
func TestProcessGuard(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run", "guard"} {
		c := newNodes(t, 3)
		all := make([]*process, 3)
		for i := range all {
			all[i] = start(t, append([]string{verb}, c.flags(i + 1)[1:]...)...)
		}
		var took []time.Duration
		for range *kills {
			leader := c.settle(1, 2, 3)
			began := time.Now()
			if err := syscall.Kill(c.processOf(leader), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			c.awaitQuorum(slices.DeleteFunc([]int{1, 2, 3}, func(i int) bool { return i == leader })...)
			took = append(took, time.Since(began))
			code := all[leader-1].wait()
			text := all[leader-1].stderr.String()
			if verb == "guard" && (code != 137 || !announcedEnd.MatchString(text)) {
				t.Errorf("exit %d, want that of the command, and members that know of it\n%s", code, text)
			}
			all[leader-1] = start(t, append([]string{verb}, c.flags(leader)[1:]...)...)
		}
		c.settle(1, 2, 3)
		leaveAll(all)
		slices.Sort(took)
		n := len(took)
		t.Logf("%s: %d kills, without a leader for %v (median), %v (longest)", verb, n,
			((took[(n-1)/2] + took[n/2]) / 2).Round(time.Millisecond), took[n-1].Round(time.Millisecond))
		if verb == "guard" && n > 1 && took[0] > time.Second*7/10 { // one can meet a busy machine
			t.Errorf("another leader after %v, want less than a lease", took[0])
		}
	}
}

// processOf returns the process id of the daemon that uses the directory of node i.
func (c *nodes) processOf(i int) int {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.store(i), "athena.lock"))
	if err != nil {
		c.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}
