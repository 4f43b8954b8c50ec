// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package cluster

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(bootClock, &t); err != nil {
		// Without a clock there is no lease; the kernel has had this one for
		// longer than Go has run on it.
		panic(fmt.Sprintf("cluster: the system has no clock since boot: %v", err))
	}
	return time.Duration(t.Nano())
}
