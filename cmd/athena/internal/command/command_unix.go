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

// prepare puts the program into its own process group, so that signals also reach its child
// processes. A program that reads from the terminal stays in the group of this process, since only
// the foreground group may read.
func prepare(cmd *exec.Cmd) (shared bool) {
	cmd.SysProcAttr = ChildAttributes(syscall.SIGTERM)
	if f, ok := cmd.Stdin.(*os.File); ok {
		_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
		shared = err == nil
	}
	cmd.SysProcAttr.Setpgid = !shared
	return shared
}

// send sends a signal to the program, or to its group if it has its own. It ignores programs that
// have exited.
func send(cmd *exec.Cmd, s os.Signal, shared bool) {
	to := cmd.Process.Pid
	if !shared {
		to = -to
	}
	_ = syscall.Kill(to, s.(syscall.Signal))
}

// codeOf returns the exit code of a program, or, as shells do, 128 plus the number of the signal
// that ended it.
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
