// SPDX-License-Identifier: Apache-2.0

package command

import "syscall"

// ChildAttributes lets the kernel send a signal to a process whose parent is gone, also
// while it is paused and cannot notice by itself.
func ChildAttributes(orphaned syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
}
