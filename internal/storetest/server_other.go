// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package storetest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
