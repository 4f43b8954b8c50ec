// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// noFlag is a flag that has its default value.
const noFlag = "--join-only=false"

// TestProcessResize grows a cluster of three to five. A lock is taken under each size: its tokens
// grow. A directory that was left out keeps its node outside, and a resize that was interrupted can
// be undone until a new node has joined.
func TestProcessResize(t *testing.T) {
	c := newNodes(t, 5)
	former := *c
	former.addrs = c.addrs[:3]
	last := 0
	takeLock := func() {
		t.Helper()
		last = c.takeLock(last)
	}

	all := former.startSome(noFlag, 1, 2, 3)
	c.settle(1, 2, 3)
	takeLock()
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
	takeLock()
	stopAll(all)

	for i := 1; i <= 3; i++ {
		c.resize(i, 5, 0, "The size was 3 and is 5.")
	}
	all = c.startSome(noFlag, 1, 2, 3)
	all = append(all, c.startSome("--join-only", 4, 5)...)
	c.settle(1, 2, 3, 4, 5)
	takeLock()
	stopAll(all[:2])
	eventually(t, "the new majority has a leader", func() bool {
		s, ok := c.status(4)
		return ok && s.Token > 0 && s.View.Quorate
	})
	stopAll(all[2:])
	c.resize(3, 3, 1, "the least size is 5")
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

// takeLock runs a command under a lock. It returns the token, which must be above the last one.
func (c *nodes) takeLock(last int) int {
	c.t.Helper()
	code, stdout, stderr := run(c.t, "lock", "backup", "--admin", c.admin(1), "--", "sh", "-c",
		"echo $ATHENA_TOKEN")
	token, err := strconv.Atoi(strings.TrimSpace(stdout))
	if code != 0 || err != nil || token <= last {
		c.t.Fatalf("lock: exit %d, %q, %s; want a token above %d", code, stdout, stderr, last)
	}
	return token
}
