// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// BenchmarkSteady measures one virtual second of five idle nodes, including all messages, with a
// heartbeat of 100 ms.
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

// BenchmarkHeartbeat measures one keep-alive at the leader and one ack at a follower.
func BenchmarkHeartbeat(b *testing.B) {
	for _, size := range []int{5, 50} {
		for _, kind := range []message.Kind{
			message.KindLeaderKeepAlive, message.KindLeaderKeepAliveAck,
		} {
			b.Run(fmt.Sprintf("%v/%d", kind, size), func(b *testing.B) { heartbeat(b, size, kind) })
		}
	}
}

func heartbeat(b *testing.B, size int, kind message.Kind) {
	bus := newBus(&testing.T{}, size, 1)
	for i := range size {
		bus.start(i)
	}
	bus.until(time.Minute, "cluster at rest", func() bool { return bus.settled(size) })
	bus.run(3 * time.Second)
	i := len(bus.sent) - 1
	for bus.sent[i].msg.Body.Kind() != kind {
		i--
	}
	msg := bus.sent[i].msg
	to := bus.nodes[slices.IndexFunc(bus.nodes, func(n *node) bool { return n.addr == msg.To })]
	b.ReportAllocs()
	for b.Loop() {
		if out := to.Step(bus.now, msg); out.Stop != nil {
			b.Fatal(out.Stop)
		}
	}
}
