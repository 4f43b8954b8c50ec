// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/histogram"
)

// Stats counts the events of one type, or the streams of one name; Event is empty
// for those that no handler took.
type Stats struct {
	Event     string // name of the type, or of the streams
	Stream    bool   // of streams; the comments of fields say event for those too
	Queued    int    // wait now
	Running   int    // streams that are handled now
	Handled   uint64 // taken by handlers
	Failed    uint64 // handlers that returned an error
	Panicked  uint64 // handlers that panicked
	Malformed uint64 // payloads that were not of the type
	Dropped   uint64 // waited when the Mux was closed or a newer one came, or had no handler
	Rejected  uint64 // came while the queue was full, under Reject, or a stream too many
	// Took is how long handlers had an event, of one event of 16; of no streams.
	Took Durations
}

// Durations are durations counted in fixed buckets, for monitoring.
type Durations struct {
	Sum time.Duration
	// Counts are by bucket; the last one is of the durations above all bounds.
	Counts [17]uint64
}

// Count returns how many durations were counted.
func (d Durations) Count() uint64 { return histogram.Durations(d).Count() }

// Buckets returns for each upper bound, in seconds, how many durations were not above it.
func (d Durations) Buckets() map[float64]uint64 { return histogram.Durations(d).Buckets() }

// Stats lists the types and streams that were registered, sorted by name, and first
// what had no handler.
func (m *Mux) Stats() []Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []Stats{{Dropped: m.unknown.Load()}}
	for _, r := range m.types {
		s := r.stats()
		r.mu.Lock()
		for _, l := range r.lanes {
			s.Queued += int(l.waiting.Load())
		}
		r.mu.Unlock()
		all = append(all, s)
	}
	for _, r := range m.streams {
		s := r.stats()
		s.Stream = true
		r.mu.Lock()
		s.Running = r.running
		r.mu.Unlock()
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Stats) int {
		return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(ordinal(a), ordinal(b)))
	})
	return all
}

// ordinal sorts a type before the streams of its name.
func ordinal(s Stats) int {
	if s.Stream {
		return 1
	}
	return 0
}

func (r *route) stats() Stats {
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
