// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"slices"
	"testing"
	"time"
)

// TestEachDurationIsInItsBucket checks that durations on a bound, next to it, below all bounds and
// above all bounds are counted in the right bucket.
func TestEachDurationIsInItsBucket(t *testing.T) {
	if !slices.IsSorted(bounds[:]) {
		t.Fatalf("bounds are not in order: %v", bounds)
	}
	var h Histogram
	for _, d := range []time.Duration{
		-1, time.Millisecond, time.Millisecond + 1, 10 * time.Second, time.Hour,
	} {
		h.Observe(d)
	}
	d := h.Read()
	got := d.Buckets()
	for bound, want := range map[float64]uint64{0.0001: 1, 0.001: 2, 0.0025: 3, 5: 3, 10: 4} {
		if got[bound] != want {
			t.Errorf("up to %v s: got %d, want %d", bound, got[bound], want)
		}
	}
	sum := 2*time.Millisecond + 1 + 10*time.Second + time.Hour
	if d.Count() != 5 || d.Sum != sum {
		t.Errorf("got %d and %v, want 5 and %v", d.Count(), d.Sum, sum)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for b.Loop() {
		h.Observe(3 * time.Millisecond)
	}
}
