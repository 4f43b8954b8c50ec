// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/histogram"
)

// Stats holds the counters of the events of one type or of the streams of one name. Event
// is empty for events and streams that had no handler.
type Stats struct {
	Event     string // name of the type or of the streams
	Stream    bool   // these counters are for streams
	Queued    int    // events waiting now
	Running   int    // streams being handled now
	Handled   uint64 // taken by handlers
	Failed    uint64 // handlers that returned an error
	Panicked  uint64 // handlers that panicked
	Malformed uint64 // payloads that could not be decoded
	Dropped   uint64 // events without a handler, or dropped by Drop or Close while they waited
	Rejected  uint64 // events rejected by Reject, and streams above the limit
	// Took contains the durations of handlers, sampled from one event in 16. Streams are not included.
	Took Durations
	// Slowest is the slow handler that has been running for the longest time; zero if none is slow.
	Slowest SlowHandler
}

// Durations is a histogram of durations with fixed buckets.
type Durations struct {
	Sum time.Duration
	// Counts has one count per bucket; the last count is for durations above all bounds.
	Counts [17]uint64
}

// Count returns the number of durations.
func (d Durations) Count() uint64 { return histogram.Durations(d).Count() }

// Buckets maps each upper bound, in seconds, to the number of durations up to that bound.
func (d Durations) Buckets() map[float64]uint64 { return histogram.Durations(d).Buckets() }

// Stats returns the counters of all registered types and streams, sorted by name. The entry
// without a name comes first.
func (m *Mux) Stats() []Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, all := time.Now(), []Stats{{Dropped: m.unknown.Load()}}
	for _, r := range m.types {
		s := r.readStats()
		r.mu.Lock()
		for _, l := range r.lanes {
			queued, _ := l.readWaiting()
			s.Queued += int(queued)
			for _, w := range l.workers {
				if w.isRunning(now, max(StallTimeout, s.Slowest.Running)) {
					s.Slowest = w.describeHandler(now)
				}
			}
		}
		r.mu.Unlock()
		all = append(all, s)
	}
	for _, r := range m.streams {
		s := r.readStats()
		s.Stream = true
		r.mu.Lock()
		s.Running = r.running
		r.mu.Unlock()
		all = append(all, s)
	}
	// The sort is stable, so a type precedes the streams of the same name.
	slices.SortStableFunc(all, func(a, b Stats) int { return strings.Compare(a.Event, b.Event) })
	return all
}

func (r *route) readStats() Stats {
	return Stats{
		Event:     r.name,
		Handled:   r.count.handled.Load(),
		Failed:    r.count.failed.Load(),
		Panicked:  r.count.panicked.Load(),
		Malformed: r.count.malformed.Load(),
		Dropped:   r.count.dropped.Load(),
		Rejected:  r.count.rejected.Load(),
		Took:      Durations(r.count.took.Read()),
	}
}
