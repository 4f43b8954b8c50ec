// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
)

// notes is a file to which commands append lines.
type notes struct {
	t    *testing.T
	path string
}

func newNotes(t *testing.T) *notes {
	t.Helper()
	return &notes{t, filepath.Join(t.TempDir(), "notes")}
}

func (n *notes) lines() []string {
	n.t.Helper()
	text, err := os.ReadFile(n.path)
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// want waits until the file has these lines, and no others.
func (n *notes) want(lines ...string) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%q is noted", lines), func() bool {
		return strings.Join(n.lines(), " ") == strings.Join(lines, " ")
	})
}

// script returns a shell command that appends to $N and runs until it is stopped.
func (n *notes) script(text string) []string {
	return []string{"--", "sh", "-c", strings.ReplaceAll(text, "$N", ">> "+n.path)}
}

const untilTerm = `trap 'echo term $N; exit 7' TERM; echo begin $N; while :; do sleep 0.02; done`

// withWrite starts three nodes that accept changes.
func withWrite(t *testing.T) (*nodes, []*process) {
	t.Helper()
	c := newNodes(t, 3)
	var all []*process
	for i := range 3 {
		all = append(all, c.start(i+1, "--admin-write"))
	}
	c.settle(1, 2, 3)
	return c, all
}

// verb starts athena with a command and the address of node i.
func (c *nodes) verb(i int, verb, name string, more ...string) *process {
	c.t.Helper()
	return start(c.t, append([]string{verb, name, "--admin", c.admin(i)}, more...)...)
}

// countRecords returns the number of records under a prefix in the view of node i.
func (c *nodes) countRecords(i int, prefix string) int {
	c.t.Helper()
	r, err := c.get(i, "/v1/records?prefix="+prefix)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	var records []struct{}
	if err := json.NewDecoder(r.Body).Decode(&records); err != nil {
		c.t.Fatal(err)
	}
	return len(records)
}

// get requests a path of the admin API of node i.
func (c *nodes) get(i int, path string) (*http.Response, error) {
	socket := strings.TrimPrefix(c.admin(i), "unix:")
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	return client.Get("http://localhost" + path)
}

// ended checks the exit code and a text on standard error.
func (p *process) ended(code int, text string) {
	p.t.Helper()
	if got := p.wait(); got != code || !strings.Contains(p.stderr.String(), text) {
		p.t.Errorf("athena %q: code %d, %q, want %d and %q", p.cmd.Args[1:], got, &p.stderr, code, text)
	}
}

// TestLockOneAtATime starts commands on all nodes. Only one command runs at a time, and each has a
// greater token than the previous command. athena exits with the code of its command.
func TestLockOneAtATime(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	var all []*process
	for i := range 9 {
		all = append(all, c.verb(i%3+1, "lock", "lock/x", n.script(
			`echo begin:$ATHENA_TOKEN:$ATHENA_TOKEN_VERSION:$ATHENA_TOKEN_REVISION:$ATHENA_LOCK $N;
			sleep 0.05; echo end:$ATHENA_TOKEN $N; exit `+strconv.Itoa(i))...))
	}
	for i, p := range all {
		p.ended(i, "")
	}
	lines, last := n.lines(), int64(0)
	if len(lines) != 2*len(all) {
		t.Fatalf("got lines %q, want two of each", lines)
	}
	for i := 0; i < len(lines); i += 2 {
		begun := strings.Split(lines[i], ":")
		if len(begun) != 5 || begun[0] != "begin" || begun[4] != "lock/x" ||
			lines[i+1] != "end:"+begun[1] {
			t.Fatalf("%q and %q, want the begin and end of one command", lines[i], lines[i+1])
		}
		var token, version, revision int64
		_, err := fmt.Sscan(strings.Join(begun[1:4], " "), &token, &version, &revision)
		if err != nil || token <= last || token != version*1e12+revision {
			t.Errorf("token %d of %d.%d after %d: %v", token, version, revision, last, err)
		}
		last = token
	}
}

// TestLockWaits checks that athena lock waits while another process holds the lock, but no longer
// than the given time.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	first := c.verb(1, "lock", "x", n.script(untilTerm)...)
	n.want("begin")
	second := c.verb(2, "lock", "x", n.script(`echo second $N`)...)
	eventually(t, "the waiting process prints the reason", func() bool {
		return strings.HasPrefix(second.stderr.String(),
			"athena: waiting: held by n1 at "+c.addrs[0]+", token ")
	})
	c.verb(2, "lock", "lock/x", "--timeout", "300ms", "--", "true").ended(124,
		"lock/x was not acquired within 300ms: held by n1 at "+c.addrs[0]+", token ")
	other := c.verb(2, "lock", "y") // without a command
	eventually(t, "the token of another lock", func() bool {
		_, err := strconv.ParseInt(strings.TrimSpace(other.stdout.String()), 10, 64)
		return err == nil
	})
	code, out, _ := run(t, "jobs", "--admin", c.admin(3))
	if code != 0 || !strings.Contains(out, "x (n1, ") || !strings.Contains(out, "y (n2, ") {
		t.Errorf("athena jobs: code %d,\n%s\nwant both locks", code, out)
	}
	other.signal(syscall.SIGINT)
	other.ended(0, "")
	n.want("begin")
	first.signal(syscall.SIGTERM) // forwarded to the command
	first.ended(7, "")
	second.ended(0, "")
	n.want("begin", "term", "second")
}

// TestPermitsInOrder kills the node of a holder. The callers that wait at the other nodes get the
// permits in the order of their requests.
func TestPermitsInOrder(t *testing.T) {
	t.Parallel()
	for permits := 1; permits <= 2; permits++ {
		c, nodes := withWrite(t)
		n := newNotes(t)
		var want []string
		begin := func(i, node int) *process {
			t.Helper()
			p := c.verb(node, "lock", "x", append([]string{"--permits", strconv.Itoa(permits)},
				n.script(fmt.Sprintf(`echo %[1]d $N; while [ ! -e %[2]s.%[1]d ]; do sleep 0.02; done`,
					i, n.path))...)...)
			if i < permits {
				want = append(want, strconv.Itoa(i))
				n.want(want...)
				return p
			}
			// The callers of a node wait in one place of the queue.
			eventually(t, "it waits in the queue", func() bool {
				return strings.Contains(p.stderr.String(), "waiting: ") &&
					c.countRecords(2, "latch/lock/queue/x/") == min(i-permits+1, 2)
			})
			return p
		}
		first := begin(0, 1)
		var rest []*process
		for i := 1; i < 6; i++ {
			rest = append(rest, begin(i, 2+i%2))
		}
		nodes[0].signal(syscall.SIGKILL)
		first.ended(123, "lock/x was lost: ")
		want = append(want, strconv.Itoa(permits))
		n.want(want...)
		for i, p := range rest { // each end frees a permit for the next caller
			if err := os.WriteFile(fmt.Sprint(n.path, ".", i+1), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p.ended(0, "")
			if next := len(want); next < 6 {
				want = append(want, strconv.Itoa(next))
			}
			n.want(want...)
		}
	}
}

// TestLockWithoutALeader checks that an interrupted athena prints why there is no leader.
func TestLockWithoutALeader(t *testing.T) {
	t.Parallel()
	c, nodes := withWrite(t)
	holds := c.verb(2, "lock", "x")
	eventually(t, "it is held", func() bool { return holds.stdout.String() != "" })
	sees := c.verb(1, "lock", "x", "--", "true")
	eventually(t, "node 1 knows the holder", func() bool { return sees.stderr.String() != "" })
	sees.signal(syscall.SIGINT)
	sees.ended(130, "lock/x was not acquired: interrupted: ")
	nodes[1].signal(syscall.SIGKILL)
	nodes[2].signal(syscall.SIGKILL)
	eventually(t, "there is no leader", func() bool {
		code, _, _ := run(t, "leader", "--admin", c.admin(1))
		return code != 0
	})
	p := c.verb(1, "lock", "x", "--", "true")
	eventually(t, "it waits", func() bool { return p.stderr.String() != "" })
	p.signal(syscall.SIGINT)
	p.ended(130, "lock/x was not acquired: interrupted: no leader with authority: ")
}

// TestLockOfANodeThatDies kills or silences the node of a command that holds a lock. The command
// must be warned before its lease ends. Another process then gets the lock with a greater token.
func TestLockOfANodeThatDies(t *testing.T) {
	t.Parallel()
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		c, nodes := withWrite(t)
		n := newNotes(t)
		first := c.verb(1, "lock", "x", n.script(untilTerm)...)
		n.want("begin")
		second := c.verb(2, "lock", "x", n.script(`echo second $N`)...)
		began := time.Now()
		nodes[0].signal(how)
		first.ended(123, "lock/x was lost: ")
		took := time.Since(began)
		t.Logf("%v: ended after %v", how, took)
		// HoldTimeout, plus the time that this machine needs to run a shell.
		d := cluster.DefaultConfig().WithDefaults()
		if most := d.LeaseTimeout + d.LeaderTimeout + 2*time.Second; took > most {
			t.Errorf("%v: ended after %v, want at most %v", how, took, most)
		}
		second.ended(0, "")
		n.want("begin", "term", "second")
	}
}

// TestLockOfAnAthenaThatDies checks that the lock is released and the command is stopped if athena
// is killed.
func TestLockOfAnAthenaThatDies(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux signals the death of a parent")
	}
	c, _ := withWrite(t)
	n := newNotes(t)
	first := c.verb(1, "lock", "x", n.script(untilTerm)...)
	n.want("begin")
	first.signal(syscall.SIGKILL)
	n.want("begin", "term")
	c.verb(2, "lock", "x", n.script(`echo second $N`)...).ended(0, "")
	n.want("begin", "term", "second")
}

// TestLockOfAStubbornCommand checks that a command that ignores SIGTERM is killed with all its
// children, and that signals from a terminal reach all of them.
func TestLockOfAStubbornCommand(t *testing.T) {
	t.Parallel()
	c, nodes := withWrite(t)
	n := newNotes(t)
	p := c.verb(1, "lock", "x", append([]string{"--kill-after", "100ms"}, n.script(
		`(trap '' TERM; echo child $N; while :; do sleep 0.02; done) & trap '' TERM; wait; wait`)...)...)
	n.want("child")
	quick := c.verb(1, "lock", "y", n.script(`sleep 100 & echo two $N; wait`)...)
	n.want("child", "two")
	quick.signal(syscall.SIGTERM)
	quick.ended(128+int(syscall.SIGTERM), "")
	nodes[0].signal(syscall.SIGKILL)
	p.ended(123, "lock/x was lost: ")
	c.verb(2, "lock", "x", "--", "sh", "-c", "kill -9 $$").ended(128+9, "")
}

// TestElectRunsOneCommand checks that athena elect runs one command in the whole cluster. It must
// move the command to another node if the node that runs it dies or is disabled.
func TestElectRunsOneCommand(t *testing.T) {
	t.Parallel()
	c, nodes := withWrite(t)
	n1, n2 := newNotes(t), newNotes(t)
	work := func(i int, n *notes) *process {
		return c.verb(i, "elect", "job", n.script(fmt.Sprintf(
			`trap 'echo end:%[1]d $N; exit 0' TERM INT; echo begin:%[1]d $N; while :; do sleep 0.02; done`,
			i))...)
	}
	first := work(1, n1)
	n1.want("begin:1")
	second := work(2, n2)
	looks := c.verb(3, "elect", "job", "--listen", "-o", "json")
	eventually(t, "the leader's command is stopped", func() bool {
		return strings.Contains(looks.stdout.String(), `"leader":{"name":"n1"`)
	})
	code, out, _ := run(t, "jobs", "disable", "job", "n1", "--admin", c.admin(3))
	if code != 0 || out != "n1 may not lead job\n" {
		t.Errorf("athena jobs disable: code %d, %q", code, out)
	}
	// A member that is disabled loses the job even if its command hangs.
	n1.want("begin:1", "end:1")
	n2.want("begin:2")
	eventually(t, "why the first one lost it", func() bool {
		return strings.Contains(first.stderr.String(), "lost    the member was disabled")
	})
	if code, out, _ := run(t, "jobs", "enable", "job", "n1", "--admin", c.admin(3)); code != 0 {
		t.Errorf("athena jobs enable: code %d, %q", code, out)
	}
	nodes[1].signal(syscall.SIGKILL)
	second.ended(125, "stopped campaigning for job: ")
	n1.want("begin:1", "end:1", "begin:1")
	if lines := n2.lines(); len(lines) != 2 {
		t.Errorf("the command of the dead node: %q before another one began", lines)
	}
	first.signal(syscall.SIGINT)
	first.ended(0, "")
	looks.signal(syscall.SIGTERM)
	looks.ended(0, "")
	if code, _, stderr := run(t, "lock", "x", "--admin", c.admin(2)); code != 125 ||
		!strings.Contains(stderr, "no response from") {
		t.Errorf("athena lock with a dead node: code %d, %q", code, stderr)
	}
}

// TestJobsOfAHost checks that no member of a disabled host leads until the host is enabled.
func TestJobsOfAHost(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	var all []*process
	leads := n.path + ".leads"
	for i := range 2 {
		all = append(all, c.verb(i+1, "elect", "job", n.script(fmt.Sprintf(`trap 'echo end $N; exit 0' `+
			`TERM INT; echo %d > %s; echo begin $N; while :; do sleep 0.02; done`, i+1, leads))...))
	}
	n.want("begin")
	jobs := func(want string, args ...string) {
		t.Helper()
		code, out, stderr := run(t, append(append([]string{"jobs"}, args...), "--admin", c.admin(3))...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("athena jobs %q: code %d, %s%s, want %q", args, code, out, stderr, want)
		}
	}
	jobs("host 127.0.0.1 may not lead job\n", "disable", "job", "--host", "127.0.0.1")
	n.want("begin", "end")
	jobs("  host 127.0.0.1  ")
	jobs("host 127.0.0.1 may lead job\n", "enable", "job", "--host", "127.0.0.1")
	n.want("begin", "end", "begin")
	// The leader is the last to stop. Otherwise, the other could be stopped while its command starts.
	if text, err := os.ReadFile(leads); err != nil {
		t.Fatal(err)
	} else if string(text) == "1\n" {
		slices.Reverse(all)
	}
	for _, p := range all {
		p.signal(syscall.SIGTERM)
		p.ended(0, "")
	}
}
