// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/athena-go/athena/internal/message"

// item is an entry of the queue: a message in flight, or a function to call.
type item struct {
	run  func() // nil for a message
	from int    // sender
	to   int    // recipient
	conn int32  // number of the link's connection when the message was sent
	msg  message.Message
}

// entry orders items by time, then by the order of scheduling.
type entry struct {
	at   int64 // nanoseconds of global time
	seq  uint64
	slot int32
}

func (e entry) before(o entry) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// queue is the schedule, a binary heap. Items stay in slots, so the heap moves only small entries.
// If there are enough slots, the queue allocates no memory.
type queue struct {
	heap  []entry
	slots []item
	free  []int32
	seq   uint64
}

// later orders an item after the urgent items that are due at the same time. Faults are urgent. A
// run draws its faults one by one, whereas a replay schedules all faults at its start. Because
// faults are urgent, they happen in the same order in both.
const later = 1 << 62

func (q *queue) len() int { return len(q.heap) }

// nextTime returns the time of the next item. The queue must not be empty.
func (q *queue) nextTime() int64 { return q.heap[0].at }

func (q *queue) push(at int64, it item) { q.insert(at, q.seq|later, it) }

func (q *queue) pushFirst(at int64, it item) { q.insert(at, q.seq, it) }

func (q *queue) insert(at int64, seq uint64, it item) {
	var slot int32
	if n := len(q.free); n > 0 {
		slot, q.free = q.free[n-1], q.free[:n-1]
		q.slots[slot] = it
	} else {
		slot = int32(len(q.slots))
		q.slots = append(q.slots, it)
	}
	q.seq++
	q.heap = append(q.heap, entry{at: at, seq: seq, slot: slot})
	q.up(len(q.heap) - 1)
}

func (q *queue) pop() item {
	slot := q.heap[0].slot
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	if last > 0 {
		q.down(0)
	}
	it := q.slots[slot]
	q.slots[slot] = item{}
	q.free = append(q.free, slot)
	return it
}

// lastMessageTime returns the arrival time of the last message in flight, or 0.
func (q *queue) lastMessageTime() int64 {
	var at int64
	for _, e := range q.heap {
		if q.slots[e.slot].run == nil {
			at = max(at, e.at)
		}
	}
	return at
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.heap[i].before(q.heap[parent]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if r := child + 1; r < len(q.heap) && q.heap[r].before(q.heap[child]) {
			child = r
		}
		if !q.heap[child].before(q.heap[i]) {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}
