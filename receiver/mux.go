// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/athena-go/athena/member"
)

// MaxNameBytes bounds the name of an event type.
const MaxNameBytes = 128

// Raw is an event that was not decoded. A handler of Raw takes every event
// whose name no other handler has; a Raw that is sent goes out as it is.
type Raw struct {
	Name    string
	Payload []byte // in the encoding of the cluster, msgpack
}

// Mux routes events to handlers. Handlers are added before the Mux is given to
// a node; a Mux serves one node at a time.
type Mux struct {
	mu     sync.Mutex
	types  map[reflect.Type]*route
	names  map[string]*route // what may come from other members; made by Start
	faults []error           // of registration, told by Start
	setup  Setup
	run    context.Context // of the handlers; nil while no node has the Mux
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // one a lane that holds anything
	// unknown counts events that no handler took.
	unknown uint64
}

// route is one event type with its handlers and lanes.
type route struct {
	name     string
	decode   func(raw Raw) (any, error)
	handlers []func(ctx context.Context, from member.Member, event any) error
	lanes    map[member.Address]*lane
	stats    Stats
}

// NewMux returns a Mux without handlers.
func NewMux() *Mux { return &Mux{types: map[reflect.Type]*route{}} }

// Option changes how one event type is treated.
type Option func(*route)

// Named fixes the name under which the type travels, in place of the type's
// own, so that a type may be renamed while older members still run.
func Named(name string) Option { return func(r *route) { r.name = name } }

// Handle adds fn as a handler of events of type T. The context ends when the
// node closes; a handler that goes on after that holds up Close. An error is
// reported and counted, and changes nothing else. Handlers of one type share
// the event: none may change what it points to.
//
// A handler may run before the Start of its node has returned. One that needs the
// node, to answer from.Address for example, must not take it from a variable that
// is set after Start: that is a data race, and nil at first. cluster.WithListening
// hands the node over in time; its example is a handler that answers.
//
// An event that arrives where nothing handles its name, nor Raw, is dropped and
// counted. Its sender is not told; the receiving node warns in its log, once for
// each name and sender.
//
// What decoding may allocate grows with T. Each value of an event, one byte of it
// may do, can become a whole element of a slice in T: with cluster.MaxEventValues
// at most 64 MiB for elements of up to 256 bytes, and more in proportion for
// larger ones. Methods by which T decodes itself must keep limits of their own.
//
// A mistake, such as two types of one name, is reported by the Start of the
// node; while a node has the Mux, Handle panics.
func Handle[T any](
	mux *Mux, fn func(ctx context.Context, from member.Member, event T) error, opts ...Option,
) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	r := register[T](mux, opts)
	if fn == nil {
		mux.fault("handler of %s is nil", r.name)
		return
	}
	r.handlers = append(r.handlers, func(ctx context.Context, from member.Member, event any) error {
		return fn(ctx, from, event.(T))
	})
}

// Register fixes the options of a type that this node sends and does not handle.
func Register[T any](mux *Mux, opts ...Option) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	register[T](mux, opts)
}

func register[T any](mux *Mux, opts []Option) *route {
	t := reflect.TypeFor[T]()
	if mux.run != nil {
		panic(fmt.Sprintf("receiver: %v is registered while a node has the Mux", t))
	}
	r := mux.types[t]
	if r == nil {
		r = &route{name: t.Name(), decode: decode[T], lanes: map[member.Address]*lane{}}
		mux.types[t] = r
	}
	for _, opt := range opts {
		opt(r)
	}
	switch {
	case t.Kind() == reflect.Pointer:
		mux.fault("%v: register the type itself, not a pointer to it", t)
	case !validName(r.name):
		mux.fault("%v: name %q must have 1 to %d printable characters", t, r.name, MaxNameBytes)
	}
	return r
}

func (m *Mux) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Errorf("receiver: "+format, args...))
}

func validName(name string) bool {
	return name != "" && len(name) <= MaxNameBytes && member.IsPrintable(name)
}

// decode reads a payload that was scanned.
func decode[T any](raw Raw) (any, error) {
	var event T
	if r, ok := any(&event).(*Raw); ok {
		*r = raw
		return event, nil
	}
	err := msgpack.Unmarshal(raw.Payload, &event)
	return event, err
}

// Setup is what the node gives to its Mux.
type Setup struct {
	// Scan checks a payload before it is decoded or sent. It must not be left
	// out: the decoder allocates what a length promises and recurses as deep
	// as the bytes say. It is given because it lives beside the codec of
	// frames, on the same floor as this package.
	Scan func(payload []byte) error
	// Local lists types that only the own node emits; they have no name that
	// another member could send.
	Local []reflect.Type
	// Report hears of each handler that failed. It is called from the
	// goroutines of handlers and must not block.
	Report func(Failure)
}

// Failure is a handler's error. Err is a *PanicError when it panicked.
type Failure struct {
	Event string // name of the type
	From  member.Member
	Err   error
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
	if m.run != nil {
		faults = append(faults, errors.New("receiver: another node has the Mux; make one for each"))
	}
	names := map[string]*route{}
	for t, r := range m.types {
		if t == reflect.TypeFor[Raw]() || slices.Contains(local, t) {
			continue
		}
		if names[r.name] != nil {
			faults = append(faults, fmt.Errorf(
				"receiver: two types are named %q: rename %v by Named", r.name, t))
		}
		names[r.name] = r
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
	m.names, m.setup = names, setup
	m.run, m.cancel = context.WithCancelCause(context.Background())
	return nil
}

// Close ends the contexts of all handlers, drops what waits, and blocks until
// no handler runs; then another node may start with the Mux. When ctx ends
// first, the error names those that still run, and the Mux is of no more use.
func (m *Mux) Close(ctx context.Context) error {
	m.mu.Lock()
	if m.run == nil {
		m.mu.Unlock()
		return nil
	}
	m.cancel(ErrClosed)
	m.mu.Unlock()
	idle := make(chan struct{})
	go func() { m.work.Wait(); close(idle) }()
	select {
	case <-idle:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.run, m.names = nil, nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("receiver: handlers go on although their context ended: %s",
			strings.Join(m.running(), ", "))
	}
}

// running names the types that have a lane at work.
func (m *Mux) running() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, r := range m.types {
		if len(r.lanes) > 0 {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}

// ErrUnsendable says that a value cannot travel: its type has no name of its
// own, only the own node emits it, another type has its name here, or it has no
// encoding that every receiver takes.
var ErrUnsendable = errors.New("receiver: event cannot be sent")

// Encode makes what travels of an event, a value of a named type or a pointer
// to one. A Raw is taken as it is. Errors wrap ErrUnsendable.
func (m *Mux) Encode(event any) (Raw, error) {
	raw, ok := event.(Raw)
	if !ok {
		var err error
		if raw.Name, err = m.nameOf(reflect.TypeOf(event)); err != nil {
			return Raw{}, err
		}
		if raw.Payload, err = msgpack.Marshal(event); err != nil {
			return Raw{}, fmt.Errorf("%w: %T: %w", ErrUnsendable, event, err)
		}
	}
	// What a receiver would refuse is better told here.
	if err := m.scan(raw.Payload); err != nil {
		return Raw{}, fmt.Errorf("%w: %T: %w", ErrUnsendable, event, err)
	}
	return raw, nil
}

// scan looks at a payload as its receiver will.
func (m *Mux) scan(payload []byte) error {
	m.mu.Lock()
	scan := m.setup.Scan
	m.mu.Unlock()
	if scan == nil {
		return ErrClosed
	}
	return scan(payload)
}

func (m *Mux) nameOf(t reflect.Type) (string, error) {
	if t == nil {
		return "", fmt.Errorf("%w: it is nil", ErrUnsendable)
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := t.Name()
	r := m.types[t]
	if r != nil {
		name = r.name
	}
	other := m.names[name]
	switch {
	case slices.Contains(m.setup.Local, t):
		return "", fmt.Errorf("%w: only a node itself emits %v", ErrUnsendable, t)
	case !validName(name):
		return "", fmt.Errorf("%w: %v has no name to travel under: declare a type", ErrUnsendable, t)
	case other != nil && other != r:
		return "", fmt.Errorf("%w: the name of %v, %q, belongs to another type: Register it with "+
			"another name", ErrUnsendable, t, name)
	}
	return name, nil
}
