// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/athena-go/athena/member"
)

// worker is a goroutine that handles the events of a lane until there are none.
type worker struct {
	mux   *Mux
	run   *live
	route *route
	lane  *lane
	batch []item // taken from the lane; those before next are done
	next  int
}

// errExited says that a handler ended its goroutine.
var errExited = errors.New("receiver: handler ended its goroutine")

func (w *worker) drain(sender member.Address) {
	finished := false
	defer func() {
		if !finished {
			// A handler ended its goroutine (runtime.Goexit); the lane goes on.
			w.mux.work.Go(func() { w.drain(sender) })
		}
	}()
	for w.next < len(w.batch) || w.take(sender) {
		it := w.batch[w.next]
		w.batch[w.next] = item{} // its memory is the handlers'
		w.next++
		if !w.begin() {
			w.route.count.dropped.Add(1)
			w.leave(it.bytes)
			w.mux.forget(w.run, &it, ErrClosed)
			continue
		}
		w.leave(it.bytes)
		w.handle(&it)
	}
	finished = true
}

// take gets what waits. It removes the lane when that is nothing.
func (w *worker) take(sender member.Address) bool {
	r, l := w.route, w.lane
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(l.items)
	if n == 0 {
		if l.workers--; l.workers == 0 {
			r.retire(sender, l)
		}
		return false
	}
	w.next = 0
	if r.policy == Block && r.answer == nil {
		// All at once: nobody else looks at them.
		w.batch, l.items, l.spare = l.items, l.spare[:0], l.items
		return true
	}
	w.batch = append(w.batch[:0], l.items[0])
	copy(l.items, l.items[1:])
	l.items[n-1] = item{}
	l.items = l.items[:n-1]
	return true
}

// begin waits until one more handler of the type may run; false when the node closes.
func (w *worker) begin() bool {
	if w.run.ended() {
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

// leave counts an event out of those that wait.
func (w *worker) leave(bytes int64) {
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

// sampled is that one event of so many is timed, the first among them: reading the
// clock twice costs as much as a small handler.
const sampled = 16

// handle runs the handlers of an event and tells its sender, if that waits.
func (w *worker) handle(it *item) {
	var value any
	ran, err := true, errExited
	defer func() {
		if w.route.slots != nil {
			<-w.route.slots
		}
		if it.ctx != nil {
			w.run.calls.end(it.from.Address, it.call.ID, ErrClosed)
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
	if w.route.count.handled.Add(1)%sampled != 1 {
		value, ran, err = w.all(ctx, it)
		return
	}
	began := time.Now()
	value, ran, err = w.all(ctx, it)
	w.route.count.took.Observe(time.Since(began))
}

// all runs the handlers of an event: of its type, then those of Raw that match,
// and when nobody took it, those of Raw that take the rest.
func (w *worker) all(ctx context.Context, it *item) (value any, took bool, err error) {
	raw := it.raw
	try := func(h handler, event any) {
		done, fault := protect(ctx, h, *it.from, event)
		took = took || done
		if fault != nil {
			w.fail(it, fault)
			err = errors.Join(err, fault)
		}
	}
	switch {
	case w.route.answer != nil:
		took = true
		if value, err = w.answer(ctx, it); err != nil {
			w.fail(it, err)
		}
	case w.route == w.run.raw:
		raw, _ = it.event.(*Raw)
	default:
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
		err = unknown(nameOf(w.route, raw))
		w.report(it, err)
	}
	return value, took, err
}

// answer runs the handler of a request, and turns its panic into an error.
func (w *worker) answer(ctx context.Context, it *item) (value any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	value, err = w.route.answer(ctx, *it.from, it.event)
	return value, worded(err)
}

// worded asks an error for its text where a panic is recovered: a nil pointer as
// an error has none.
func worded(err error) error {
	if err != nil {
		_ = err.Error()
	}
	return err
}

// nameOf is the name under which an event came.
func nameOf(r *route, raw *Raw) string {
	if raw != nil {
		return raw.Name
	}
	return r.name
}

// protect runs one handler where it matches, and turns its panic into an error.
func protect(
	ctx context.Context, h handler, from member.Member, event any,
) (took bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			took, err = true, &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if h.match != nil && !h.match(from, event) {
		return false, nil
	}
	return true, worded(h.run(ctx, from, event))
}

// fail reports the error of a handler.
func (w *worker) fail(it *item, err error) {
	counter := &w.route.count.failed
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		counter = &w.route.count.panicked
	}
	counter.Add(1)
	w.report(it, err)
}

func (w *worker) report(it *item, err error) {
	if report := w.run.setup.Report; report != nil {
		report(Failure{Event: nameOf(w.route, it.raw), From: *it.from, Err: err, Told: it.call != nil})
	}
}
