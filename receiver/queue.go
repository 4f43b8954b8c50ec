// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/athena-go/athena/member"
)

// item is a queued event.
type item struct {
	from     *member.Member
	event    any  // a pointer to the event
	raw      *Raw // nil if there is no handler of Raw
	metadata map[string]string
	call     *Call
	ctx      context.Context // of a request whose sender waits, else nil
	bytes    int64           // of the payload
}

// answer reports the outcome to a sender that waits for it.
func (it *item) answer(value any, ran bool, err error) {
	if it.call != nil {
		it.call.Answer(value, ran, err)
	}
}

// lane holds the events of one sender to one type. It exists, and has a goroutine, while events
// wait or are being handled. The lock of the route guards the fields that are not atomic.
type lane struct {
	items   []item // oldest first
	spare   []item // memory for the next items
	workers int
	// waiting and bytes count the events that wait, with those that a worker has already
	// taken out of items.
	waiting, bytes atomic.Int64
	blocked        atomic.Bool   // a sender waits for room
	space          chan struct{} // closed when there may be room; nil if no sender waits
}

// enqueueItem adds an event to the lane of its sender, and blocks until there is room.
func (m *Mux) enqueueItem(ctx context.Context, run *muxRun, r *route, it *item) error {
	for {
		space, old, err := m.tryEnqueue(run, r, it)
		for i := range old {
			m.discardItem(run, &old[i], ErrBusy)
		}
		if err != nil || space == nil {
			return err
		}
		select {
		case <-space:
		case <-run.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryEnqueue adds the event, or returns a channel to wait for. old are the dropped events.
func (m *Mux) tryEnqueue(run *muxRun, r *route, it *item) (
	space <-chan struct{}, old []item, err error,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.isEnded() {
		return nil, nil, ErrClosed
	}
	sender := it.from.Address
	l := r.laneOf(sender)
	if !r.hasRoom(l, it.bytes) {
		switch {
		case r.policy == Reject:
			r.count.rejected.Add(1)
			return nil, nil, ErrBusy
		case r.policy == Drop:
			old = r.dropOldest(l, it.bytes)
		case r.policy == Block:
			// Checked again: a worker may have made room before it could see blocked.
			if l.blocked.Store(true); !r.hasRoom(l, it.bytes) {
				if l.space == nil {
					l.space = make(chan struct{})
				}
				return l.space, nil, nil
			}
		}
	}
	l.items = append(l.items, *it)
	l.waiting.Add(1)
	l.bytes.Add(it.bytes)
	if l.workers < r.maxWorkers() {
		l.workers++
		m.work.Go(func() { (&worker{mux: m, run: run, route: r, lane: l}).drainLane(sender) })
	}
	return nil, old, nil
}

// maxIdle is how many unused lanes of a route are kept for reuse.
const maxIdle = 4

// laneOf returns the lane of a sender, or a new one. r.mu must be held.
func (r *route) laneOf(sender member.Address) *lane {
	l := r.lanes[sender]
	if l != nil {
		return l
	}
	if n := len(r.idle); n > 0 {
		l, r.idle = r.idle[n-1], r.idle[:n-1]
	} else {
		l = &lane{}
	}
	r.lanes[sender] = l
	return l
}

// retireLane removes an empty lane. r.mu must be held.
func (r *route) retireLane(sender member.Address, l *lane) {
	delete(r.lanes, sender)
	if len(r.idle) < maxIdle && cap(l.items) <= 2*QueueLength && cap(l.spare) <= 2*QueueLength {
		l.blocked.Store(false)
		r.idle = append(r.idle, l)
	}
}

// hasRoom reports whether an event of that many bytes may wait. r.mu must be held.
func (r *route) hasRoom(l *lane, bytes int64) bool {
	n := l.waiting.Load()
	return n == 0 || n < int64(r.queue) && l.bytes.Load()+bytes <= QueueBytes
}

// dropOldest removes the oldest events until a new one has room. r.mu must be held.
func (r *route) dropOldest(l *lane, bytes int64) []item {
	n := 0
	for n < len(l.items) && !r.hasRoom(l, bytes) {
		l.waiting.Add(-1)
		l.bytes.Add(-l.items[n].bytes)
		n++
	}
	r.count.dropped.Add(uint64(n))
	old := slices.Clone(l.items[:n])
	l.items = slices.Delete(l.items, 0, n)
	return old
}

// maxWorkers is the number of workers of a lane: one, except that requests of one sender are
// handled concurrently.
func (r *route) maxWorkers() int {
	if r.answers {
		return cap(r.slots)
	}
	return 1
}

// discardItem reports an event that no handler got.
func (m *Mux) discardItem(run *muxRun, it *item, cause error) {
	if it.ctx != nil {
		run.calls.endCall(callKey{it.from.Address, it.call.ID}, cause)
	}
	it.answer(nil, false, cause)
}
