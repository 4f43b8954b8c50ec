// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package clock

import "time"

// stopwatch returns what tells the time since this call, by the monotonic clock
// of the Go runtime. Whether that goes on during suspend is up to the system:
// on one where it does not, a leader that wakes up believes in its lease for as
// long as it had left. Fencing tokens hold all the same.
func stopwatch() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
