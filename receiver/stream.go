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

// streamConcurrency is how many streams of one name are handled at once, unless
// Concurrency says otherwise.
const streamConcurrency = 64

// Stream is a stream of bytes in both directions between two members. Its methods
// may be called side by side. Their errors are those that package cluster names:
// ErrClosed, ErrStreamClosed, ErrStreamReset and ErrStreamCut.
type Stream interface {
	// Read is io.EOF where the peer has ended its direction in order and all that
	// it wrote was read, and never in the middle.
	io.Reader
	// Write blocks while the peer does not read. A nil error says nothing of what
	// the peer has read.
	io.Writer
	// CloseWrite ends this direction in order: the peer reads io.EOF after what was
	// written. It waits for a Write that is under way.
	CloseWrite() error
	// Close ends both directions at once: the peer's Read and Write fail. What was
	// written before CloseWrite still arrives. Later calls do nothing.
	Close() error
}

// streamRoute is the handler of the streams of one name. Of the route it has name,
// concurrency, lock and counters.
type streamRoute struct {
	route
	serve   func(ctx context.Context, from member.Member, s Stream) error
	running int // guarded by the lock
}

// HandleStream makes fn the handler of the streams that members open by a name of
// 1 to 128 printable characters. Names of streams and names of events have
// nothing to do with each other. fn runs in a goroutine of its own for each stream,
// at most 64 at once; Concurrency, the only option, says another
// number. Who opens one more gets cluster.ErrBusy.
//
// The stream is over when fn returns: with nil in order, so that the peer reads
// io.EOF behind all that was written, also where it sends on; with an error, which
// is reported and counted, or by a panic, the peer gets cluster.ErrStreamReset. So
// who opened the stream knows by io.EOF that fn took all, if fn does not call
// CloseWrite before it knows that itself. What else may use the stream must be done
// when fn returns. The text of an error does not travel: to refuse with a reason,
// write it and return nil.
//
// The context ends when the node closes, and the stream with it. It does not end
// when the peer or the connection goes: Read and Write fail then. Metadata tells
// what the peer gave besides the name.
func HandleStream(
	mux *Mux, name string, fn func(ctx context.Context, from member.Member, s Stream) error,
	opts ...Option,
) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if mux.live.Load() != nil {
		panic(fmt.Sprintf("receiver: stream %q is registered while a node has the Mux", name))
	}
	r := &streamRoute{route: route{name: name, concurrency: streamConcurrency}, serve: fn}
	for _, opt := range opts {
		opt(mux, &r.route)
	}
	switch {
	case !validName(name):
		mux.fault("streams named %.*q: the name must have 1 to %d printable characters",
			maxNameBytes, name, maxNameBytes)
	case fn == nil:
		mux.fault("handler of streams named %q is nil", name)
	case mux.streams[name] != nil:
		mux.fault("two handlers of streams named %q: one is enough", name)
	case r.name != name || r.queue != 0:
		mux.fault("options of streams named %q: only Concurrency means anything there", name)
	default:
		mux.streams[name] = r
	}
}

// AcceptStream finds the handler of a stream that a member opens. Where there is no
// error the caller must call serve once, which runs the handler, closes the stream
// and returns when it has returned; Close waits for that. Errors: ErrUnknown,
// ErrBusy, ErrClosed.
func (m *Mux) AcceptStream(name string) (
	serve func(from member.Member, metadata map[string]string, s Stream), err error,
) {
	run := m.live.Load()
	if run == nil {
		return nil, ErrClosed
	}
	r := run.streams[name]
	if r == nil {
		m.unknown.Add(1)
		return nil, fmt.Errorf("%w for streams named %s", ErrUnknown, safetext.QuotePeerText(name))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case run.ended():
		return nil, ErrClosed
	case r.running == r.concurrency:
		r.count.rejected.Add(1)
		return nil, fmt.Errorf("%w: %d streams named %q", ErrBusy, r.running, name)
	}
	r.running++
	r.count.handled.Add(1)
	m.work.Add(1)
	return func(from member.Member, metadata map[string]string, s Stream) {
		defer m.work.Done()
		defer r.leave()
		m.serve(run, r, from, metadata, s)
	}, nil
}

func (r *streamRoute) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
}

// serve runs the handler of a stream.
func (m *Mux) serve(
	run *live, r *streamRoute, from member.Member, metadata map[string]string, s Stream,
) {
	ctx := run.ctx
	// Nothing else wakes a handler that reads or writes.
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	err := errExited
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if err == nil {
			_ = s.CloseWrite() // what it fails with, the peer finds too
		} else {
			r.fail(run, from, err)
		}
		s.Close()
		stop()
	}()
	if metadata != nil {
		ctx = context.WithValue(ctx, metadataKey{}, metadata)
	}
	err = worded(r.serve(ctx, from, s))
}

// fail counts the error of a handler and reports it. That a stream ends with the
// node is no news.
func (r *streamRoute) fail(run *live, from member.Member, err error) {
	_, panicked := errors.AsType[*PanicError](err)
	if panicked {
		r.count.panicked.Add(1)
	} else {
		r.count.failed.Add(1)
	}
	if run.setup.Report != nil && (panicked || !run.ended()) {
		run.setup.Report(Failure{Event: r.name, Stream: true, From: from, Err: err})
	}
}
