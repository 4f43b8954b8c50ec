// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stopwatch returns what tells the time since this call, suspend included.
func stopwatch() func() time.Duration {
	start := sinceBoot()
	return func() time.Duration { return sinceBoot() - start }
}

func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(bootClock, &t); err != nil {
		// Without a clock there is no lease; every kernel that Go runs on has
		// this one.
		panic(fmt.Sprintf("cluster: the system has no clock since boot: %v", err))
	}
	return time.Duration(t.Nano())
}
