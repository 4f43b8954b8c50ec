// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"
	"time"
)

// BenchmarkSteady is a virtual second of five nodes at rest, every event of
// them, at a heartbeat of 100 ms.
func BenchmarkSteady(b *testing.B) {
	bus := newBus(&testing.T{}, 5, 5)
	bus.start(0, 1, 2, 3, 4)
	bus.run(3 * time.Second)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		bus.sent = bus.sent[:0]
		bus.run(time.Second)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "virtual-s/s")
}
