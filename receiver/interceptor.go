// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/athena-go/athena/member"
)

// Interceptor runs around the handlers of every event, request and stream, for example to log,
// trace or authorize them. It may call next once, before it returns. next runs the handlers and
// returns their error. Contexts derived from ctx have the sender's Metadata.
//
// The error of the Interceptor replaces that of the handlers. If it does not call next, no handler
// runs. A waiting sender or the opener of a stream then gets the error as a HandlerError. A nil
// error drops an event, but fails a request or a stream. A panic is an error too.
type Interceptor func(ctx context.Context, info Info, next func(ctx context.Context) error) error

// Info describes the event, request or stream to an Interceptor.
type Info struct {
	Name    string // name of the event, request or stream
	From    member.Member
	Request bool
	Stream  bool
	// Event points to the event or request, which must not be changed. Event is nil for a stream.
	Event any
}

// WithInterceptor adds an interceptor. The first interceptor is the outermost.
func WithInterceptor(i Interceptor) MuxOption {
	return func(m *Mux) { m.interceptors = append(m.interceptors, i) }
}

var (
	errNextTwice = errors.New("receiver: an interceptor called next twice, or after it returned")
	errNoAnswer  = errors.New("receiver: an interceptor returned neither an answer nor an error")
)

// guardedCall is a call of handlers through interceptors. An interceptor may call next from another
// goroutine, but no handler runs after the interceptors have returned.
type guardedCall struct {
	turn  chan struct{} // guards the other fields
	begun bool          // next was called, or may no longer be called
	// failed is set if the handlers returned an error.
	failed bool
}

// intercept runs the interceptors around handle, which it calls at most once.
func (m *Mux) intercept(
	ctx context.Context, info Info, handle func(context.Context) error,
) (c *guardedCall, err error) {
	c = &guardedCall{turn: make(chan struct{}, 1)}
	err = m.runInterceptors(ctx, info, func(ctx context.Context) error {
		c.turn <- struct{}{}
		defer func() { <-c.turn }()
		if c.begun {
			return errNextTwice
		}
		c.begun = true
		err := handle(ctx)
		c.failed = err != nil
		return err
	})
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.begun = true
	return c, err
}

// runInterceptors turns a panic of an interceptor into an error.
func (m *Mux) runInterceptors(
	ctx context.Context, info Info, next func(context.Context) error,
) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	for _, i := range slices.Backward(m.interceptors) {
		inner := next
		next = func(ctx context.Context) error { return i(ctx, info, inner) }
	}
	return checkErrorText(next(ctx))
}

// interceptItem runs the handlers of an event within the interceptors. ran is false if no handler
// took the event and no interceptor replaced the error ErrUnknown. The item is passed by value,
// because a pointer would move the caller's item to the heap.
func (w *worker) interceptItem(ctx context.Context, it item) (value any, ran bool, err error) {
	isRequest := it.call != nil && it.call.Request
	info := Info{
		Name: it.name(w.route), From: *it.from, Request: isRequest, Event: it.event,
	}
	took := false
	c, err := w.mux.intercept(ctx, info, func(ctx context.Context) (fault error) {
		value, took, fault = w.runHandlers(ctx, &it)
		return fault
	})
	if err == nil && isRequest && (!took || c.failed) {
		err = errNoAnswer
	}
	if err != nil && !c.failed {
		w.reportFailure(&it, err) // errors of handlers were already reported
	}
	return value, took || !errors.Is(err, ErrUnknown), err
}
