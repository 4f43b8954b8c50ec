// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The timing of all tests, with the ratios of Fabric's defaults.
const (
	alive    = 10 * time.Second
	campaign = 5 * time.Second
	sample   = time.Second
	hold     = 6 * alive
	slowest  = 50 * time.Millisecond // of the network
)

// world is a group in virtual time, on a network that loses and delays messages. Runs with the same
// seed are identical.
type world struct {
	t     *testing.T
	now   time.Time
	rand  *rand.Rand
	loss  float64
	nodes []*node
	cut   map[[2]int]bool // from, to
	queue inFlight
	sent  int               // messages sent, one per receiver
	moved map[[2]phase]bool // the phases that nodes left and entered; nil to record none
}

type node struct {
	*Machine
	id    string
	run   uint64
	down  bool
	view  []string // nil for all
	stood bool     // it is suspended
	was   phase    // the phase when the node last ran
	// led lists the terms in which the node led.
	led []span
}

// span is a time during which a node led.
type span struct {
	run, term  uint64
	from, to   time.Time // zero while the node leads
	whyItEnded Reason
}

type packet struct {
	at       time.Time
	order    int
	from, to int
	message  Message
}

type inFlight []packet

func (q inFlight) Len() int { return len(q) }
func (q inFlight) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].order < q[j].order
}
func (q inFlight) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *inFlight) Push(x any)   { *q = append(*q, x.(packet)) }
func (q *inFlight) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// in plays a scenario for many seeds, first without loss and then with a tenth of all
// messages lost. If messages are lost, each step may exceed its bound by some slack, because
// messages are repeated twice per Alive.
func in(t *testing.T, size int, play func(w *world, slack time.Duration)) {
	t.Helper()
	t.Run("no loss", func(t *testing.T) {
		for seed := range uint64(100) {
			play(newWorld(t, size, seed, 0), 0)
		}
	})
	t.Run("10 % loss", func(t *testing.T) {
		for seed := range uint64(300) {
			play(newWorld(t, size, seed, 0.1), 3*alive)
		}
	})
}

func newWorld(t *testing.T, size int, seed uint64, loss float64) *world {
	w := &world{
		t: t, loss: loss, now: time.Unix(1_000_000, 0), cut: map[[2]int]bool{},
		rand: rand.New(rand.NewPCG(seed, 1)),
	}
	for i := range size {
		w.nodes = append(w.nodes, &node{id: id(i), down: true})
	}
	return w
}

func id(i int) string { return fmt.Sprintf("n%03d", i) }

func testTiming() Timing {
	return Timing{
		Grace: 15 * time.Second, Sample: sample, Alive: alive, Campaign: campaign, Hold: hold,
	}
}

// start starts or restarts nodes.
func (w *world) start(is ...int) {
	for _, i := range is {
		n := w.nodes[i]
		n.run++
		n.down, n.was = false, sampling
		n.Machine = New(w.now, Config{n.id, n.run, w.view(i), testTiming()})
	}
}

func (w *world) startAll() {
	for i := range w.nodes {
		w.start(i)
	}
}

// view returns the members that a node sees.
func (w *world) view(i int) (ids []string) {
	if n := w.nodes[i]; n.view != nil {
		return n.view
	}
	for _, n := range w.nodes {
		ids = append(ids, n.id)
	}
	return ids
}

// crash stops a node without a message.
func (w *world) crash(i int) {
	n := w.nodes[i]
	if n.Leads() {
		n.led[len(n.led)-1].to = w.now
	}
	n.down = true
}

// cutBetween cuts all links between two sets.
func (w *world) cutBetween(a, b []int, is bool) {
	for _, i := range a {
		for _, j := range b {
			w.cut[[2]int{i, j}], w.cut[[2]int{j, i}] = is, is
		}
	}
}

// flush sends the messages of a node and records whether it leads.
func (w *world) flush(i int) {
	n := w.nodes[i]
	if w.moved != nil && n.was != n.phase {
		w.moved[[2]phase{n.was, n.phase}] = true
	}
	n.was = n.phase
	for _, o := range n.Sent() {
		for j, to := range w.nodes {
			if j != i && (o.To == "" || o.To == to.id) {
				w.post(i, j, o.Message)
			}
		}
	}
	leading := len(n.led) > 0 && n.led[len(n.led)-1].to.IsZero()
	_, term := n.Leader()
	switch {
	case n.Leads() && !leading:
		n.led = append(n.led, span{run: n.run, term: term, from: w.now})
	case !n.Leads() && leading:
		s := &n.led[len(n.led)-1]
		s.to, s.whyItEnded = w.now, n.Reason()
	}
}

func (w *world) post(from, to int, msg Message) {
	w.sent++
	if w.cut[[2]int{from, to}] || w.rand.Float64() < w.loss {
		return
	}
	delay := time.Duration(w.rand.Int64N(int64(slowest)))
	heap.Push(&w.queue, packet{w.now.Add(delay), w.sent, from, to, msg})
}

// run advances the clock.
func (w *world) run(d time.Duration) { w.until(w.now.Add(d), nil) }

// until advances the clock until the given time or until the condition holds, and
// reports whether it holds.
func (w *world) until(end time.Time, holds func() bool) bool {
	for {
		if holds != nil && holds() {
			return true
		}
		next, at := w.next()
		if at.After(end) {
			w.now = end
			return false
		}
		w.now = at
		if next < 0 {
			p := heap.Pop(&w.queue).(packet)
			if to := w.nodes[p.to]; !to.down && !to.stood {
				to.Receive(w.now, w.nodes[p.from].id, p.message)
				w.flush(p.to)
			}
			continue
		}
		w.nodes[next].Advance(w.now)
		w.flush(next)
	}
}

// next returns the node with the earliest deadline, or -1 if a packet is earlier, and the time.
func (w *world) next() (int, time.Time) {
	next, at := -1, w.now.Add(1000*time.Hour)
	if len(w.queue) > 0 {
		at = w.queue[0].at
	}
	for i, n := range w.nodes {
		if n.down || n.stood || n.Deadline().IsZero() {
			continue
		}
		d := n.Deadline()
		if d.Before(w.now) {
			d = w.now
		}
		if d.Before(at) {
			next, at = i, d
		}
	}
	return next, at
}

// leaders returns the nodes that lead.
func (w *world) leaders() (is []int) {
	for i, n := range w.nodes {
		if !n.down && n.Leads() {
			is = append(is, i)
		}
	}
	return is
}

// wantOneOf waits until one node of a part leads and all others of the part follow it.
func (w *world) wantOneOf(part []int, within time.Duration) int {
	w.t.Helper()
	began := w.now
	leader := -1
	if !w.until(w.now.Add(within), func() bool { leader = w.agreed(part); return leader >= 0 }) {
		w.t.Fatalf("no leader of %v within %v; led: %s", part, within, w)
	}
	w.t.Logf("%s leads after %v", id(leader), w.now.Sub(began))
	return leader
}

// agreed returns the node that all nodes of a part consider the leader, or -1.
func (w *world) agreed(part []int) int {
	leader := -1
	for _, i := range part {
		if w.nodes[i].Leads() {
			if leader >= 0 {
				return -1
			}
			leader = i
		}
	}
	for _, i := range part {
		if leader < 0 {
			return -1
		}
		if said, _ := w.nodes[i].Leader(); said != id(leader) {
			return -1
		}
	}
	return leader
}

// stays checks that a leader keeps leading alone in its part for the given time.
func (w *world) stays(leader int, part []int, d time.Duration) {
	w.t.Helper()
	before := len(w.nodes[leader].led)
	alone := func() bool {
		for _, i := range part {
			if i != leader && w.nodes[i].Leads() {
				return false
			}
		}
		return w.nodes[leader].Leads()
	}
	if w.until(w.now.Add(d), func() bool { return !alone() }) || len(w.nodes[leader].led) != before {
		w.t.Fatalf("%s does not lead on alone: %s", id(leader), w)
	}
}

// String returns which node led when.
func (w *world) String() (s string) {
	start := time.Unix(1_000_000, 0)
	for _, n := range w.nodes {
		for _, l := range n.led {
			s += fmt.Sprintf("\n%s term %d from %v", n.id, l.term, l.from.Sub(start))
			if !l.to.IsZero() {
				s += fmt.Sprintf(" to %v (%d)", l.to.Sub(start), l.whyItEnded)
			}
		}
	}
	return s + fmt.Sprintf("\nnow %v", w.now.Sub(start))
}

func (w *world) all() (is []int) {
	for i := range w.nodes {
		is = append(is, i)
	}
	return is
}
