// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"testing"
	"time"
)

// With partitions, crashes, restarts and suspensions each part soon has one leader. When the group
// is connected again, it soon has a single leader. Within a run, no member leads twice in the same
// term.
func TestEachPartHasOneLeader(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(t, 2+int(seed%9), seed, 0)
		w.startAll()
		for range 10 {
			for _, part := range w.fallApart() {
				w.wantOneOf(part, settled)
			}
			w.runThrough()
		}
		w.heal()
		w.wantOneOf(w.all(), settled)
		for _, n := range w.nodes {
			for i := 1; i < len(n.led); i++ {
				if a, b := n.led[i-1], n.led[i]; a.run == b.run && b.term <= a.term {
					t.Fatalf("seed %d: %s leads in terms that do not grow: %s", seed, n.id, w)
				}
			}
		}
	}
}

// settled is how long a part may take to elect a leader, whatever happened before. A member may be
// in the holding phase or may follow a leader that is gone, and a candidate may have been cut off.
const settled = hold + takeOver + campaign

// fallApart chooses new parts at random, and lets members crash, start, be suspended, continue and
// yield.
func (w *world) fallApart() [][]int {
	for i, n := range w.nodes {
		switch w.rand.IntN(10) {
		case 0:
			if !n.down {
				w.crash(i)
			}
		case 1:
			n.stood = true
		case 2:
			if _, term := n.Leader(); !n.down && n.Leads() {
				n.Yield(w.now, term)
				w.flush(i)
			}
		}
	}
	w.run(time.Duration(w.rand.Int64N(int64(3 * alive))))
	for i, n := range w.nodes {
		n.stood = false
		if n.down {
			w.start(i)
		}
	}
	w.heal()
	parts := make([][]int, 1+w.rand.IntN(3))
	for i := range w.nodes {
		p := w.rand.IntN(len(parts))
		parts[p] = append(parts[p], i)
	}
	var some [][]int
	for i, a := range parts {
		for _, b := range parts[i+1:] {
			w.cutBetween(a, b, true)
		}
		if len(a) > 0 {
			some = append(some, a)
		}
	}
	return some
}

// runThrough runs for a while with one-way link failures and lost messages.
func (w *world) runThrough() {
	w.loss = 0.3
	for range w.rand.IntN(4) {
		w.cut[[2]int{w.rand.IntN(len(w.nodes)), w.rand.IntN(len(w.nodes))}] = true
	}
	w.run(time.Duration(w.rand.Int64N(int64(5 * alive))))
	w.loss = 0
}

func (w *world) heal() { w.cut = map[[2]int]bool{} }

// In a steady state a leader declares itself to each other member twice per Alive, and no other
// member sends anything.
func TestSteadyStateIsCheap(t *testing.T) {
	for _, size := range []int{2, 9, 100} {
		w := newWorld(t, size, 1, 0)
		w.startAll()
		w.wantOneOf(w.all(), firstLeader+slowest)
		w.run(alive)
		before := w.sent
		w.run(10 * alive)
		if got, want := w.sent-before, 20*(size-1); got != want {
			t.Errorf("%d members: %d messages in 10T, want %d", size, got, want)
		}
	}
}

// A member that starts late learns of the leader immediately, and only a few of many members answer
// it.
func TestLateJoinerIsInformedByFew(t *testing.T) {
	w := newWorld(t, 100, 1, 0)
	for i := range w.nodes[:99] {
		w.start(i)
	}
	leader := w.wantOneOf(w.all()[:99], firstLeader+slowest)
	w.until(w.nodes[leader].Deadline(), nil) // the leader has just declared itself
	w.start(99)
	w.run(sample - time.Nanosecond)
	before := w.sent
	if !w.until(w.now.Add(2*slowest+1), func() bool {
		id99, _ := w.nodes[99].Leader()
		return id99 == id(leader)
	}) {
		t.Error("the late joiner does not know the leader two ways of a message after its sample")
	}
	w.run(2 * slowest)
	if got, most := w.sent-before, 99+1+relayers; got > most {
		t.Errorf("%d messages, want its proposal and at most %d answers", got, 1+relayers)
	}
}
