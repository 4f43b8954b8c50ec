// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"os"
	"os/exec"
)

func prepare(*exec.Cmd) (shared bool) { return false }

// send ends a program: there are no signals.
func send(cmd *exec.Cmd, _ os.Signal, _ bool) { _ = cmd.Process.Kill() }

func codeOf(p *os.ProcessState) error {
	if code := p.ExitCode(); code != exitDone {
		return commandError(code)
	}
	return nil
}
