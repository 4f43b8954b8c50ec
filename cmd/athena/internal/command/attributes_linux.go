// SPDX-License-Identifier: Apache-2.0

package command

import "syscall"

// ChildAttributes starts a process in its own group. When its parent exits, the kernel sends it the
// given signal, even if the process is paused.
func ChildAttributes(orphaned syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
}
