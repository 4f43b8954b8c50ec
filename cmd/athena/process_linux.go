// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// childAttributes lets the kernel kill a node whose parent is gone, also while
// the node is paused and cannot notice by itself.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
