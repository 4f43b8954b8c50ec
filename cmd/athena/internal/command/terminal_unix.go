// SPDX-License-Identifier: Apache-2.0

//go:build unix

package command

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// effectTimeout is how long to wait for the effect of a signal that this process sends to itself.
const effectTimeout = 100 * time.Millisecond

// terminal is the controlling terminal of this process, if a command reads from it.
type terminal struct {
	fd    int  // -1 without a terminal
	given bool // the group of the command is in the foreground
}

func terminalOf(stdin io.Reader) terminal {
	if f, ok := stdin.(*os.File); ok {
		if _, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err == nil {
			return terminal{fd: int(f.Fd())}
		}
	}
	return terminal{fd: -1}
}

// isOurs reports whether the group of this process is in the foreground.
func (t *terminal) isOurs() bool {
	if t.fd < 0 {
		return false
	}
	id, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && id == syscall.Getpgrp()
}

// start starts a command, in the foreground if this process is there.
func (t *terminal) start(cmd *exec.Cmd) error {
	if t.fd < 0 {
		return cmd.Start()
	}
	if t.isOurs() {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty, t.given = true, t.fd, true
	}
	// By default, SIGTTOU would stop this process when it uses the terminal in the background. The
	// command must not inherit that the signal is ignored; it gets the default if Go handles it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	defer signal.Ignore(syscall.SIGTTOU)
	return cmd.Start()
}

// setForeground makes a group the foreground group.
func (t *terminal) setForeground(group int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // fails after a hangup
}

func (t *terminal) takeBack() {
	if t.given {
		t.setForeground(syscall.Getpgrp())
		t.given = false
	}
}

// pauseAlong stops the group of this process, as the terminal has stopped the group of the command,
// so that the shell can take over. Once continued, it continues the command, in the foreground if
// the shell has put this process there.
func (g *processGroup) pauseAlong() {
	g.terminal.takeBack()
	// The first group of a session has no shell that could continue it.
	if session, err := unix.Getsid(0); err == nil && session != syscall.Getpgrp() {
		signalOwnGroup(syscall.SIGSTOP, syscall.SIGCONT)
	}
	if g.terminal.isOurs() {
		g.terminal.setForeground(g.id)
		g.terminal.given = true
	}
	_ = syscall.Kill(-g.id, syscall.SIGCONT)
}

// signalOwnGroup sends a signal to the group of this process, and waits until this process has
// received the signal effect, for at most effectTimeout.
func signalOwnGroup(s, effect syscall.Signal) {
	received := make(chan os.Signal, 1)
	signal.Notify(received, effect)
	defer signal.Stop(received)
	_ = syscall.Kill(0, s)
	select {
	case <-received:
	case <-time.After(effectTimeout):
	}
}
