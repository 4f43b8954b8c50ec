// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDirectoryOfAnotherOwnerIsRefused checks that a process that is not root is refused,
// even if it may bypass permissions.
func TestDirectoryOfAnotherOwnerIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user: run this test as root too")
	}
	dir := saved(t, typical())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	cmd := child(t, dir, "hold")
	// Use the descriptor, because the user of the child may not enter the parent
	// directories.
	cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{program}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: serviceUser, Gid: serviceUser},
		AmbientCaps: []uintptr{unix.CAP_DAC_OVERRIDE},
	}
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("%v: %s belongs to user 0", ErrInsecure, dir)
	if _, ended := err.(*exec.ExitError); !ended || !strings.Contains(string(out), want) {
		t.Errorf("OpenFile as user %d: %v, %q, want %q", serviceUser, err, out, want)
	}
}
