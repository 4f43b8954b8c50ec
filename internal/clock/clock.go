// SPDX-License-Identifier: Apache-2.0

// Package clock provides the clock of a node, and detects that its machine may have been paused.
package clock

import "time"

// New returns the clock of a node. It starts at the time of the wall clock and then advances with
// the time since boot. So it also advances while the machine is suspended, and does not change when
// the wall clock is set. Leases depend on both properties (protocol.md section 5).
func New() func() time.Time {
	start, elapsed := time.Now().Round(0), stopwatch()
	return func() time.Time { return start.Add(elapsed()) }
}

// slewDivisor limits slewing: a slewed wall clock runs at most a hundredth faster than the clock of
// a node. Linux slews both clocks alike.
const slewDivisor = 100

// StepWatch detects forward steps of the wall clock relative to the clock of a node. Such a step
// may mean that a hypervisor paused this machine together with its clocks. An agent or NTP then
// corrects the wall clock. Nothing else reveals the missing time.
type StepWatch struct {
	Wall  func() time.Time // reads the wall clock; if nil, no step is detected
	Limit time.Duration    // smaller steps are ignored

	ahead time.Duration // upper bound of how far the wall clock was ahead at the last reading
	at    time.Time     // time of the last reading; zero before the first
}

// Read returns the time of the clock, and the forward step of the wall clock since the last call,
// or 0 if there was none.
func (w *StepWatch) Read(clock func() time.Time) (now time.Time, step time.Duration) {
	before := clock()
	if w.Wall == nil {
		return before, 0
	}
	wall := w.Wall()
	// The process may be paused between two readings. Reading the clock before and after the wall
	// clock gives bounds for how far the wall clock is ahead.
	now = clock()
	least, most := wall.Sub(now), wall.Sub(before)
	if w.at.IsZero() {
		w.ahead, w.at = most, now
		return now, 0
	}
	slewed := w.ahead + now.Sub(w.at)/slewDivisor
	w.at = now
	if least > slewed+w.Limit {
		w.ahead = most
		return now, least - slewed
	}
	w.ahead = min(slewed, most)
	return now, 0
}
