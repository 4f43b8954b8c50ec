// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package storetest

import "os/exec"

func endWithParent(*exec.Cmd) {}

// childrenOf finds the processes of a server on Linux only.
func childrenOf(int) []int { return nil }

func isRunning(int) bool { return false }
