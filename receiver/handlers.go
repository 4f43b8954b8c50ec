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
		if !w.acquireSlot() {
			w.route.count.dropped.Add(1)
			w.releaseRoom(it.bytes)
			w.mux.discardItem(w.run, &it, ErrClosed)
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
		if l.workers--; l.workers == 0 {
			r.retireLane(l)
		}
		return false
	}
	w.next = 0
	if r.policy == Block && !r.answers {
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

// acquireSlot waits for a slot of the type. It returns false when the node closes.
func (w *worker) acquireSlot() bool {
	if w.run.isEnded() {
		return false
	}
	if w.route.slots == nil {
		return true
	}
	select {
	case w.route.slots <- struct{}{}:
		return true
	case <-w.run.ctx.Done():
		return false
	}
}

// releaseRoom removes an event from the counts of waiting events.
func (w *worker) releaseRoom(bytes int64) {
	l := w.lane
	l.waiting.Add(-1)
	l.bytes.Add(-bytes)
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
	defer func() {
		if w.route.slots != nil {
			<-w.route.slots
		}
		if it.ctx != nil {
			w.run.calls.endCall(callKey{it.from.Address, it.call.ID}, ErrClosed)
		}
		it.answer(value, ran, err)
	}()
	ctx := w.run.ctx
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
		value, ran, err = w.runHandlers(ctx, it)
		return
	}
	began := time.Now()
	value, ran, err = w.runHandlers(ctx, it)
	w.route.count.took.Observe(time.Since(began))
}

// runHandlers runs the handlers of an event: first those of its type, then those of Raw that match.
// If no handler matched, it runs the default handlers of Raw.
func (w *worker) runHandlers(ctx context.Context, it *item) (value any, took bool, err error) {
	raw := it.raw
	try := func(h handler, event any) {
		answer, done, fault := runHandler(ctx, h, *it.from, event)
		if took = took || done; answer != nil {
			value = answer
		}
		if fault != nil {
			w.reportFailure(it, fault)
			err = errors.Join(err, fault)
		}
	}
	if w.route == w.run.raw {
		raw, _ = it.event.(*Raw)
	} else {
		for _, h := range w.route.handlers {
			try(h, it.event)
		}
	}
	if raw != nil {
		for _, h := range w.run.watches {
			try(h, raw)
		}
		for _, h := range w.run.fallbacks {
			if !took {
				try(h, raw)
			}
		}
	}
	if !took {
		w.mux.unknown.Add(1)
		err = unknownErr(eventName(w.route, raw))
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

// eventName returns the name under which an event was sent.
func eventName(r *route, raw *Raw) string {
	if raw != nil {
		return raw.Name
	}
	return r.name
}

// runHandler runs one handler if it matches, and turns a panic into an error.
func runHandler(
	ctx context.Context, h handler, from member.Member, event any,
) (answer any, took bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			took, err = true, &PanicError{Value: v, Stack: debug.Stack()}
		}
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
		report(Failure{Event: eventName(w.route, it.raw), From: *it.from, Err: err, Told: it.call != nil})
	}
}
