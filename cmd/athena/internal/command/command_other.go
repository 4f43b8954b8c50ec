// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package command

import (
	"os"
	"os/exec"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

func prepare(*exec.Cmd) (shared bool) { return false }

// send kills the program: this system has no signals.
func send(cmd *exec.Cmd, _ os.Signal, _ bool) { _ = cmd.Process.Kill() }

func codeOf(p *os.ProcessState) error {
	if code := p.ExitCode(); code != cli.ExitDone {
		return ExitCode(code)
	}
	return nil
}
