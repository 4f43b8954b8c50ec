// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"errors"
	"flag"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var mixed = flag.Bool("mixed", false, "build earlier commits and run them beside this one")

// otherProtocolCommit has protocol version 1.
const otherProtocolCommit = "813ef214"

// buildPrevious builds athena of an earlier commit, or of the release before if it is "previous",
// and returns its path.
func buildPrevious(t *testing.T, commit string) string {
	t.Helper()
	if !*mixed {
		t.Skip("run with -mixed (make mixed): it builds earlier commits")
	}
	path := filepath.Join(t.TempDir(), "athena")
	out, err := exec.Command("../scripts/previous.sh", commit, path).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Fatalf("scripts/previous.sh: %v\n%s", err, out)
	}
	return path
}

// startOf starts node i with another program.
func (c *nodes) startOf(program string, i int, more ...string) *process {
	c.t.Helper()
	return startCommand(c.t, io.Discard, exec.Command(program, c.flags(i, more...)...))
}

// leaseFlags sets timings whose defaults have changed between the commits.
var leaseFlags = []string{"--leader-timeout", "1s", "--lease-timeout", "700ms"}

// TestMixedVersions runs a cluster of this program and that of the release before. It kills each
// leader, and starts each node with the other program and the same store. Tokens grow all the time.
func TestMixedVersions(t *testing.T) {
	t.Parallel()
	earlier := buildPrevious(t, "previous")
	c := newNodes(t, 3)
	all := map[int]*process{
		1: c.start(1, leaseFlags...), 2: c.startOf(earlier, 2, leaseFlags...),
		3: c.start(3, leaseFlags...),
	}
	isEarlier := map[int]bool{2: true}
	var token uint64
	var leaders []bool // whether each was of the earlier program
	for range 8 {
		leader := c.settle(1, 2, 3)
		s, _ := c.status(leader)
		if s.Token <= token {
			t.Errorf("token %d of n%d follows token %d", s.Token, leader, token)
		}
		token = s.Token
		for i := range all { // each program asks the nodes of both
			ask := exec.Command(earlier, "members", "--admin", c.admin(i))
			if out, err := ask.CombinedOutput(); err != nil {
				t.Errorf("athena members of the earlier program, at n%d: %v\n%s", i, err, out)
			}
		}
		leaders = append(leaders, isEarlier[leader])
		all[leader].signal(syscall.SIGKILL)
		all[leader].wait()
		eventually(t, "another leader", func() bool {
			for i := range all {
				if s, ok := c.status(i); ok && i != leader && s.IsLeader() && s.Token > token {
					return true
				}
			}
			return false
		})
		if isEarlier[leader] = !isEarlier[leader]; isEarlier[leader] {
			all[leader] = c.startOf(earlier, leader, leaseFlags...)
		} else {
			all[leader] = c.start(leader, leaseFlags...)
		}
	}
	c.settle(1, 2, 3)
	t.Logf("leaders of the earlier program: %v", leaders)
}

// TestUnknownProtocolVersion starts a node of another protocol version beside a cluster. The
// cluster works on, and both sides name the reason.
func TestUnknownProtocolVersion(t *testing.T) {
	t.Parallel()
	earlier := buildPrevious(t, otherProtocolCommit)
	c := newNodes(t, 3)
	first, second := c.start(1, leaseFlags...), c.start(2, leaseFlags...)
	leader := c.settle(1, 2)
	before, _ := c.status(leader)
	other := c.startOf(earlier, 3, leaseFlags...)
	const want = "unknown format version"
	for name, p := range map[string]*process{"n1": first, "n2": second, "the other": other} {
		eventually(t, name+" prints "+want, func() bool {
			return strings.Contains(p.stderr.String(), want)
		})
	}
	time.Sleep(3 * time.Second) // several leases
	after, ok := c.status(leader)
	if !ok || after.Token != before.Token || after.Active() != 2 {
		t.Errorf("the cluster after that: token %d, %d active, want token %d, 2 active",
			after.Token, after.Active(), before.Token)
	}
	for _, line := range strings.Split(first.stderr.String()+other.stderr.String(), "\n") {
		if strings.Contains(line, want) {
			t.Log(line)
		}
	}
}
