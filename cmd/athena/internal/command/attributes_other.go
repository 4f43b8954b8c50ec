// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package command

import "syscall"

// ChildAttributes starts a process in its own group. Only Linux can signal orphaned processes.
func ChildAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// adoptOrphans does nothing: the first process of this system reaps orphans.
func adoptOrphans() {}

// adoptedGroups lists no groups: this process adopts no orphans.
func adoptedGroups() []int { return nil }

// shrinkMemory does nothing: the system pages out what is not used.
func shrinkMemory() {}
