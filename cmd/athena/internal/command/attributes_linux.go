// SPDX-License-Identifier: Apache-2.0

package command

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ChildAttributes starts a process in its own group. When its parent exits, the kernel sends it the
// given signal, even if the process is paused.
func ChildAttributes(orphaned syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
}

// adoptOrphans makes this process the parent of descendants whose parent exits, so that it can reap
// them. A zombie would keep its process group from becoming empty.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // fails on no supported kernel
}
