// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/athena-go/athena/member"
)

// eventQueue is the number of events that wait for one slow reader before it lags.
const eventQueue = 256

// hub hands events to readers. It never waits for a reader.
type hub struct {
	mu   sync.Mutex
	size int         // of the full cluster
	view member.View // after all published events
	subs []*subscription
	// lagged counts how often a reader began to lag.
	lagged uint64
}

// subscription is one reader. hub.mu guards its fields.
type subscription struct {
	queue  []Event
	missed int           // events since the reader lags, and 0 while it does not
	ready  chan struct{} // has an entry if there is something to read; has room for one
}

// publish adds the events that led to view.
func (h *hub) publish(view member.View, events []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.view = view
	if len(events) == 0 {
		return
	}
	for _, s := range h.subs {
		s.queue = append(s.queue, events...)
		if s.missed > 0 || len(s.queue) > eventQueue {
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

// countLagged returns how often a reader began to lag.
func (h *hub) countLagged() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lagged
}

// events yields the events of one reader until ctx or done ends.
func (h *hub) events(ctx context.Context, done <-chan struct{}) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		s := h.subscribe()
		defer h.unsubscribe(s)
		for ended := false; ; {
			for _, e := range h.take(s) {
				// After the end of ctx the rest of a batch is not yielded.
				if ctx.Err() != nil || !yield(e) {
					return
				}
			}
			if ended {
				return
			}
			select {
			case <-s.ready:
			case <-ctx.Done():
				return
			case <-done:
				ended = true // events that were published before are still yielded
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

// take empties the queue. A reader that lags starts again from the view.
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

// snapshot is the view as of now. h.mu must be held.
func (h *hub) snapshot() Snapshot { return Snapshot{View: clone(h.view), Size: h.size} }

// clone returns a copy that shares no members with v.
func clone(v member.View) member.View {
	v.Members = slices.Clone(v.Members)
	return v
}
