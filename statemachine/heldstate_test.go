// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/statemachine"
)

// freeze suspends a node for d. Messages to it arrive when it continues.
func freeze(b *bus, i int, pause time.Duration) {
	n := b.nodes[i]
	n.up = false
	var kept []flight
	for stop, more := b.now.Add(pause), true; more; {
		b.wire = slices.DeleteFunc(b.wire, func(f flight) bool {
			if f.msg.To == n.addr {
				kept = append(kept, f)
			}
			return f.msg.To == n.addr
		})
		more = b.step(stop)
	}
	n.up = true
	for i := range kept {
		kept[i].at = b.now
	}
	b.wire = append(kept, b.wire...)
}

// A seed waits while an answer shows a held state, even if that answer is late. Here two seeds lost
// their stores, and the third sometimes takes almost a RetryInterval to answer.
func TestASlowAnswerWithAStateCounts(t *testing.T) {
	for trial := range uint64(60) {
		draw := rand.New(rand.NewPCG(trial, 0))
		b := newBus(t, 3, 3)
		for i, n := range b.nodes {
			n.conf = func(c *statemachine.Config) { c.Rand = rand.New(rand.NewPCG(trial, uint64(i))) }
		}
		b.start(0, 1, 2)
		b.run(3 * time.Second)
		b.crash(0, 1, 2)
		blank := newBus(t, 3, 3)
		for i, n := range b.nodes[1:] {
			n.durable = blank.nodes[1+i].durable
			n.durable.StoreID[2]++
		}
		b.wire = nil
		b.run(3 * time.Second)
		b.start(0, 1, 2)
		b.run(time.Duration(draw.Int64N(int64(1200 * time.Millisecond))))
		for range 4 { // less than a TTLTimeout in total
			freeze(b, 0, 490*time.Millisecond)
			b.run(900*time.Millisecond + time.Duration(draw.Int64N(int64(300*time.Millisecond))))
		}
		if q := b.quorate(); q > 0 {
			t.Errorf("trial %d: node %d founded although node 0 holds a state", trial, q)
		}
	}
}
