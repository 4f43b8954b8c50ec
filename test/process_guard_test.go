// SPDX-License-Identifier: Apache-2.0

//go:build linux

package test

import (
	"flag"
	"os"
	"os/exec"
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

// TestProcessGuardOfAProgram kills the leader of three programs that embed Athena and are run by
// athena guard.
func TestProcessGuardOfAProgram(t *testing.T) {
	t.Parallel()
	athena, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := newNodes(t, 3)
	embed := buildExample(t, "embed")
	all := c.startExampleBy(func(i int) *exec.Cmd {
		guard := append([]string{"guard"}, c.flags(i)[1:]...)
		return exec.Command(athena, append(append(guard, "--", embed), c.addrs...)...)
	})
	led := regexp.MustCompile(`leader of version (\d+) is (\S+)\n`)
	readLeader := func(i int) (version, leader string) {
		found := led.FindAllStringSubmatch(all[i-1].stdout.String(), -1)
		if len(found) == 0 {
			return "", ""
		}
		return found[len(found)-1][1], found[len(found)-1][2]
	}
	var before, leader string
	eventually(t, "all have the same leader, and hear the others", func() bool {
		before, leader = readLeader(1)
		for i, p := range all {
			version, _ := readLeader(i + 1)
			if version != before || strings.Count(p.stdout.String(), " says hi") < 2 {
				return false
			}
		}
		return before != ""
	})
	dead := 1 + slices.Index(c.addrs, leader)
	if err := syscall.Kill(c.processOf(dead), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := all[dead-1].wait(); code != 137 {
		t.Errorf("exit %d, want that of the program, 137", code)
	}
	if text := all[dead-1].stderr.String(); !announcedEnd.MatchString(text) {
		t.Errorf("the others were not informed:\n%s", text)
	}
	eventually(t, "another one leads", func() bool {
		version, another := readLeader(dead%3 + 1)
		return version != before && another != leader
	})
}

// TestProcessGuardIsRefused checks that guard and obituary refuse a file system whose locks do not
// prove that a process has ended, and that guard does not run its command then.
func TestProcessGuardIsRefused(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	flags := append(c.flags(1)[1:], "--data-dir", "/proc/athena")
	ran := filepath.Join(c.dir, "ran")
	for verb, rest := range map[string][]string{"obituary": nil, "guard": {"--", "touch", ran}} {
		code, _, text := run(t, append(append([]string{verb}, flags...), rest...)...)
		if code != 2 || !strings.Contains(text, "--data-dir") ||
			!strings.Contains(text, "does not prove that a process has ended") {
			t.Errorf("%s: exit %d, error\n%s\nwant 2 and the reason", verb, code, text)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("guard has run the command")
	}
}

// TestProcessGuardMemory checks that athena guard needs little memory while it waits.
func TestProcessGuardMemory(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	p := start(t, append(append([]string{"guard"}, c.flags(1)[1:]...), "--", "sleep", "600")...)
	kilobytes := regexp.MustCompile(`(?m)^(?:VmRSS|RssAnon|RssFile):\s+(\d+) kB$`)
	path := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status")
	var lines []string
	defer func() { t.Logf("memory: %q", lines) }()
	eventually(t, "athena guard has at most 8 MiB", func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := kilobytes.FindAllStringSubmatch(string(text), -1)
		if lines = nil; len(found) != 3 {
			return false
		}
		for _, m := range found {
			lines = append(lines, m[0])
		}
		total, err := strconv.Atoi(found[0][1])
		children, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "task", "*", "children"))
		running := slices.ContainsFunc(children, func(path string) bool {
			text, _ := os.ReadFile(path)
			return len(text) > 0
		})
		return running && err == nil && total <= 8<<10
	})
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 143 {
		t.Errorf("exit %d, want that of the command, 143", code)
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
