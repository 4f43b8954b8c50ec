// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sim

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time that this process has used on all cores.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
