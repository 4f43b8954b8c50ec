// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestLockUntilTheLastProcessEnds interrupts a command whose worker runs in the background, ignores
// signals of the terminal, and finishes on SIGTERM. No other command may run before the worker has
// finished.
func TestLockUntilTheLastProcessEnds(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	for _, s := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP,
	} {
		if signal.Ignored(s) {
			continue // the tests run under nohup, and so does athena
		}
		n := newNotes(t)
		first := c.verb(1, "lock", "x", n.script(`(trap '' INT QUIT HUP; `+
			`trap 'sleep 0.3; echo end $N; exit 0' TERM; echo begin $N;
			while :; do sleep 0.02; done) & wait`)...)
		n.want("begin")
		second := c.verb(2, "lock", "x", n.script(`echo second $N`)...)
		first.signal(s)
		first.ended(128+int(s), "")
		second.ended(0, "")
		n.want("begin", "end", "second")
	}
}

// TestLockKillsTheLastProcess checks that a worker that ignores SIGTERM is killed before athena
// exits, whether a signal or the death of the node ends the command.
func TestLockKillsTheLastProcess(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		c, nodes := withWrite(t)
		n := newNotes(t)
		p := c.verb(1, "lock", "x", append([]string{"--kill-after", "200ms"}, n.script(
			`sh -c "trap '' TERM; echo \$\$ $N; while :; do sleep 0.02; done" & wait`)...)...)
		eventually(t, "the worker runs", func() bool { return len(n.lines()) == 1 })
		if dies {
			nodes[0].signal(syscall.SIGKILL)
			p.ended(123, "lock/x was lost: ")
		} else {
			p.signal(syscall.SIGTERM)
			p.ended(128+int(syscall.SIGTERM), "")
		}
		worker, err := strconv.Atoi(n.lines()[0])
		if err != nil || syscall.Kill(worker, 0) != syscall.ESRCH {
			t.Errorf("the node dies %v: the worker %d still runs (%v)", dies, worker, err)
		}
	}
}

// TestLockEndsOtherGroups checks that workers in groups of their own end before athena exits,
// whether a signal or the death of the node ends the command. One ignores SIGTERM.
func TestLockEndsOtherGroups(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux finds the groups that a command has left behind")
	}
	for _, dies := range []bool{false, true} {
		c, nodes := withWrite(t)
		n, stubborn := newNotes(t), newNotes(t)
		p := c.verb(1, "lock", "x", append([]string{"--kill-after", "600ms"}, n.script(
			`timeout 60 sh -c "trap 'sleep 0.2; echo end $N; exit 0' TERM; echo begin $N; `+
				`while :; do sleep 0.02; done" &
			setsid sh -c "trap '' TERM; echo \$\$ >> `+stubborn.path+`; `+
				`while :; do sleep 0.02; done" & wait`)...)...)
		n.want("begin")
		eventually(t, "both workers run", func() bool { return len(stubborn.lines()) == 1 })
		if dies {
			nodes[0].signal(syscall.SIGKILL)
			p.ended(123, "lock/x was lost: ")
		} else {
			p.signal(syscall.SIGTERM)
			p.ended(128+int(syscall.SIGTERM), "")
		}
		n.want("begin", "end")
		worker, err := strconv.Atoi(stubborn.lines()[0])
		if err != nil || syscall.Kill(worker, 0) != syscall.ESRCH {
			t.Errorf("the node dies %v: the worker %d still runs (%v)", dies, worker, err)
		}
	}
}

// TestLockEndsBackgroundProcesses checks that processes that the command leaves behind may write
// their last lines, and are ended then.
func TestLockEndsBackgroundProcesses(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	c.verb(1, "lock", "x", n.script(`(sleep 0.2; echo last $N) & exit 3`)...).ended(3, "")
	n.want("last")
	c.verb(1, "lock", "x", n.script(`(trap 'echo term $N; exit' TERM;
		while :; do sleep 0.02; done) & exit 4`)...).ended(4, "")
	n.want("last", "term")
}

// TestLockLostAfterASignal checks that a command that finishes its work after SIGTERM is killed if
// the lock is lost meanwhile.
func TestLockLostAfterASignal(t *testing.T) {
	t.Parallel()
	c, nodes := withWrite(t)
	n := newNotes(t)
	p := c.verb(1, "lock", "x", append([]string{"--kill-after", "200ms"}, n.script(
		`trap 'echo term $N' TERM; echo begin $N; while :; do sleep 0.02; done`)...)...)
	n.want("begin")
	p.signal(syscall.SIGTERM)
	n.want("begin", "term")
	nodes[0].signal(syscall.SIGKILL)
	p.ended(123, "lock/x was lost: ")
	n.want("begin", "term")
}

// TestInterruptedElectEnds checks that the first signal ends elect, also if its command needs time.
func TestInterruptedElectEnds(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	p := c.verb(1, "elect", "job", n.script(`trap 'sleep 0.2; echo end $N; exit 0' QUIT; echo begin $N;
		while :; do sleep 0.02; done`)...)
	n.want("begin")
	p.signal(syscall.SIGQUIT)
	p.ended(0, "")
	n.want("begin", "end")
	got := p.stderr.String()
	if strings.Contains(got, "goroutine") || strings.Contains(got, " lost ") {
		t.Errorf("output %q, want no stacks and no loss", got)
	}
}

// TestStoppedNodeWaitsForCommands stops the node through which commands run with a lock and as the
// leader of a job. They finish their work before the commands of another node begin.
func TestStoppedNodeWaitsForCommands(t *testing.T) {
	t.Parallel()
	c, nodes := withWrite(t)
	locked, led := newNotes(t), newNotes(t)
	work := `trap 'sleep 0.5; echo end $N; exit 0' TERM; echo begin $N; while :; do sleep 0.02; done`
	holder := c.verb(1, "lock", "x", locked.script(work)...)
	boss := c.verb(1, "elect", "job", led.script(work)...)
	locked.want("begin")
	led.want("begin")
	next := c.verb(2, "lock", "x", locked.script(`echo next $N`)...)
	second := c.verb(2, "elect", "job", led.script(
		`trap 'exit 0' TERM; echo next $N; while :; do sleep 0.02; done`)...)
	eventually(t, "both wait", func() bool {
		return strings.Contains(next.stderr.String(), "held by n1") &&
			strings.Contains(second.stderr.String(), "leader  n1")
	})
	nodes[0].signal(syscall.SIGTERM)
	holder.ended(123, "lock/x was lost: ")
	boss.ended(125, "stopped campaigning for job: ")
	next.ended(0, "")
	locked.want("begin", "end", "next")
	led.want("begin", "end", "next")
	second.signal(syscall.SIGTERM)
	second.ended(0, "")
}
