// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package programs

import "os/exec"

// EndWithParent does nothing: only Linux can end a process with its parent.
func EndWithParent(*exec.Cmd) {}

// childrenOf finds the processes of a server on Linux only.
func childrenOf(int) []int { return nil }

func isRunning(int) bool { return false }
