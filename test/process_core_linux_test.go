// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestProcessLeavesNoCore checks that SIGQUIT makes a node print its stacks, but leave no core
// dump, which would contain the secret, and end in a way after which supervisors restart it.
func TestProcessLeavesNoCore(t *testing.T) {
	t.Parallel()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := newNodes(t, 1)
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -c unlimited; exec "$0" "$@"`, bin},
		c.flags(1)...)...)
	cmd.Dir = t.TempDir()
	p := startCommand(t, nil, cmd)
	c.settle(1)
	p.signal(syscall.SIGQUIT)
	p.wait()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGABRT || status.CoreDump() {
		t.Errorf("ended with %v, want SIGABRT without a core dump", p.cmd.ProcessState)
	}
	if !strings.Contains(p.stderr.String(), "goroutine 1 ") {
		t.Error("the stacks are not printed")
	}
}
