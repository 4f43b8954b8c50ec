// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// noFlag is a flag that has its default value.
const noFlag = "--join-only=false"

// TestProcessResize makes a cluster of three one of five, and one of three again. Under each size a
// lock is taken and a job is led: their tokens grow. A directory that was left out keeps its node
// outside, and a resize that was interrupted can be undone until a new node has joined.
func TestProcessResize(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 5)
	former := *c
	former.addrs = c.addrs[:3]
	last := map[string]int{}
	takeTokens := func() {
		t.Helper()
		for _, verb := range []string{"lock", "elect"} {
			last[verb] = c.takeToken(verb, last[verb])
		}
	}

	all := former.startSome(noFlag, 1, 2, 3)
	c.settle(1, 2, 3)
	takeTokens()
	c.resize(1, 5, 1, "stop the node first")
	stopAll(all)

	// The operator stops half way: the two that were left out are the old cluster.
	c.resize(1, 5, 0, "The size was 3 and is 5.")
	c.resize(1, 5, 0, "The size was 5 and is 5.")
	c.resize(2, 7, 1, "size 7 needs 4 voting members")
	c.resize(2, 2, 1, "the least size is 3")
	if code, _, stderr := run(t, former.flags(1)...); code == 0 ||
		!strings.Contains(stderr, "the store was made for 5") {
		t.Fatalf("exit %d, %s; want a mention of the size of the store", code, stderr)
	}
	all = former.startSome(noFlag, 2, 3)
	all = append(all, c.startSome(noFlag, 1)...)
	eventually(t, "a leader of the former size", func() bool {
		s, ok := c.status(2)
		one, up := c.status(1)
		return ok && s.Token > 0 && up && one.Token == 0
	})
	stopAll(all)
	c.resize(1, 3, 0, "The size was 5 and is 3.")
	all = former.startSome(noFlag, 1, 2, 3)
	c.settle(1, 2, 3)
	takeTokens()
	stopAll(all)

	for i := 1; i <= 3; i++ {
		c.resize(i, 5, 0, "The size was 3 and is 5.")
	}
	all = c.startSome(noFlag, 1, 2, 3)
	all = append(all, c.startSome("--join-only", 4, 5)...)
	c.settle(1, 2, 3, 4, 5)
	takeTokens()
	stopAll(all[:2])
	eventually(t, "the new majority has a leader", func() bool {
		s, ok := c.status(4)
		return ok && s.Token > 0 && s.View.Quorate
	})
	stopAll(all[2:])
	c.resize(3, 3, 1, "the least size is 5")
	c.shrink(&former)
	takeTokens()
}

// shrink makes five nodes, which are down, the three of the former cluster again.
func (c *nodes) shrink(former *nodes) {
	c.t.Helper()
	all := c.startSome(noFlag, 1, 2, 3, 4, 5)
	leader := c.settle(1, 2, 3, 4, 5)
	c.release(leader, 2, 1, "the least is 3, a majority of 5")
	c.release(leader, 3, 1, "5 members have not left")
	for _, p := range all[3:] {
		p.signal(syscall.SIGTERM)
		p.wait()
	}
	leader = c.settle(1, 2, 3)
	c.release(leader%3+1, 3, 1, "does not lead")
	c.release(leader, 3, 0, "at most 3")
	stopAll(all[:3])

	// Node 1 and those that left could not outvote the two that have the smaller size.
	c.resize(4, 3, 1, "the least size is 5")
	c.resize(2, 3, 0, "The size was 5 and is 3.")
	c.resize(3, 3, 0, "The size was 5 and is 3.")
	all = former.startSome(noFlag, 2, 3)
	all = append(all, c.startSome(noFlag, 1, 4, 5)...)
	former.settle(2, 3)
	for _, i := range []int{1, 4, 5} {
		if s, ok := c.status(i); !ok || s.Token != 0 {
			c.t.Errorf("node %d: %t, token %d; want a node without a leader", i, ok, s.Token)
		}
	}
	stopAll(all)
	c.resize(1, 3, 0, "The size was 5 and is 3.")
	former.startSome(noFlag, 1, 2, 3)
	former.settle(1, 2, 3)
}

func (c *nodes) startSome(flag string, numbers ...int) (some []*process) {
	for _, i := range numbers {
		some = append(some, c.start(i, "--admin-write", flag))
	}
	return some
}

func stopAll(some []*process) {
	for _, p := range some {
		p.signal(syscall.SIGKILL)
		p.wait()
	}
}

// resize runs athena resize for node i and checks the exit code and the text that it prints.
func (c *nodes) resize(i, size, want int, text string) {
	c.t.Helper()
	code, stdout, stderr := run(c.t, "resize", "--to", strconv.Itoa(size), "--data-dir", c.store(i))
	if code != want || !strings.Contains(stdout+stderr, text) {
		c.t.Fatalf("node %d to %d: exit %d, %s%s; want %d and %q",
			i, size, code, stdout, stderr, want, text)
	}
}

// release runs athena release for node i and checks the exit code and the text that it prints.
func (c *nodes) release(i, keep, want int, text string) {
	c.t.Helper()
	code, stdout, stderr := run(c.t, "release", "--keep", strconv.Itoa(keep), "--admin", c.admin(i))
	if code != want || !strings.Contains(stdout+stderr, text) {
		c.t.Fatalf("node %d keeps %d: exit %d, %s%s; want %d and %q",
			i, keep, code, stdout, stderr, want, text)
	}
}

// takeToken runs a command under a lock or as the leader of a job. It returns the token, which must
// be above the last one.
func (c *nodes) takeToken(verb string, last int) int {
	c.t.Helper()
	code, stdout, stderr := run(c.t, verb, verb+"-backup", "--admin", c.admin(1), "--", "sh", "-c",
		"echo $ATHENA_TOKEN")
	token, err := strconv.Atoi(strings.TrimSpace(stdout))
	if code != 0 || err != nil || token <= last {
		c.t.Fatalf("%s: exit %d, %q, %s; want a token above %d", verb, code, stdout, stderr, last)
	}
	return token
}

var resizes = flag.Int("resizes", 1, "how often TestResizeOutage resizes each way")

// TestResizeOutage measures how long a cluster has no leader because its size changes, as
// docs/deployment.md describes it. The new nodes are not seeds.
func TestResizeOutage(t *testing.T) {
	c := newNodes(t, 5)
	c.seeds = c.addrs[:3]
	former := *c
	former.addrs = c.addrs[:3]
	all := former.startSome(noFlag, 1, 2, 3)
	former.settle(1, 2, 3)
	var grown, shrunk []time.Duration
	for range *resizes {
		stop := time.Now()
		leaveAll(all)
		c.resizeAll(5)
		all = append(c.startSome(noFlag, 1, 2, 3), c.startSome("--join-only", 4, 5)...)
		c.awaitQuorum(1, 2, 3, 4, 5)
		grown = append(grown, time.Since(stop))
		c.settle(1, 2, 3, 4, 5)

		leaveAll(all[3:]) // the other three continue
		c.release(c.settle(1, 2, 3), 3, 0, "at most 3")
		for _, i := range []int{4, 5} { // after the release: their votes may be needed until then
			if err := os.RemoveAll(c.store(i)); err != nil {
				t.Fatal(err)
			}
		}
		stop = time.Now()
		leaveAll(all[:3])
		c.resizeAll(3)
		all = former.startSome(noFlag, 1, 2, 3)
		former.awaitQuorum(1, 2, 3)
		shrunk = append(shrunk, time.Since(stop))
		former.settle(1, 2, 3)
	}
	for name, took := range map[string][]time.Duration{"3 to 5": grown, "5 to 3": shrunk} {
		slices.Sort(took)
		n := len(took)
		median := (took[(n-1)/2] + took[n/2]) / 2
		t.Logf("%s: %d times, median %v, longest %v without a leader", name, n,
			median.Round(time.Millisecond), took[n-1].Round(time.Millisecond))
	}
}

// leaveAll stops processes together, as an operator does, and waits until they have exited.
func leaveAll(some []*process) {
	for _, p := range some {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range some {
		p.wait()
	}
}

// resizeAll resizes the directories of the first three nodes.
func (c *nodes) resizeAll(size int) {
	c.t.Helper()
	for i := range 3 {
		c.resize(i+1, size, 0, fmt.Sprintf("and is %d.", size))
	}
}

// awaitQuorum waits until one of these nodes leads with authority.
func (c *nodes) awaitQuorum(numbers ...int) {
	c.t.Helper()
	eventually(c.t, "a leader", func() bool {
		return slices.ContainsFunc(numbers, func(i int) bool {
			s, ok := c.status(i)
			return ok && s.IsLeader()
		})
	})
}
