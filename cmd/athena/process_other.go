// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

func childAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
