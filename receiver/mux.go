// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// Mux routes events to handlers. Handlers are added before the Mux is given to
// a node; a Mux serves one node at a time.
type Mux struct {
	codec Codec
	own   bool // the codec is the application's

	mu     sync.Mutex
	types  map[reflect.Type]*route
	faults []error // of registration, told by Start
	// streams are the handlers of streams by their names.
	streams map[string]*streamRoute

	live    atomic.Pointer[live] // nil while no node has the Mux
	work    sync.WaitGroup       // one a goroutine that handles
	unknown atomic.Uint64        // events that no handler took
}

// live is what a Mux is while a node has it. Little of it changes.
type live struct {
	setup Setup
	types map[reflect.Type]*route
	names map[string]*route // what may come from other members
	// sent are the names of those types that were registered and may be sent.
	sent map[reflect.Type]string
	// others are the names of types that were not registered and were sent.
	others sync.Map
	// streams are what other members may open.
	streams map[string]*streamRoute
	// raw is the route of names that nobody has; nil without handlers of Raw.
	// watches match among all events, and fallbacks take what nobody took.
	raw                *route
	watches, fallbacks []handler

	ctx    context.Context // of the handlers
	cancel context.CancelCauseFunc
	calls  calls
}

// MuxOption changes a Mux.
type MuxOption func(*Mux)

// NewMux returns a Mux without handlers.
func NewMux(opts ...MuxOption) *Mux {
	m := &Mux{
		codec: packer{&sync.Map{}}, types: map[reflect.Type]*route{}, streams: map[string]*streamRoute{},
	}
	for _, opt := range opts {
		opt(m)
	}
	return m
}

// Setup is what the node gives to its Mux.
type Setup struct {
	// Scan checks a msgpack payload before it is decoded or sent. It must not be
	// left out: the decoder allocates what a length promises and recurses as
	// deep as the bytes say. It is given because it lives beside the codec of
	// frames, on the same floor as this package.
	Scan func(payload []byte) error
	// Local lists types that only the own node emits; they have no name that
	// another member could send.
	Local []reflect.Type
	// Report hears of each handler that failed, and of events that all handlers
	// left alone (ErrUnknown). It is called from the goroutines of handlers and
	// must not block.
	Report func(Failure)
	// Context is what the contexts of all handlers are made from, with its values. nil
	// stands for context.Background().
	Context context.Context
}

// Failure is a handler's error. Err is a *PanicError when it panicked.
type Failure struct {
	Event  string // name of the type, or of the stream
	Stream bool   // a handler of streams failed
	From   member.Member
	Err    error
	Told   bool // the sender awaits the outcome, and gets the error
}

// PanicError is a panic of a handler.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("receiver: handler panicked: %v", e.Value)
}

// HandlerError means that the handler of another member, or of this one, returned an
// error or panicked. Sends with cluster.WithOutcome and requests end with it.
type HandlerError struct {
	Member member.Address // whose handler it is
	Text   string         // of the handler's error; the member may send any text
}

// Error returns one short line. Text has the whole text.
func (e *HandlerError) Error() string {
	return fmt.Sprintf("cluster: the handler of %s failed: %s", e.Member, safetext.PeerText(e.Text))
}

// ErrClosed says that no node has the Mux, not yet or no more.
var ErrClosed = errors.New("receiver: closed")

// Validate returns every mistake of registration at once. local is that of Setup.
func (m *Mux) Validate(local []reflect.Type) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.compile(local)
	return err
}

// compile makes the table of names that other members may send.
func (m *Mux) compile(local []reflect.Type) (map[string]*route, error) {
	faults := slices.Clone(m.faults)
	if m.live.Load() != nil {
		faults = append(faults, errors.New("receiver: another node has the Mux; make one for each"))
	}
	if m.codec == nil {
		faults = append(faults, errors.New("receiver: WithCodec: the codec is nil"))
	}
	names := map[string]*route{}
	for t, r := range m.types {
		if t == reflect.TypeFor[Raw]() || slices.Contains(local, t) {
			continue
		}
		if names[r.name] != nil && r.name != "" {
			faults = append(faults, fmt.Errorf(
				"receiver: two types are named %q: rename %v by Named", r.name, t))
		}
		names[r.name] = r
		if err := m.unfit(t); err != nil {
			faults = append(faults, fmt.Errorf("receiver: %w", err))
		}
	}
	return names, errors.Join(faults...)
}

// Start makes the Mux take events. After an error of Validate it does nothing.
func (m *Mux) Start(setup Setup) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	names, err := m.compile(setup.Local)
	if err != nil {
		return err
	}
	run := &live{setup: setup, types: maps.Clone(m.types), names: names}
	run.streams = maps.Clone(m.streams)
	run.ctx, run.cancel = context.WithCancelCause(cmp.Or(setup.Context, context.Background()))
	for _, r := range m.types {
		limit := r.concurrency
		if limit == 0 && r.answer != nil {
			limit = RequestConcurrency
		}
		if limit > 0 {
			r.slots = make(chan struct{}, limit)
		}
	}
	if raw := m.types[reflect.TypeFor[Raw]()]; raw != nil {
		run.raw = raw
		for _, h := range raw.handlers {
			if h.match != nil {
				run.watches = append(run.watches, h)
			} else {
				run.fallbacks = append(run.fallbacks, h)
			}
		}
	}
	run.sent = map[reflect.Type]string{}
	for t := range m.types {
		if name, err := run.nameOf(t); err == nil {
			run.sent[t], run.sent[reflect.PointerTo(t)] = name, name
		}
	}
	m.live.Store(run)
	return nil
}

// Close ends the contexts of all handlers, drops what waits, and blocks until
// no handler runs; then another node may start with the Mux. When ctx ends
// first, the error names those that still run, and the Mux is of no more use.
func (m *Mux) Close(ctx context.Context) error {
	run := m.live.Load()
	if run == nil {
		return nil
	}
	run.end(ErrClosed)
	idle := make(chan struct{})
	go func() { m.work.Wait(); close(idle) }()
	select {
	case <-idle:
		m.live.Store(nil)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("receiver: handlers go on although their context ended: %s",
			strings.Join(m.running(), ", "))
	}
}

// end lets nothing more be queued.
func (run *live) end(cause error) {
	for _, r := range run.types {
		r.mu.Lock() // so that who is adding an event has added it, and its worker
		defer r.mu.Unlock()
	}
	for _, r := range run.streams {
		r.mu.Lock() // so that no handler begins
		defer r.mu.Unlock()
	}
	run.cancel(cause)
}

func (run *live) ended() bool {
	select {
	case <-run.ctx.Done():
		return true
	default:
		return false
	}
}

// running names the types that have a lane at work, and the streams.
func (m *Mux) running() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, r := range m.types {
		r.mu.Lock()
		if len(r.lanes) > 0 {
			names = append(names, r.name)
		}
		r.mu.Unlock()
	}
	for _, r := range m.streams {
		r.mu.Lock()
		if r.running > 0 {
			names = append(names, "stream "+r.name)
		}
		r.mu.Unlock()
	}
	slices.Sort(names)
	return names
}
