// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/member"
)

// SlowHandler is a call of the handlers of an event or request that has been running for at least
// StallTimeout. Handlers of streams are never slow.
type SlowHandler struct {
	Event   string         // name under which the event was sent
	From    member.Address // the sender
	Running time.Duration  // up to a second too short
	Waiting int            // events of this sender and type that wait
}

const (
	// watchInterval is how often watchHandlers compares each worker with its last look. Reading the
	// clock for each event would cost more than a small handler (sampleEvery).
	watchInterval = time.Second
	// slowReportInterval is the shortest interval between two reports about one type.
	slowReportInterval = time.Minute
)

// handling shows what a worker handles to watchHandlers.
type handling struct {
	calls   uint64              // used by the worker only
	running atomic.Uint64       // the number of the running call; 0 if the worker waits or answers
	raw     atomic.Pointer[Raw] // the event of that call, if its handlers handle Raw

	// The lock of the route guards these fields.
	seen        uint64        // running, when watchHandlers last found a change
	since       time.Time     // when that was
	reportAfter time.Duration // the duration from which the call is reported
}

func (h *handling) markStart(it *item) {
	if raw, ok := it.event.(*Raw); ok {
		h.raw.Store(raw)
	}
	h.calls++
	h.running.Store(h.calls)
}

// isRunning reports whether the call that watchHandlers last saw still runs, and has been running
// for at least the given time. The lock of the route must be held.
func (h *handling) isRunning(now time.Time, least time.Duration) bool {
	call := h.running.Load()
	return call == h.seen && call != 0 && now.Sub(h.since) >= least
}

// watchHandlers reports slow handlers until the Mux closes.
func (m *Mux) watchHandlers(run *muxRun) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, h := range m.listSlow(time.Now()) {
				run.setup.ReportSlow(h)
			}
		case <-run.ctx.Done():
			return
		}
	}
}

// listSlow returns the handlers to report.
func (m *Mux) listSlow(now time.Time) (slow []SlowHandler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.types {
		r.mu.Lock()
		if w := r.findSlow(now); w != nil && now.Sub(r.reported) >= slowReportInterval {
			h := w.describeHandler(now)
			r.reported, w.reportAfter = now, 2*h.Running
			slow = append(slow, h)
		}
		r.mu.Unlock()
	}
	return slow
}

// findSlow compares each worker with the last look. It returns the worker to report, or nil: one
// that was not reported yet before others, and then the one that has been running for longer. r.mu
// must be held.
func (r *route) findSlow(now time.Time) (slow *worker) {
	for _, l := range r.lanes {
		for _, w := range l.workers {
			if call := w.running.Load(); call != w.seen {
				w.seen, w.since, w.reportAfter = call, now, StallTimeout
			}
			if w.isRunning(now, w.reportAfter) && (slow == nil || cmp.Or(
				cmp.Compare(w.reportAfter, slow.reportAfter), w.since.Compare(slow.since)) < 0) {
				slow = w
			}
		}
	}
	return slow
}

// describeHandler describes the running handler. The lock of the route must be held.
func (w *worker) describeHandler(now time.Time) SlowHandler {
	name := w.route.name
	if raw := w.raw.Load(); raw != nil {
		name = raw.Name
	}
	waiting, _ := w.lane.readWaiting()
	return SlowHandler{name, w.lane.key.sender, now.Sub(w.since), int(waiting)}
}
