// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/athena-go/athena/member"
)

// EventQueue is how many events wait for one slow reader before it has lagged.
const EventQueue = 256

// hub hands events to readers. Publishing never waits for one.
type hub struct {
	mu   sync.Mutex
	size int         // of the full cluster
	view member.View // after all that was published
	subs []*subscription
	// lagged counts how often a reader began to be too slow.
	lagged uint64
}

// subscription is one reader. Its fields are guarded by the hub's lock.
type subscription struct {
	queue  []Event
	missed int           // since the reader was last on time; the queue is empty then
	ready  chan struct{} // has room for one: something is there
}

// publish adds the events that lead to view.
func (h *hub) publish(view member.View, events []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.view = view
	if len(events) == 0 {
		return
	}
	for _, s := range h.subs {
		s.queue = append(s.queue, events...)
		if s.missed > 0 || len(s.queue) > EventQueue {
			if s.missed == 0 {
				h.lagged++
			}
			s.missed += len(s.queue)
			s.queue = nil
		}
		select {
		case s.ready <- struct{}{}:
		default:
		}
	}
}

func (h *hub) laggedReaders() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lagged
}

// events reads as one subscriber until ctx or done ends.
func (h *hub) events(ctx context.Context, done <-chan struct{}) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		s := h.subscribe()
		defer h.unsubscribe(s)
		for over := false; ; {
			for _, e := range h.take(s) {
				// Who left in the middle of a batch gets none of its rest.
				if ctx.Err() != nil || !yield(e) {
					return
				}
			}
			if over {
				return
			}
			select {
			case <-s.ready:
			case <-ctx.Done():
				return
			case <-done:
				over = true // what was published before is still read
			}
		}
	}
}

func (h *hub) subscribe() *subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &subscription{queue: []Event{h.snapshot()}, ready: make(chan struct{}, 1)}
	h.subs = append(h.subs, s)
	return s
}

func (h *hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs = slices.DeleteFunc(h.subs, func(o *subscription) bool { return o == s })
}

// take empties the queue; a reader that lagged starts again from the view.
func (h *hub) take(s *subscription) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := s.queue
	s.queue = nil
	if s.missed > 0 {
		events = []Event{Lagged{s.missed}, h.snapshot()}
		s.missed = 0
	}
	return events
}

// snapshot is the view as of now. The hub is locked.
func (h *hub) snapshot() Snapshot { return Snapshot{View: clone(h.view), Size: h.size} }

// clone gives a caller a view of its own.
func clone(v member.View) member.View {
	v.Members = slices.Clone(v.Members)
	return v
}
