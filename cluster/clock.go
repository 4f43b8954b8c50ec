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

// slewDivisor bounds by how much a wall clock that is slewed may run faster than the
// clock of a node: by a hundredth. On Linux both are slewed alike.
const slewDivisor = 100

// A stepWatch finds forward steps of the wall clock against the clock of a node. They
// tell of a hypervisor that stopped this machine together with its clocks: afterwards an
// agent or NTP sets the wall clock right, and nothing else shows the time that is missing.
type stepWatch struct {
	wall  func() time.Time // nil finds nothing
	limit time.Duration    // no smaller step is found

	ahead time.Duration // of the wall clock at the time at, at most
	at    time.Time     // zero before the first reading
}

// read returns the time by clock, and the forward step of the wall clock since the last
// call, 0 for none.
func (w *stepWatch) read(clock func() time.Time) (now time.Time, step time.Duration) {
	before := clock()
	if w.wall == nil {
		return before, 0
	}
	wall := w.wall()
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
	if least > slewed+w.limit {
		w.ahead = most
		return now, least - slewed
	}
	w.ahead = min(slewed, most)
	return now, 0
}
