// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/athena-go/athena/member"
)

// worker is a goroutine that handles the events of a lane until the lane is empty.
type worker struct {
	mux   *Mux
	run   *muxRun
	route *route
	lane  *lane
	batch []item // taken from the lane; the events before index next have been handled
	next  int
	pool  chan struct{} // the pool of the slot that the worker holds, or nil
	handling
}

// errExited is the result of a handler that ended its goroutine (runtime.Goexit).
var errExited = errors.New("receiver: handler ended its goroutine")

func (w *worker) drainLane() {
	finished := false
	defer func() {
		if !finished {
			// A handler ended this goroutine: another goroutine continues.
			w.mux.work.Go(w.drainLane)
		}
	}()
	for w.next < len(w.batch) || w.takeBatch() {
		it := w.batch[w.next]
		w.batch[w.next] = item{} // so that only the handlers refer to the event
		w.next++
		if err := w.acquireSlot(&it); err != nil {
			w.releaseRoom(it.bytes)
			w.mux.discardItem(w.run, &it, err)
			continue
		}
		w.releaseRoom(it.bytes)
		w.handleItem(&it)
	}
	finished = true
}

// takeBatch takes waiting events from the lane. If no event is waiting, it ends the worker and
// returns false.
func (w *worker) takeBatch() bool {
	r, l := w.route, w.lane
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(l.items)
	if n == 0 {
		r.retireWorker(w)
		return false
	}
	w.next = 0
	if r.policy == Block && r.kind != ofRequests {
		// Take all events: with this policy no other goroutine reads the lane.
		w.batch, l.items, l.spare = l.items, l.spare[:0], l.items
		return true
	}
	w.batch = append(w.batch[:0], l.items[0])
	copy(l.items, l.items[1:])
	l.items[n-1] = item{}
	l.items = l.items[:n-1]
	return true
}

// acquireSlot waits for a slot of the type. It returns ErrClosed when the node closes, and ErrBusy
// for a request that has waited for too long.
func (w *worker) acquireSlot(it *item) error {
	s := w.route.slots
	if s != nil && !w.run.isEnded() {
		w.pool = s.takeSlot(it.depth, it.ctx != nil, w.run.ctx.Done())
	}
	switch {
	case w.run.isEnded():
		if w.pool != nil {
			s.returnSlot(w.pool)
			w.pool = nil
		}
		w.route.count.dropped.Add(1)
		return ErrClosed
	case s != nil && w.pool == nil:
		w.route.count.rejected.Add(1)
		return s.busyError(it.name(w.route))
	}
	return nil
}

// releaseRoom removes an event from the counts of waiting events.
func (w *worker) releaseRoom(bytes int64) {
	l := w.lane
	l.addWaiting(-1, -bytes)
	if !l.blocked.Load() {
		return
	}
	w.route.mu.Lock()
	defer w.route.mu.Unlock()
	l.blocked.Store(false)
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
}

// The duration of one event in sampleEvery is measured, because reading the clock twice costs as
// much as a small handler.
const sampleEvery = 16

// handleItem runs the handlers of an event and reports the outcome to a sender that waits.
func (w *worker) handleItem(it *item) {
	var value any
	ran, err := true, errExited
	w.markStart(it)
	defer func() {
		if w.pool != nil || it.call != nil {
			w.running.Store(0) // otherwise the next call begins immediately
		}
		if w.pool != nil {
			w.route.slots.returnSlot(w.pool)
			w.pool = nil
		}
		if it.ctx != nil {
			w.run.calls.endCall(callKey{it.from.Address, it.call.ID}, ErrClosed)
		}
		it.answer(value, ran, err)
	}()
	ctx := w.run.contexts[it.depth]
	if it.ctx != nil {
		if ctx = it.ctx; ctx.Err() != nil {
			ran, err = false, context.Cause(ctx)
			return
		}
	}
	if it.metadata != nil {
		ctx = context.WithValue(ctx, metadataKey{}, it.metadata)
	}
	if w.route.count.handled.Add(1)%sampleEvery != 1 {
		value, ran, err = w.runItem(ctx, it)
		return
	}
	began := time.Now()
	value, ran, err = w.runItem(ctx, it)
	w.route.count.took.Observe(time.Since(began))
}

func (w *worker) runItem(ctx context.Context, it *item) (value any, ran bool, err error) {
	if w.mux.interceptors != nil {
		return w.interceptItem(ctx, *it)
	}
	return w.runHandlers(ctx, it)
}

// runHandlers runs the handlers of the event's type. If none of them takes the event, it runs the
// handlers of the interfaces that the type implements. Then it runs the handlers of Raw that have a
// filter and, if no handler took the event, the handlers of Raw without a filter.
func (w *worker) runHandlers(ctx context.Context, it *item) (value any, took bool, err error) {
	try := func(places []*place, event any) {
		for _, p := range places {
			answer, done, fault := runHandler(ctx, p, *it.from, event)
			if took = took || done; answer != nil {
				value = answer
			}
			if fault != nil {
				w.reportFailure(it, fault)
				err = errors.Join(err, fault)
			}
		}
	}
	tryInOrder := func(d *dispatch, event any) {
		if try(d.first, event); !took {
			try(d.otherwise, event)
		}
	}
	tryInOrder(w.route.dispatch.Load(), it.event)
	if it.raw != nil {
		tryInOrder(w.run.table.Load().raw.dispatch.Load(), it.raw)
	}
	if !took {
		w.mux.unknown.Add(1)
		err = unknownErr(it.name(w.route))
		w.reportError(it, err)
	}
	return value, took, err
}

// checkErrorText calls Error while a panic is still recovered: a nil pointer in an error may
// panic.
func checkErrorText(err error) error {
	if err != nil {
		_ = err.Error()
	}
	return err
}

// name returns the name under which the event was sent to the route.
func (it *item) name(r *route) string {
	if raw, ok := it.event.(*Raw); ok {
		return raw.Name
	}
	return r.name
}

// runHandler runs the handler of a place if it matches, and turns a panic into an error.
func runHandler(
	ctx context.Context, p *place, from member.Member, event any,
) (answer any, took bool, err error) {
	h := p.beginCall()
	if h == nil {
		return nil, false, nil
	}
	defer func() {
		if v := recover(); v != nil {
			took, err = true, &PanicError{Value: v, Stack: debug.Stack()}
		}
		h.endCall()
	}()
	if h.match != nil && !h.match(from, event) {
		return nil, false, nil
	}
	answer, err = h.run(ctx, from, event)
	return answer, true, checkErrorText(err)
}

// reportFailure counts and reports the error of a handler.
func (w *worker) reportFailure(it *item, err error) {
	w.route.countFailure(err)
	w.reportError(it, err)
}

func (w *worker) reportError(it *item, err error) {
	if report := w.run.setup.Report; report != nil {
		report(Failure{Event: it.name(w.route), From: *it.from, Err: err, Told: it.call != nil})
	}
}
