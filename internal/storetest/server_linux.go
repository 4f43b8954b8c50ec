// SPDX-License-Identifier: Apache-2.0

package storetest

import "syscall"

// attributes makes a server end with the test process.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
