// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestProcessForward transfers, drains and prefers members through another node, and checks that a
// node without --admin-write refuses. The log contains actions whatever its level is.
func TestProcessForward(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	var all []*process
	for i := 1; i <= 3; i++ {
		flags := c.flags(i, "--log-format", "json", "--log-level", "error")
		if i < 3 {
			flags = append(flags, "--admin-write")
		}
		all = append(all, start(t, flags...))
	}
	leader := c.settle(1, 2, 3)
	// act runs a verb at node 1 and checks its exit code and a text of its output.
	act := func(want int, text string, verb ...string) {
		t.Helper()
		code, stdout, stderr := run(t, append(verb, "--admin", c.admin(1))...)
		if code != want || !strings.Contains(stdout+stderr, text) {
			t.Errorf("%q: exit %d, %s%s, want %d and %q", verb, code, stdout, stderr, want, text)
		}
	}
	if leader == 3 {
		act(1, "read-only", "transfer", "--to", "n2")
		code, _, stderr := run(t, "prefer", "never", "--admin", c.admin(3))
		if code != 1 || !strings.Contains(stderr, "read-only") {
			t.Fatalf("prefer at a read-only node: exit %d, %s", code, stderr)
		}
		all[2].signal(syscall.SIGTERM)
		all[2].wait()
		c.settle(1, 2)
		all[2] = start(t, c.flags(3, "--log-format", "json")...)
		leader = c.settle(1, 2, 3)
	}
	other := 3 - leader // of the nodes 1 and 2
	act(0, fmt.Sprint("n", other), "transfer", fmt.Sprint("n", other))
	c.settle(1, 2, 3)
	act(1, "read-only", "drain", "n3")
	act(2, "is empty", "drain", "")
	act(0, "", "prefer", "n2", "5")
	eventually(t, "the preference of n2", func() bool {
		s, _ := c.status(1)
		for _, m := range s.View.Members {
			if m.Name == "n2" {
				return m.Preference == 5
			}
		}
		return false
	})
	act(0, "", "drain", "n2")
	if s, ok := c.status(2); !ok || !s.Drained {
		t.Errorf("n2 is not drained: %t", ok)
	}
	if want := `"action":"drain","request":"{}","outcome":"ok","by":"via n1: `; !strings.Contains(
		all[1].stderr.String(), want) {
		t.Errorf("n2: no line has %s", want)
	}
}
