// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// processGroup is a running program. This system has no process groups.
type processGroup struct {
	changes chan os.Signal // receives a value after the program has exited
	cmd     *exec.Cmd
	exited  bool
	code    int // exit code of the program, valid if exited
}

func startGroup(cmd *exec.Cmd) (*processGroup, error) {
	g := &processGroup{changes: make(chan os.Signal, 1), cmd: cmd}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the exit code is in ProcessState
		g.changes <- os.Kill
	}()
	return g, nil
}

func (g *processGroup) reapChildren() {
	g.exited, g.code = true, g.cmd.ProcessState.ExitCode()
}

func (g *processGroup) isEmpty() bool { return g.exited }

// sendSignal kills the program: this system has no signals.
func (g *processGroup) sendSignal(syscall.Signal) { _ = g.cmd.Process.Kill() }

// signalOthers reports false: this system has no other groups.
func (g *processGroup) signalOthers(syscall.Signal) bool { return false }

func (g *processGroup) close() {}
