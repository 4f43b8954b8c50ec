// SPDX-License-Identifier: Apache-2.0

//go:build unix

package command

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// prepare puts a program into a process group of its own, so that signals reach what it
// starts too. One that reads from the terminal could not do that from there: it shares
// the group of this process.
func prepare(cmd *exec.Cmd) (shared bool) {
	cmd.SysProcAttr = ChildAttributes(syscall.SIGTERM)
	if f, ok := cmd.Stdin.(*os.File); ok {
		_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
		shared = err == nil
	}
	cmd.SysProcAttr.Setpgid = !shared
	return shared
}

// send sends a signal to a program, and to its group where that is its own. One that has
// ended is no fault.
func send(cmd *exec.Cmd, s os.Signal, shared bool) {
	to := cmd.Process.Pid
	if !shared {
		to = -to
	}
	_ = syscall.Kill(to, s.(syscall.Signal))
}

// codeOf is the exit code of a program as shells have it: of a signal, 128 and its number.
func codeOf(p *os.ProcessState) error {
	code := p.ExitCode()
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if code == cli.ExitDone {
		return nil
	}
	return ExitCode(code)
}
