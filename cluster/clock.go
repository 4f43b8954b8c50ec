// SPDX-License-Identifier: Apache-2.0

package cluster

import "time"

// newClock returns the clock of a node: it starts at the wall clock and from
// then on counts the time since boot, so that nobody who sets the wall clock
// moves it, and a machine that was suspended finds the time of its sleep gone.
// A lease depends on both (protocol.md section 5).
func newClock() func() time.Time {
	start, elapsed := time.Now().Round(0), stopwatch()
	return func() time.Time { return start.Add(elapsed()) }
}
