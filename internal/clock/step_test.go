// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"
)

// TestStepWatch checks that a step of the wall clock is distinguished from slewing, and from a
// process that is paused between two readings.
func TestStepWatch(t *testing.T) {
	const limit = 50 * time.Millisecond
	var clock, wall time.Time
	readings := 0
	var pauses [3]time.Duration // pauses before the three readings: clock, wall clock, clock
	pass := func() {
		clock, wall = clock.Add(pauses[readings]), wall.Add(pauses[readings])
		readings++
	}
	w := StepWatch{
		Wall:  func() time.Time { pass(); return wall },
		Limit: limit,
	}
	for i, c := range []struct {
		clock, wall time.Duration // advance of the clocks before the readings
		pauses      [3]time.Duration
		want        time.Duration
	}{
		{want: 0}, // the first reading
		{clock: time.Second, wall: time.Second},
		{clock: time.Second, wall: time.Second, pauses: [3]time.Duration{0, time.Minute, 0}},
		{clock: time.Second, wall: time.Second, pauses: [3]time.Duration{0, 0, time.Minute}},
		{clock: time.Second, wall: time.Second},
		{clock: time.Second, wall: 2 * time.Second, want: 990 * time.Millisecond},
		{clock: time.Second, wall: time.Second}, // reported once
		{clock: time.Hour, wall: time.Hour + 30*time.Second},
		{wall: limit},
		{wall: 1, want: limit + 1},
		{wall: -time.Hour},
		{clock: time.Second, wall: time.Second},
		{wall: time.Minute, want: time.Minute},
	} {
		clock, wall = clock.Add(c.clock), wall.Add(c.wall)
		pauses, readings = c.pauses, 0
		now, step := w.Read(func() time.Time { pass(); return clock })
		if step != c.want || now != clock {
			t.Errorf("reading %d: got a step of %v at %v, want %v at %v", i, step, now, c.want, clock)
		}
	}
}
