// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package clock

import "time"

// stopwatch returns a function that returns the time since this call by the monotonic clock of the
// Go runtime. On some systems that clock stops during suspend. After a suspend on such a system, a
// leader still relies on the rest of its lease, and only fencing tokens protect storage.
func stopwatch() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
