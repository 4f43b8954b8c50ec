// SPDX-License-Identifier: Apache-2.0

// Package clock tells the time of a node, and whether its machine may have stood still.
package clock

import "time"

// New returns the clock of a node: it starts at the wall clock, and counts the time since
// boot from then on. Setting the wall clock does not move it, and it counts the time for
// which the machine was suspended. A lease depends on both (protocol.md section 5).
func New() func() time.Time {
	start, elapsed := time.Now().Round(0), stopwatch()
	return func() time.Time { return start.Add(elapsed()) }
}

// slewDivisor bounds by how much a wall clock that is slewed may run faster than the
// clock of a node: by a hundredth. On Linux both are slewed alike.
const slewDivisor = 100

// A StepWatch finds forward steps of the wall clock against the clock of a node. Such a
// step can mean that a hypervisor stopped this machine together with its clocks: an agent
// or NTP sets the wall clock right afterwards, and nothing else shows the missing time.
type StepWatch struct {
	Wall  func() time.Time // reads the wall clock; with nil, no step is found
	Limit time.Duration    // smaller steps are ignored

	ahead time.Duration // of the wall clock at the time at, at most
	at    time.Time     // zero before the first reading
}

// Read returns the time by clock, and the forward step of the wall clock since the last
// call, 0 for none.
func (w *StepWatch) Read(clock func() time.Time) (now time.Time, step time.Duration) {
	before := clock()
	if w.Wall == nil {
		return before, 0
	}
	wall := w.Wall()
	// This process may stand still between two readings. How far the wall clock is ahead
	// lies between what follows from the one before and the one after.
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
