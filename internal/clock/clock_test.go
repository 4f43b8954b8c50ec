// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"
)

// TestClockStartsAtTheWallClock checks that the clock starts at the wall clock and never goes
// backwards.
func TestClockStartsAtTheWallClock(t *testing.T) {
	before := time.Now()
	clock := New()
	last := clock()
	if off := last.Sub(before.Round(0)); off < 0 || off > time.Minute {
		t.Errorf("first reading: got %v after the wall clock, want about 0", off)
	}
	if last != last.Round(0) {
		t.Error("a reading carries the monotonic clock of Go, which stands still in suspend")
	}
	// The clock of Windows moves every 0.5 to 16 ms.
	end := time.Now().Add(time.Second)
	for i := 0; i < 1000 || !last.After(before.Round(0)) && time.Now().Before(end); i++ {
		now := clock()
		if now.Before(last) {
			t.Fatalf("readings fall: %v after %v", now, last)
		}
		last = now
	}
	if !last.After(before.Round(0)) {
		t.Errorf("after a second: got %v, want it to have moved from %v", last, before)
	}
}
