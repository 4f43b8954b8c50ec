// SPDX-License-Identifier: Apache-2.0

//go:build unix

package command

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// processGroup is a running program and those of its descendants that are in its process group. If
// the program reads from the terminal of this process, the group is the foreground group of that
// terminal.
type processGroup struct {
	changes  chan os.Signal // receives SIGCHLD
	id       int            // process ID of the program
	exited   bool
	code     int            // exit code of the program, valid if exited
	fatal    syscall.Signal // the signal that ended the program; 0 if none
	terminal terminal
	others   map[int]syscall.Signal // by group, the last signal of signalOthers
}

func startGroup(cmd *exec.Cmd) (*processGroup, error) {
	g := &processGroup{
		changes: make(chan os.Signal, 1), terminal: terminalOf(cmd.Stdin),
		others: map[int]syscall.Signal{},
	}
	signal.Notify(g.changes, syscall.SIGCHLD)
	adoptOrphans()
	cmd.SysProcAttr = ChildAttributes(syscall.SIGTERM)
	err := g.terminal.start(cmd)
	if err != nil {
		g.close()
		return nil, err
	}
	g.id = cmd.Process.Pid
	_ = cmd.Process.Release() // reapChildren waits for it
	shrinkMemory()
	return g, nil
}

// close takes the terminal back. If the terminal has interrupted the program, close interrupts the
// group of this process, which the terminal would have done without the program: a script that runs
// athena must end too.
func (g *processGroup) close() {
	signal.Stop(g.changes)
	if !g.terminal.given {
		return
	}
	g.terminal.takeBack()
	if g.fatal == syscall.SIGINT || g.fatal == syscall.SIGQUIT {
		signalOwnGroup(g.fatal, g.fatal)
	}
}

// reapChildren reaps every child that has exited: the program, and its descendants that this
// process has adopted. If the terminal has stopped the program, it stops this process too.
func (g *processGroup) reapChildren() {
	for {
		var s syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &s, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return
		case pid != g.id:
		case s.Stopped():
			if g.terminal.fd >= 0 && s.StopSignal() != syscall.SIGSTOP { // the terminal sends the others
				g.pauseAlong()
			}
		case s.Signaled():
			g.exited, g.fatal = true, s.Signal()
			g.code = cli.ExitSignal + int(g.fatal)
		default:
			g.exited, g.code = true, s.ExitStatus()
		}
	}
}

// isEmpty reports whether every process of the group has exited and was reaped.
func (g *processGroup) isEmpty() bool {
	g.reapChildren()
	return errors.Is(syscall.Kill(-g.id, 0), syscall.ESRCH)
}

// signalOthers sends a signal, once, to each group in which the program has left processes behind,
// as timeout(1) makes one. It reports whether there are any. Only Linux knows them.
func (g *processGroup) signalOthers(s syscall.Signal) (running bool) {
	for _, id := range adoptedGroups() {
		if id == g.id || id == syscall.Getpgrp() {
			continue
		}
		running = true
		if last := g.others[id]; last != s && last != syscall.SIGKILL {
			g.others[id] = s
			_ = syscall.Kill(-id, s) // fails if it has just exited
		}
	}
	return running
}

// sendSignal sends a signal to the group, and lets a stopped process handle it.
func (g *processGroup) sendSignal(s syscall.Signal) {
	_ = syscall.Kill(-g.id, s) // fails if the group is empty
	_ = syscall.Kill(-g.id, syscall.SIGCONT)
}
