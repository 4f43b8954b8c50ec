// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stopwatch returns a function that returns the time since this call, including suspend.
func stopwatch() func() time.Duration {
	start := sinceBoot()
	return func() time.Duration { return sinceBoot() - start }
}

func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(bootClock, &t); err != nil {
		// Leases need this clock, and every kernel that Go supports has it.
		panic(fmt.Sprintf("clock: cannot read the time since boot: %v", err))
	}
	return time.Duration(t.Nano())
}
