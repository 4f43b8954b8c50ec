// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/athena-go/athena/member"
)

// item is an event on its way to its handlers.
type item struct {
	from     *member.Member
	event    any  // a pointer to it
	raw      *Raw // nil where no handler of Raw could want it
	metadata map[string]string
	call     *Call
	ctx      context.Context // of a request that somebody waits for, else nil
	bytes    int64           // of the payload
}

// answer tells who waits for the outcome of an event.
func (it *item) answer(value any, ran bool, err error) {
	if it.call != nil {
		it.call.Answer(value, ran, err)
	}
}

// lane holds the events of one sender to one type. It exists, and has a
// goroutine, while it holds any or one is being handled. What is not atomic is
// guarded by the lock of the route.
type lane struct {
	items   []item // the oldest first
	spare   []item // memory for the next items
	workers int
	// waiting and bytes are of the events that wait, among them those that a
	// worker has taken out of items and not come to yet.
	waiting, bytes atomic.Int64
	blocked        atomic.Bool   // somebody waits for room
	space          chan struct{} // closed when there may be room; nil while nobody waits
}

// put adds an event to the lane of its sender, once there is room.
func (m *Mux) put(ctx context.Context, run *live, r *route, it *item) error {
	for {
		space, old, err := m.tryPut(run, r, it)
		for i := range old {
			m.forget(run, &old[i], ErrBusy)
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

// tryPut adds the event, or says what to wait for. old are events that had to go.
func (m *Mux) tryPut(run *live, r *route, it *item) (space <-chan struct{}, old []item, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.ended() {
		return nil, nil, ErrClosed
	}
	sender := it.from.Address
	l := r.laneOf(sender)
	if !r.room(l, it.bytes) {
		switch {
		case r.policy == Reject:
			r.count.rejected.Add(1)
			return nil, nil, ErrBusy
		case r.policy == Drop:
			old = r.shed(l, it.bytes)
		case r.policy == Block:
			// Asked again: a worker may have made room before it could see blocked.
			if l.blocked.Store(true); !r.room(l, it.bytes) {
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
	if l.workers < r.width() {
		l.workers++
		m.work.Go(func() { (&worker{mux: m, run: run, route: r, lane: l}).drain(sender) })
	}
	return nil, old, nil
}

// maxIdle is how many lanes of a route are kept for other senders, or the same.
const maxIdle = 4

// laneOf returns the lane of a sender, and makes one where there is none. The route
// is locked.
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

// retire takes a lane out that is empty. The route is locked.
func (r *route) retire(sender member.Address, l *lane) {
	delete(r.lanes, sender)
	if len(r.idle) < maxIdle && cap(l.items) <= 2*QueueLength && cap(l.spare) <= 2*QueueLength {
		l.blocked.Store(false)
		r.idle = append(r.idle, l)
	}
}

// room reports whether an event of so many bytes may wait. The route is locked.
func (r *route) room(l *lane, bytes int64) bool {
	n := l.waiting.Load()
	return n == 0 || n < int64(r.queue) && l.bytes.Load()+bytes <= QueueBytes
}

// shed takes the oldest events out until another one has room. The route is locked.
func (r *route) shed(l *lane, bytes int64) []item {
	n := 0
	for n < len(l.items) && !r.room(l, bytes) {
		l.waiting.Add(-1)
		l.bytes.Add(-l.items[n].bytes)
		n++
	}
	r.count.dropped.Add(uint64(n))
	old := slices.Clone(l.items[:n])
	l.items = slices.Delete(l.items, 0, n)
	return old
}

// width is how many workers a lane may have: events of one sender run one after
// the other, requests side by side.
func (r *route) width() int {
	if r.answer != nil {
		return cap(r.slots)
	}
	return 1
}

// forget drops an event that no handler has seen.
func (m *Mux) forget(run *live, it *item, cause error) {
	if it.ctx != nil {
		run.calls.end(it.from.Address, it.call.ID, cause)
	}
	it.answer(nil, false, cause)
}
