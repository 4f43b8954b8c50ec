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

// Mux routes events to handlers, which can change at any time. A Mux serves one node at a time. Its
// methods may be called concurrently.
type Mux struct {
	codec        Codec
	ownCodec     bool // set by WithCodec
	interceptors []Interceptor

	mu         sync.Mutex
	types      map[reflect.Type]*route
	streams    map[string]*streamRoute // by name
	interfaces route                   // holds the handlers of interface types
	faults     []error                 // errors of registration, which Start returns

	live    atomic.Pointer[muxRun] // nil while no node uses the Mux
	work    sync.WaitGroup         // goroutines of handlers
	unknown atomic.Uint64          // events without a handler
}

// muxRun is the state of a Mux while a node uses it.
type muxRun struct {
	setup  Setup
	table  atomic.Pointer[routeTable]
	ctx    context.Context // the parent of contexts
	cancel context.CancelCauseFunc
	// contexts are those of the handlers of deliveries of each depth.
	contexts [MaxDepth + 1]context.Context
	calls    callTable
}

// routeTable holds all routes. It never changes, so that events are routed without a lock: a
// registration of a new type or stream replaces the table.
type routeTable struct {
	types   map[reflect.Type]*route
	names   map[string]*route // routes of events that other members may send
	streams map[string]*streamRoute
	raw     *route   // the route of Raw, or nil
	sent    sync.Map // names of the types that were sent
}

// MuxOption configures a Mux.
type MuxOption func(*Mux)

// NewMux returns a Mux without handlers. Its codec is msgpack unless WithCodec replaces it.
func NewMux(opts ...MuxOption) *Mux {
	m := &Mux{
		codec: msgpackCodec{&sync.Map{}}, types: map[reflect.Type]*route{},
		streams: map[string]*streamRoute{},
	}
	for _, opt := range opts {
		opt(m)
	}
	return m
}

// Setup holds the parameters that a node passes to its Mux.
type Setup struct {
	// Scan checks a msgpack payload before it is decoded or sent. It is required, because the decoder
	// allocates as much as a length field claims, and recurses as deeply as values are nested.
	Scan func(payload []byte) error
	// Local lists types that only the local node emits. Other members cannot send them.
	Local []reflect.Type
	// Report is called for each failure of a handler, and for each event without a handler
	// (ErrUnknown). Goroutines of handlers call it concurrently; it must not block.
	Report func(Failure)
	// ReportSlow is called about slow handlers, at most once a minute for each type of event, and at
	// growing intervals for one handler; it may block. If it is nil, no handler is reported as slow.
	ReportSlow func(SlowHandler)
	// Context is the parent of the contexts of all handlers; nil means
	// context.Background().
	Context context.Context
}

// Failure is an error of a handler. Err is a *PanicError if the handler panicked.
type Failure struct {
	Event  string // name of the type, or of the stream
	Stream bool   // the handler handles streams
	From   member.Member
	Err    error
	Told   bool // the sender is waiting for the outcome and gets the error
}

// PanicError is a panic of a handler.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns a text with the value of the panic, without the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("receiver: handler panicked: %v", e.Value)
}

// HandlerError means that the handler of the addressed member, which may be the local one,
// returned an error or panicked, or that an Interceptor there refused the call. It is returned by
// requests, by sends with cluster.WithOutcome, and by streams that were refused.
type HandlerError struct {
	Member member.Address // the member whose handler failed
	Text   string         // text of the error; may contain anything
}

// Error returns one short line. The field Text contains the whole text.
func (e *HandlerError) Error() string {
	return fmt.Sprintf("cluster: the handler of %s failed: %s", e.Member, safetext.PeerText(e.Text))
}

// ErrClosed means that no node uses the Mux: its node has not started yet or was closed.
var ErrClosed = errors.New("receiver: closed")

// Validate returns all registration mistakes, joined. local is Setup.Local.
func (m *Mux) Validate(local []reflect.Type) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.compileUnused(local)
	return err
}

// compileUnused is like compileTable, but fails if a node uses the Mux.
func (m *Mux) compileUnused(local []reflect.Type) (*routeTable, error) {
	table, err := m.compileTable(local)
	if m.live.Load() != nil {
		err = errors.Join(
			errors.New("receiver: another node already uses this Mux: create a Mux for each node"), err)
	}
	return table, err
}

// compileTable returns the table of all routes, or the mistakes. m.mu must be held.
func (m *Mux) compileTable(local []reflect.Type) (*routeTable, error) {
	faults := slices.Clone(m.faults)
	if m.codec == nil {
		faults = append(faults, errors.New("receiver: WithCodec: the codec is nil"))
	}
	if slices.ContainsFunc(m.interceptors, func(i Interceptor) bool { return i == nil }) {
		faults = append(faults, errors.New("receiver: WithInterceptor: the interceptor is nil"))
	}
	names := map[string]*route{}
	for t, r := range m.types {
		if t == reflect.TypeFor[Raw]() || slices.Contains(local, t) {
			continue
		}
		if names[r.name] != nil && r.name != "" {
			faults = append(faults, fmt.Errorf(
				"receiver: two types are named %q: rename %v with Named", r.name, t))
		}
		names[r.name] = r
		if err := m.checkType(t); err != nil {
			faults = append(faults, fmt.Errorf("receiver: %w", err))
		}
	}
	return &routeTable{
		types: maps.Clone(m.types), names: names, streams: maps.Clone(m.streams),
		raw: m.types[reflect.TypeFor[Raw]()],
	}, errors.Join(faults...)
}

// Start lets the Mux accept events. It returns the errors of Validate.
func (m *Mux) Start(setup Setup) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	table, err := m.compileUnused(setup.Local)
	if err != nil {
		return err
	}
	run := &muxRun{setup: setup}
	run.table.Store(table)
	run.ctx, run.cancel = context.WithCancelCause(cmp.Or(setup.Context, context.Background()))
	run.contexts = handlerContexts(run.ctx)
	for _, r := range m.types {
		if r.kind == ofNothing && r.hasHandlers() {
			r.kind = ofEvents // the handlers of interfaces handle events
		}
		r.makeSlots()
	}
	m.live.Store(run)
	if setup.ReportSlow != nil {
		m.work.Go(func() { m.watchHandlers(run) })
	}
	return nil
}

// Close cancels the contexts of all handlers, drops queued events, and blocks until no
// handler is running; then another node may start with the Mux. If ctx is done first, the
// error names the handlers that are still running, and the Mux must not be used again.
func (m *Mux) Close(ctx context.Context) error {
	run := m.live.Load()
	if run == nil {
		return nil
	}
	m.endRun(run)
	idle := make(chan struct{})
	go func() { m.work.Wait(); close(idle) }()
	select {
	case <-idle:
		m.live.Store(nil)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("receiver: handlers have not returned after their contexts ended: %s",
			strings.Join(m.runningNames(), ", "))
	}
}

// endRun stops the queues.
func (m *Mux) endRun(run *muxRun) {
	m.mu.Lock() // wait until concurrent registrations have added their routes
	defer m.mu.Unlock()
	for _, r := range m.types {
		r.mu.Lock() // wait until concurrent enqueues have finished and started their workers
		defer r.mu.Unlock()
	}
	for _, r := range m.streams {
		r.mu.Lock() // wait until no handler can start
		defer r.mu.Unlock()
	}
	run.cancel(ErrClosed)
}

func (run *muxRun) isEnded() bool { return run.ctx.Err() != nil }

// runningNames returns the names of types and streams whose handlers are running.
func (m *Mux) runningNames() []string {
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
