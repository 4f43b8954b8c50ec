// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/athena-go/athena/member"
)

// eventQueue is the number of events that are queued for one reader before it lags.
const eventQueue = 256

// hub passes events to readers without waiting for them.
type hub struct {
	mu     sync.Mutex
	size   int         // number of members of the full cluster
	view   member.View // the view after all published events
	subs   []*subscription
	lagged uint64 // how often a reader began to lag
}

// subscription is one reader of events. hub.mu guards its fields.
type subscription struct {
	queue  []Event
	missed int           // events that the reader has missed; 0 if it does not lag
	ready  chan struct{} // of capacity 1; has an entry if there is something to read
}

// publishEvents queues the events that led to this view.
func (h *hub) publishEvents(view member.View, events []Event) {
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

// readEvents yields events to one reader until ctx is done or done is closed.
func (h *hub) readEvents(ctx context.Context, done <-chan struct{}) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		s := h.subscribe()
		defer h.unsubscribe(s)
		for ended := false; ; {
			for _, e := range h.takeEvents(s) {
				// The rest of a batch is not yielded after ctx is done.
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
				ended = true // yield the queued events first
			}
		}
	}
}

func (h *hub) subscribe() *subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &subscription{queue: []Event{h.snapshotEvent()}, ready: make(chan struct{}, 1)}
	h.subs = append(h.subs, s)
	return s
}

func (h *hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs = slices.DeleteFunc(h.subs, func(o *subscription) bool { return o == s })
}

// takeEvents empties the queue. A reader that lags gets a new snapshot.
func (h *hub) takeEvents(s *subscription) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := s.queue
	s.queue = nil
	if s.missed > 0 {
		events = []Event{Lagged{s.missed}, h.snapshotEvent()}
		s.missed = 0
	}
	return events
}

// snapshotEvent returns the current view. h.mu must be held.
func (h *hub) snapshotEvent() Snapshot { return Snapshot{View: cloneView(h.view), Size: h.size} }

// cloneView returns a copy that shares no members with v.
func cloneView(v member.View) member.View {
	v.Members = slices.Clone(v.Members)
	return v
}
