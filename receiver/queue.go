// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/member"
)

// item is a queued event.
type item struct {
	from     *member.Member
	event    any  // a pointer to the event
	raw      *Raw // nil if there is no handler of Raw
	metadata map[string]string
	call     *Call
	ctx      context.Context // set for a request whose sender waits
	depth    int
	bytes    int64 // of the payload
}

// answer reports the outcome to a sender that is waiting for it.
func (it *item) answer(value any, ran bool, err error) {
	if it.call != nil {
		it.call.Answer(value, ran, err)
	}
}

// laneKey identifies a lane. Events of handlers have a lane of their own, and so do requests of
// each depth, because those of a smaller depth may wait for them. Requests do not wait behind
// events of their type, which wait for a handler without a limit.
type laneKey struct {
	sender  member.Address
	depth   int
	request bool
}

// lane holds the events that one sender sent to one type. A lane exists and has a goroutine while
// its events are waiting or being handled. The lock of the route guards the fields that are not
// atomic.
type lane struct {
	key     laneKey
	items   []item // oldest first
	spare   []item // memory for the next items
	workers []*worker
	// waiting is the number of waiting events times 1<<32, plus their bytes: both change in one step.
	// Events that a worker has already taken out of items count too.
	waiting atomic.Int64
	blocked atomic.Bool   // a sender is waiting for room
	space   chan struct{} // closed when there may be room; nil if no sender is waiting
}

// addWaiting changes the counts of waiting events and of their bytes.
func (l *lane) addWaiting(events, bytes int64) { l.waiting.Add(events<<32 + bytes) }

func (l *lane) readWaiting() (events, bytes int64) {
	n := l.waiting.Load()
	return n >> 32, n & (1<<32 - 1)
}

// enqueueItem adds an event to the lane of its sender, and blocks until there is room, as
// Delivery.Wait describes.
func (m *Mux) enqueueItem(
	ctx context.Context, run *muxRun, r *route, it *item, wait time.Duration,
) error {
	var timer *time.Timer
	var late <-chan time.Time
	for {
		space, old, err := m.tryEnqueue(run, r, it)
		for i := range old {
			m.discardItem(run, &old[i], ErrBusy)
		}
		if err != nil || space == nil {
			return err
		}
		if timer == nil && wait > 0 {
			timer = time.NewTimer(wait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-space:
			if timer != nil {
				timer.Reset(wait) // the handlers make progress
			}
		case <-late:
			return fmt.Errorf("%w of %s for %v", ErrStalled, it.name(r), wait)
		case <-run.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryEnqueue adds the event, or returns a channel to wait for. The result old contains the events
// that it dropped.
func (m *Mux) tryEnqueue(run *muxRun, r *route, it *item) (
	space <-chan struct{}, old []item, err error,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.isEnded() {
		return nil, nil, ErrClosed
	}
	l := r.laneOf(laneKey{it.from.Address, it.depth, it.ctx != nil})
	if !r.hasRoom(l, it.bytes) {
		switch {
		case r.policy == Reject:
			r.count.rejected.Add(1)
			return nil, nil, ErrBusy
		case r.policy == Drop:
			old = r.dropOldest(l, it.bytes)
		case r.policy == Block:
			// Check again: a worker may have made room before blocked was set.
			if l.blocked.Store(true); !r.hasRoom(l, it.bytes) {
				if l.space == nil {
					l.space = make(chan struct{})
				}
				return l.space, nil, nil
			}
		}
	}
	l.items = append(l.items, *it)
	l.addWaiting(1, it.bytes)
	if len(l.workers) < r.maxWorkers() {
		m.work.Go(r.addWorker(m, run, l).drainLane)
	}
	return nil, old, nil
}

// maxIdle bounds the unused lanes of a route that are kept for reuse, and maxIdleWorkers its unused
// workers: most requests find their lane without one.
const (
	maxIdle        = 4
	maxIdleWorkers = 64
)

// addWorker adds a worker to a lane. r.mu must be held.
func (r *route) addWorker(m *Mux, run *muxRun, l *lane) *worker {
	var w *worker
	if n := len(r.idleWorkers); n > 0 {
		w, r.idleWorkers = r.idleWorkers[n-1], r.idleWorkers[:n-1]
	} else {
		w = &worker{mux: m, route: r}
	}
	w.run, w.lane = run, l
	l.workers = append(l.workers, w)
	return w
}

// retireWorker removes a worker from its lane, and the lane if it was the last. r.mu must be held.
func (r *route) retireWorker(w *worker) {
	l := w.lane
	i := slices.Index(l.workers, w)
	if l.workers = slices.Delete(l.workers, i, i+1); len(l.workers) == 0 {
		r.retireLane(l)
	}
	if r.kind == ofRequests && len(r.idleWorkers) < maxIdleWorkers {
		w.raw.Store(nil)
		r.idleWorkers = append(r.idleWorkers, w)
	}
}

// laneOf returns the lane with a key, or a new lane. r.mu must be held.
func (r *route) laneOf(key laneKey) *lane {
	if r.last != nil && r.last.key == key {
		return r.last
	}
	l := r.lanes[key]
	if l == nil {
		if n := len(r.idle); n > 0 {
			l, r.idle = r.idle[n-1], r.idle[:n-1]
		} else {
			l = &lane{}
		}
		l.key = key
		r.lanes[key] = l
	}
	r.last = l
	return l
}

// retireLane removes an empty lane. r.mu must be held.
func (r *route) retireLane(l *lane) {
	delete(r.lanes, l.key)
	r.last = nil
	if len(r.idle) < maxIdle && cap(l.items) <= 2*QueueLength && cap(l.spare) <= 2*QueueLength {
		l.blocked.Store(false)
		r.idle = append(r.idle, l)
	}
}

// hasRoom reports whether an event of the given size may be queued. r.mu must be held.
func (r *route) hasRoom(l *lane, bytes int64) bool {
	n, waiting := l.readWaiting()
	return n == 0 || n < int64(r.queue) && waiting+bytes <= QueueBytes
}

// dropOldest removes the oldest events until there is room for a new event. r.mu must be held.
func (r *route) dropOldest(l *lane, bytes int64) []item {
	n := 0
	for n < len(l.items) && !r.hasRoom(l, bytes) {
		l.addWaiting(-1, -l.items[n].bytes)
		n++
	}
	r.count.dropped.Add(uint64(n))
	old := slices.Clone(l.items[:n])
	l.items = slices.Delete(l.items, 0, n)
	return old
}

// maxWorkers returns the number of workers of a lane. A lane of events has one worker. Requests of
// one sender are handled concurrently, and one more worker refuses those that wait for too long.
func (r *route) maxWorkers() int {
	if r.kind == ofRequests {
		return r.slots.limit + 1
	}
	return 1
}

// discardItem reports an event that reached no handler.
func (m *Mux) discardItem(run *muxRun, it *item, cause error) {
	if it.ctx != nil {
		run.calls.endCall(callKey{it.from.Address, it.call.ID}, cause)
	}
	it.answer(nil, false, cause)
}
