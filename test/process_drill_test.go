// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// notStopped is what a drill prints, instead of times, if its command killed nothing.
const notStopped = "did not stop: check the command"

// TestProcessDrill drills a cluster of three real daemons: the leader, which is started again, then
// a follower, which is not. It also checks when a drill kills nothing or fails.
func TestProcessDrill(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, leader := c.startAll()
	other := leader%3 + 1
	kill := func(i int) []string {
		return []string{"--", "kill", "-KILL", fmt.Sprint(all[i-1].cmd.Process.Pid)}
	}
	c.drill(leader, 1, "another member", append([]string{"--yes"}, kill(leader)...)...)
	c.drill(other, 1, "nothing was done", kill(leader)...)
	c.drill(other, 1, "names 0 active members", append([]string{"--member", "n9"}, kill(leader)...)...)
	c.drill(other, 1, notStopped, "--yes", "--", "true")
	c.drill(other, 1, notStopped, "--yes", "--back-within", "1s", "--", "true")
	c.drill(other, 1, notStopped, "--yes", "--", "sh", "-c",
		fmt.Sprintf("kill -STOP %[1]d; sleep 3; kill -CONT %[1]d", all[leader-1].cmd.Process.Pid))
	leader = c.settle(1, 2, 3)
	other = leader%3 + 1
	c.drill(other, 1, "exit status 1", "--yes", "--", "false")

	p := start(t, append([]string{"drill", "--admin", c.admin(other), "--yes", "-o", "json",
		"--max-leaderless", "15s"}, kill(leader)...)...)
	all[leader-1].wait()
	eventually(t, "another leader", func() bool {
		s, ok := c.status(other)
		return ok && s.Token > 0 && s.View.Leader.String() != c.addrs[leader-1]
	})
	all[leader-1] = c.start(leader)
	var r struct {
		Member, Leader                  string
		LeaderlessMS, NoticedMS, BackMS float64
	}
	text := strings.NewReplacer("_ms", "MS").Replace(waitOutput(p))
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Member != fmt.Sprint("n", leader) ||
		r.Leader == r.Member || r.Leader == "" || r.LeaderlessMS <= 0 || r.BackMS < r.NoticedMS {
		t.Errorf("%v: got %+v", err, r)
	}
	t.Logf("%+v", r)

	leader = c.settle(1, 2, 3)
	follower := leader%3 + 1
	c.drill(leader, 0, "did not return within 2s", append([]string{"--yes", "--back-within", "2s",
		"--member", fmt.Sprint("n", follower), "--max-leaderless", "0s"}, kill(follower)...)...)
	c.drill(leader, 1, "drill only a healthy cluster", "--yes", "--", "true")
	all[follower-1] = c.start(follower)
	leader = c.settle(1, 2, 3)
	c.drill(leader%3+1, 1, "without a leader, more than 1ms", append([]string{"--yes",
		"--back-within", "3s", "--max-leaderless", "1ms"}, kill(leader)...)...)
}

// waitOutput waits for the end of a process and returns its standard output.
func waitOutput(p *process) string {
	p.wait()
	return p.stdout.String()
}

// drill runs athena drill with the admin API of node i, and checks the exit code and the text that
// it prints.
func (c *nodes) drill(i, want int, text string, args ...string) {
	c.t.Helper()
	code, stdout, stderr := run(c.t, append([]string{"drill", "--admin", c.admin(i)}, args...)...)
	if code != want || !strings.Contains(stdout+stderr, text) ||
		text == notStopped && strings.Contains(stdout, "KILLED") {
		c.t.Errorf("%v: exit %d, %s%s; want %d and %q", args, code, stdout, stderr, want, text)
	}
}
