// SPDX-License-Identifier: Apache-2.0

package command

import "syscall"

// ChildAttributes starts a process in its own group. The kernel sends it the signal orphaned
// when its parent exits, which also reaches a process that is paused.
func ChildAttributes(orphaned syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
}
