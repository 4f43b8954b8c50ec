// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sim

import (
	"syscall"
	"time"
)

// cpuTime is what this process used of all cores since it began.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
