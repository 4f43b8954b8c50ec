// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// streamConcurrency is the default limit of concurrently handled streams of one name.
const streamConcurrency = 64

// Stream is a stream of bytes in both directions between two members. Its methods may be called
// concurrently. They return the errors ErrClosed, ErrStreamClosed, ErrStreamReset and
// ErrStreamCut of package cluster.
type Stream interface {
	// Read returns io.EOF only after the peer has closed its direction and all its bytes were read.
	io.Reader
	// Write blocks while the peer does not read. A nil error does not mean that the peer has
	// read the bytes.
	io.Writer
	// CloseWrite ends writing: the peer reads io.EOF after all written bytes. It waits for a
	// concurrent Write.
	CloseWrite() error
	// Close ends both directions: the peer's Read and Write fail. But the peer still receives all
	// bytes written before CloseWrite. Later calls do nothing.
	Close() error
}

// streamRoute is the handler of the streams of one name. It uses the name, concurrency, lock and
// counters of the route.
type streamRoute struct {
	route
	// running and observed are guarded by the lock.
	running  int
	observed int // those of observers
}

// HandleStream makes fn the handler of streams of a name of 1 to 128 printable characters. Names of
// streams and of events are independent. fn runs in a separate goroutine for each stream. At most
// 64 calls of fn run at a time. The option Concurrency sets another limit; no other option applies.
// Beyond the limit, the opener gets cluster.ErrBusy.
//
// The stream ends when fn returns, and nothing else may use it afterwards. If fn returns nil, the
// peer reads io.EOF after all written bytes. So unless fn calls CloseWrite earlier, the opener
// reads io.EOF only if fn has succeeded. If fn returns an error or panics, the failure is counted
// and reported, and the peer gets cluster.ErrStreamReset without the text. To refuse a stream with
// a reason, write the reason and return nil.
//
// When the node closes, the context is canceled and the stream ends. If the peer or the
// connection is lost, the context is not canceled, but Read and Write fail. Metadata
// returns the metadata of the opener.
func HandleStream(
	mux *Mux, name string, fn func(ctx context.Context, from member.Member, s Stream) error,
	opts ...Option,
) *Registration {
	h := &Registration{}
	if fn != nil {
		h.run = func(ctx context.Context, from member.Member, s any) (any, error) {
			return nil, fn(ctx, from, s.(Stream))
		}
	}
	fresh := &streamRoute{}
	fresh.settings = settings{name: name, concurrency: streamConcurrency}
	return mux.registerStream(fresh, h, opts)
}

func (m *Mux) registerStream(fresh *streamRoute, h *Registration, opts []Option) *Registration {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, name := len(m.faults), fresh.name
	r := m.streams[name]
	if r == nil {
		r = fresh
		r.dispatch.Store(&dispatch{})
	}
	s, old := m.applyOptions(&r.route, &fresh.route, opts)
	m.checkHandler(&r.route, nil, ofStreams, h, old)
	switch {
	case !validName(name):
		m.addFault("streams named %.*q: the name must have 1 to %d printable characters",
			maxNameBytes, name, maxNameBytes)
	case len(r.places) > 0 && !old.isCurrent():
		m.addFault("streams named %q have two handlers: register only one", name)
	case s.name != name || s.queue != 0:
		m.addFault("streams named %q: only the options Concurrency and Replacing apply", name)
	}
	m.panicIfRunning(before)
	if len(m.faults) > before {
		h.retire() // Start will fail
		return h
	}
	if r == fresh || m.live.Load() == nil {
		r.settings = s
	}
	m.addPlace(&r.route, nil, ofStreams, h, old)
	if r == fresh {
		m.streams[name] = r
		m.replaceTable(func() { delete(m.streams, name) })
	}
	return h
}

// AcceptStream returns a function that handles a stream opened by a member. The caller must call it
// once: it runs the handler, closes the stream, and returns when the handler has returned; Close
// waits for it. The function calls begin with nil before the handler runs, or with the error of the
// Interceptor that refused the stream. Errors wrap ErrUnknown, ErrBusy or ErrClosed. The streams of
// observers may use half of the concurrency.
func (m *Mux) AcceptStream(name string, observer bool) (
	serve func(from member.Member, metadata map[string]string, s Stream, begin func(refused error)),
	err error,
) {
	run := m.live.Load()
	if run == nil {
		return nil, ErrClosed
	}
	r := run.table.Load().streams[name]
	if r == nil {
		return nil, m.unknownStreamErr(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case run.isEnded():
		return nil, ErrClosed
	case !r.hasHandlers():
		return nil, m.unknownStreamErr(name)
	case r.running == r.concurrency, observer && r.observed >= (r.concurrency+1)/2:
		r.count.rejected.Add(1)
		return nil, fmt.Errorf("%w: %d streams named %q", ErrBusy, r.running, name)
	}
	h := r.dispatch.Load().first[0].beginCall()
	if h == nil {
		return nil, m.unknownStreamErr(name)
	}
	r.countStream(observer, 1)
	r.count.handled.Add(1)
	m.work.Add(1)
	return func(from member.Member, metadata map[string]string, s Stream, begin func(error)) {
		defer m.work.Done()
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.countStream(observer, -1)
		}()
		defer h.endCall()
		ctx := run.contexts[0]
		if metadata != nil {
			ctx = context.WithValue(ctx, metadataKey{}, metadata)
		}
		m.serveStream(ctx, h, Info{Name: name, From: from, Stream: true}, s, begin)
	}, nil
}

func (m *Mux) unknownStreamErr(name string) error {
	m.unknown.Add(1)
	return fmt.Errorf("%w for streams named %s", ErrUnknown, safetext.QuotePeerText(name))
}

// countStream changes the counts of running streams. r.mu must be held.
func (r *streamRoute) countStream(observer bool, n int) {
	r.running += n
	if observer {
		r.observed += n
	}
}

// serveStream runs the handler of a stream. It returns even if the handler panics.
func (m *Mux) serveStream(
	ctx context.Context, h *Registration, info Info, s Stream, begin func(refused error),
) {
	// A blocked Read or Write does not notice that the context is done.
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	err, begun := errExited, false
	defer func() {
		if err == nil && !begun {
			err = errNoAnswer
		}
		if !begun {
			begin(err)
		}
		if err == nil {
			_ = s.CloseWrite() // if CloseWrite fails, the peer notices too
		} else {
			h.reportFailure(ctx, info.From, err)
		}
		s.Close()
		stop()
	}()
	handle := func(ctx context.Context) error {
		begun = true
		begin(nil)
		return h.runStream(ctx, info.From, s)
	}
	if m.interceptors == nil {
		err = handle(ctx)
		return
	}
	_, err = m.intercept(ctx, info, handle)
}

// runStream runs a handler of streams, and turns a panic into an error.
func (h *Registration) runStream(
	ctx context.Context, from member.Member, s Stream,
) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	_, err = h.run(ctx, from, s)
	return checkErrorText(err)
}

// reportFailure counts and reports the error of a handler. An error after the node has
// closed is expected, and not reported.
func (h *Registration) reportFailure(ctx context.Context, from member.Member, err error) {
	r, run := h.place.route, h.mux.live.Load()
	panicked := r.countFailure(err)
	if run.setup.Report != nil && (panicked || ctx.Err() == nil) {
		run.setup.Report(Failure{Event: r.name, Stream: true, From: from, Err: err})
	}
}

// countFailure counts the error of a handler and reports whether it is a panic.
func (r *route) countFailure(err error) (panicked bool) {
	if _, panicked = errors.AsType[*PanicError](err); panicked {
		r.count.panicked.Add(1)
	} else {
		r.count.failed.Add(1)
	}
	return panicked
}
