// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// quickLowest are the arguments for an election by Lowest in less than a second.
var quickLowest = []string{"--strategy", "lowest", "--grace", "600ms", "--sample", "100ms",
	"--alive", "800ms", "--campaign", "300ms"}

// groupWork starts athena group on node i, with a command that notes its begin and end.
func (c *nodes) groupWork(n *notes, i int, more ...string) *process {
	c.t.Helper()
	return c.verb(i, "group", "delivery", slices.Concat(more, n.script(fmt.Sprintf(
		`trap 'echo end:%[1]d $N; exit 0' TERM INT; echo begin:%[1]d:$ATHENA_GROUP $N;
		while :; do sleep 0.02; done`, i)))...)
}

// leaderOf returns the node whose command runs, or 0.
func (n *notes) leaderOf() (i int) {
	n.t.Helper()
	running := map[int]bool{}
	for _, line := range n.lines() {
		var node int
		if _, err := fmt.Sscanf(line, "begin:%d", &node); err == nil {
			running[node] = true
		} else if _, err := fmt.Sscanf(line, "end:%d", &node); err == nil {
			delete(running, node)
		}
	}
	for node := range running {
		i = node
	}
	if len(running) != 1 {
		return 0
	}
	return i
}

// waitLeader waits until the command runs on one node, and returns it.
func (n *notes) waitLeader() (i int) {
	n.t.Helper()
	eventually(n.t, "the command runs on one node", func() bool { i = n.leaderOf(); return i > 0 })
	return i
}

// TestGroupRunsOneCommand checks that athena group runs the command of one node. Another command
// must run after the process of the leader is killed, and after the node of the leader stops.
func TestGroupRunsOneCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux signals the death of a parent")
	}
	c, nodes := withWrite(t)
	n := newNotes(t)
	var all []*process
	for i := range 3 {
		all = append(all, c.groupWork(n, i+1, quickLowest...))
	}
	first := n.waitLeader()
	for i, p := range all {
		eventually(t, fmt.Sprintf("node %d knows the leader", i+1), func() bool {
			return strings.Contains(p.stderr.String(), fmt.Sprintf("leader  n%d at ", first))
		})
	}
	if want := fmt.Sprintf("begin:%d:delivery", first); n.lines()[0] != want {
		t.Errorf("noted %q, want %q", n.lines(), want)
	}
	c.groupWork(n, first, quickLowest...).ended(125, "the group is already open")

	all[first-1].signal(syscall.SIGKILL)
	n.want(fmt.Sprintf("begin:%d:delivery", first), fmt.Sprintf("end:%d", first),
		fmt.Sprintf("begin:%d:delivery", n.waitOther(first)))
	second := n.waitLeader()
	nodes[second-1].signal(syscall.SIGTERM)
	all[second-1].ended(125, "stopped campaigning for delivery: ")
	third := n.waitOther(first, second)
	if third != n.waitLeader() {
		t.Errorf("noted %q, want the command of node %d alone", n.lines(), third)
	}
}

// TestGroupOfANodeThatDies kills or pauses the node of a leader that the strategy Lowest elected.
// The command must end before another member leads.
func TestGroupOfANodeThatDies(t *testing.T) {
	t.Parallel()
	slow := slices.Concat(quickLowest, []string{"--alive", "3s"})
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		c, nodes := withWrite(t)
		n := newNotes(t)
		first := c.groupWork(n, 1, slow...)
		n.want("begin:1:delivery")
		second := c.groupWork(n, 2, slow...)
		eventually(t, "node 2 knows the leader", func() bool {
			return strings.Contains(second.stderr.String(), "leader  n1 at ")
		})
		nodes[0].signal(how)
		n.want("begin:1:delivery", "end:1", "begin:2:delivery")
		first.ended(125, "stopped campaigning for delivery: ")
	}
}

// waitOther waits until the command has begun on a node other than those given.
func (n *notes) waitOther(than ...int) (i int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("a node other than %v leads", than), func() bool {
		i = n.leaderOf()
		return i > 0 && !slices.Contains(than, i)
	})
	return i
}

// TestGroupByFile checks that the configuration file alone configures the election, under the names
// that Fabric uses. When the node stops, the command of a static leader must get SIGTERM.
func TestGroupByFile(t *testing.T) {
	t.Parallel()
	c, nodes := withWrite(t)
	n := newNotes(t)
	file := filepath.Join(t.TempDir(), "athena.yaml")
	text := "groups:\n  delivery:\n    useLeaderElection: false\n    orgLeader: true\n" +
		"    leaderAliveThreshold: 10s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	static := c.groupWork(n, 1, "--config", file)
	n.want("begin:1:delivery")
	standby := c.groupWork(n, 2, "--strategy", "standby")
	eventually(t, "the standby takes part", func() bool {
		return strings.Contains(standby.stderr.String(), "leader  none")
	})
	nodes[0].signal(syscall.SIGTERM)
	static.ended(125, "stopped campaigning for delivery: ")
	n.want("begin:1:delivery", "end:1")
	standby.signal(syscall.SIGTERM)
	standby.ended(0, "")
	n.want("begin:1:delivery", "end:1")
}

// TestGroupRetries checks that a command that fails is run again under the same token, and that
// another node leads when the time for retries is over. Without retries, athena must exit with the
// code of the command.
func TestGroupRetries(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	fails := n.script(`echo fail:$ATHENA_TOKEN $N; exit 3`)
	c.verb(1, "group", "other", slices.Concat([]string{"--strategy", "static"}, fails)...).ended(3, "")
	first := n.lines()
	if len(first) != 1 {
		t.Fatalf("noted %q, want one run", first)
	}
	retries := c.verb(1, "group", "delivery", slices.Concat(quickLowest,
		[]string{"--retry-for", "400ms", "--hold", "1h"}, fails)...)
	eventually(t, "it is run again", func() bool { return len(n.lines()) >= 4 })
	if lines := n.lines(); lines[1] != lines[2] || lines[2] != lines[3] {
		t.Errorf("runs %q, want one token", lines)
	}
	succeeds := c.verb(2, "group", "delivery", slices.Concat(quickLowest,
		n.script(`echo done $N`))...)
	succeeds.ended(0, "")
	if lines := n.lines(); lines[len(lines)-1] != "done" {
		t.Errorf("noted %q, want done at the end", lines)
	}
	retries.signal(syscall.SIGINT)
	retries.ended(0, "")
}
