// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"
	"time"
)

func TestFormation(t *testing.T) {
	for _, tc := range []struct {
		name        string
		size, seeds int
		limit       time.Duration
	}{
		{"one node needs no message", 1, 1, 0},
		{"two seeds", 2, 2, 20 * time.Millisecond},
		{"three seeds", 3, 3, 20 * time.Millisecond},
		{"one seed of three", 3, 1, 20 * time.Millisecond},
		{"two seeds of five", 5, 2, 25 * time.Millisecond},
		{"five seeds", 5, 5, 25 * time.Millisecond},
		{"nine, three seeds", 9, 3, 40 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBus(t, tc.size, tc.seeds)
			for i := range tc.size {
				b.start(i)
			}
			took := b.until(tc.limit+time.Nanosecond, "settled cluster",
				func() bool { return b.settled(tc.size) })
			t.Logf("formed in %v", took)
		})
	}
}

func TestLeaderCrash(t *testing.T) {
	for size := 3; size <= 5; size++ {
		b := newBus(t, size, size)
		for i := range size {
			b.start(i)
		}
		b.until(time.Second, "settled cluster", func() bool { return b.settled(size) })
		b.run(3 * time.Second)
		old := b.quorate()
		b.crash(old)
		took := b.until(3*time.Second, "next leader", func() bool {
			l := b.quorate()
			return l >= 0 && l != old
		})
		t.Logf("N=%d: next leader after %v", size, took)
		b.start(old)
		took = b.until(3*time.Second, "return", func() bool { return b.settled(size) })
		t.Logf("N=%d: back after %v", size, took)
	}
}
