// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns the two sides of a new terminal: the keyboard, and the file for the standard
// input of programs.
func openTerminal(t *testing.T) (keyboard, stdin *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	stdin, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	return keyboard, stdin
}

// startInTerminal starts a command in a session of its own, whose terminal is its standard input.
func startInTerminal(t *testing.T, cmd *exec.Cmd) (p *process, press func(keys string)) {
	t.Helper()
	keyboard, stdin := openTerminal(t)
	cmd.Stdin = stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return startCommand(t, nil, cmd), func(keys string) {
		t.Helper()
		if _, err := keyboard.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
}

// lockCommand returns the command line of athena lock at node 1.
func (c *nodes) lockCommand(script []string) *exec.Cmd {
	c.t.Helper()
	bin, err := program()
	if err != nil {
		c.t.Fatal(err)
	}
	return exec.Command(bin, append([]string{"lock", "x", "--admin", c.admin(1)}, script...)...)
}

// TestLostLockInATerminal checks that a command that reads from the terminal, and its child
// processes, get SIGTERM when the lock is lost.
func TestLostLockInATerminal(t *testing.T) {
	t.Parallel()
	c, nodes := withWrite(t)
	n := newNotes(t)
	p, press := startInTerminal(t, c.lockCommand(n.script(`(trap 'echo term $N; exit' TERM;
		echo begin $N; while :; do sleep 0.02; done) & read line; echo $line $N; wait`)))
	n.want("begin")
	press("typed\n")
	n.want("begin", "typed")
	nodes[0].signal(syscall.SIGKILL)
	p.ended(123, "lock/x was lost: ")
	n.want("begin", "typed", "term")
}

// TestKeysOfATerminal checks that the keys for SIGINT and SIGQUIT reach the command, and also the
// script that runs athena.
func TestKeysOfATerminal(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	for keys, s := range map[string]syscall.Signal{"\x03": syscall.SIGINT, "\x1c": syscall.SIGQUIT} {
		n := newNotes(t)
		p, press := startInTerminal(t, c.lockCommand(n.script(`echo begin $N; read line`)))
		n.want("begin")
		press(keys)
		p.ended(128+int(s), "")

		cmd := c.lockCommand(n.script(`echo again $N; read line`))
		outer := exec.Command("sh", append([]string{"-c", `"$0" "$@"; echo after >> ` + n.path},
			cmd.Args...)...)
		p, press = startInTerminal(t, outer)
		n.want("begin", "again")
		press(keys)
		p.wait()
		n.want("begin", "again")
	}
}

// TestStopInATerminal checks that the key for SIGTSTP stops athena and its command, and that the
// shell can continue both in the foreground.
func TestStopInATerminal(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	cmd := c.lockCommand(n.script(`echo begin $N; read line; echo $line $N`))
	shell := exec.Command("sh", append([]string{"-c", `set -m; "$0" "$@"; echo stopped >> ` + n.path +
		`; fg; echo $? >> ` + n.path}, cmd.Args...)...)
	p, press := startInTerminal(t, shell)
	n.want("begin")
	press("\x1a")
	n.want("begin", "stopped")
	press("typed\n")
	p.wait()
	n.want("begin", "stopped", "typed", "0")
}

// TestLockAsTheFirstProcess runs athena as process 1 of a container, as which it must reap the
// processes that its command has left behind.
func TestLockAsTheFirstProcess(t *testing.T) {
	t.Parallel()
	c, _ := withWrite(t)
	n := newNotes(t)
	cmd := c.lockCommand(n.script(`(setsid sh -c "echo begin $N" &); (trap 'echo end $N; exit' TERM;
		while :; do sleep 0.02; done) & wait`))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		t.Skip("only root may create a PID namespace")
	}
	p := startCommand(t, nil, cmd)
	n.want("begin")
	eventually(t, "no child is a zombie", func() bool { return !p.hasZombies() })
	p.signal(syscall.SIGTERM)
	p.ended(128+int(syscall.SIGTERM), "")
	n.want("begin", "end")
}

// hasZombies reports whether a process has child processes that have exited.
func (p *process) hasZombies() bool {
	p.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		p.t.Fatal(err)
	}
	return slices.ContainsFunc(stats, func(path string) bool {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			p.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		return strings.HasPrefix(rest, fmt.Sprintf("Z %d ", p.cmd.Process.Pid))
	})
}
