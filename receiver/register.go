// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/histogram"
	"github.com/athena-go/athena/member"
)

const (
	// maxNameBytes is the maximum length of the name of an event or a stream.
	maxNameBytes = 128
	// QueueLength is the default limit of waiting events per sender and type; see Queue.
	QueueLength = 128
	// QueueBytes limits the total size of the encoded payloads of the events in one queue. A larger
	// event may wait if no other event is waiting.
	QueueBytes = 1 << 20
	// RequestConcurrency is the default limit of concurrently handled requests of one type, without
	// those that handlers send; 6 more of these are handled. See Concurrency.
	RequestConcurrency = 64
)

// Raw is an event in encoded form. A Raw is sent unchanged.
type Raw struct {
	Name    string
	Payload []byte // encoded with the codec of the cluster, by default msgpack
}

// route is an event type with its handlers and lanes.
type route struct {
	settings
	decode func(codec Codec, raw Raw) (any, error) // returns a pointer to the event
	point  func(event any) any                     // returns a pointer to a copy of the event
	typ    reflect.Type
	isRaw  bool // typ is Raw
	kind   kind
	slots  *slots   // nil if the number of running handlers has no limit
	places []*place // of the handlers, in order; guarded by Mux.mu
	// dispatch holds the places to which events are passed. It is replaced, never changed.
	dispatch atomic.Pointer[dispatch]

	mu    sync.Mutex
	lanes map[laneKey]*lane
	last  *lane // the lane of the last event, which the next one probably needs too; may be nil
	idle  []*lane
	count counters
	// idleWorkers are those of requests, whose lanes have a worker for each.
	idleWorkers []*worker

	reported time.Time // when a slow handler was last reported; zero before the first time
}

// settings holds the options of an event type or of the streams of a name.
type settings struct {
	name        string
	named       bool // by Named
	policy      Policy
	queue       int           // limit of waiting events per sender
	concurrency int           // limit of running handlers; 0 means one for each sender
	replaced    *Registration // set by Replacing, for one registration only
}

// kind is what the handlers of a type handle. It never changes after the first handler.
type kind uint8

const (
	ofNothing kind = iota // no handler was added yet
	ofEvents
	ofRequests
	ofStreams
)

// counters holds the counters of Stats.
type counters struct {
	handled, failed, panicked, malformed, dropped, rejected atomic.Uint64
	took                                                    histogram.Histogram
}

// Option configures an event type. It applies to all handlers of the type. While a node uses the
// Mux, an option has effect only if it is given when the type is first registered; giving the same
// options again is allowed.
type Option func(*Mux, *settings)

// Named sets the name under which the type is sent, instead of the name of the Go type.
// With it, a type can be renamed while members with the old name are running. Names that begin with
// "athena." or "athena/" are reserved for Athena.
func Named(name string) Option {
	return func(m *Mux, s *settings) {
		if s.named && s.name != name {
			m.addFault("one type is named %q and %q", s.name, name)
		}
		s.name, s.named = name, true
	}
}

// Policy selects what happens to an event if its queue is full.
type Policy uint8

// The policies.
const (
	// Block blocks the sender: the node stops reading events, or requests, of this sender, whose Send
	// eventually blocks. No event is lost; all else still passes. Requests of handlers are rejected
	// instead, because handlers could otherwise wait for each other.
	Block Policy = iota
	// Drop drops the oldest waiting events. It is for types whose older events become obsolete. A
	// sender that waits for the outcome of a dropped event gets ErrBusy. Events dropped by Drop or
	// Reject are counted in Stats and not logged.
	Drop
	// Reject drops the new event. A sender that waits for its outcome gets ErrBusy.
	Reject
)

// Queue sets how many events or requests of the type may wait per sender and Depth, at least 1, and
// what happens when more arrive. The default is QueueLength and Block. The limit QueueBytes always
// applies. If the option is given repeatedly, the last option counts.
func Queue(length int, policy Policy) Option {
	return func(m *Mux, s *settings) {
		if length < 1 || policy > Reject {
			m.addFault("queue of %s: length %d and policy %d, "+
				"want a length of at least 1 and Block, Drop or Reject",
				s.name, length, policy)
			return
		}
		s.queue, s.policy = length, policy
	}
}

// Concurrency limits how many handlers of the type run concurrently for all senders together. The
// limit is at least 1. Events of one sender still run one after the other; requests run
// concurrently. The default is one per sender for events, and RequestConcurrency for requests.
// Three of 32 are kept for what handlers send. A request gets ErrBusy if no handler returns for 5
// s.
func Concurrency(handlers int) Option {
	return func(m *Mux, s *settings) {
		if handlers < 1 {
			m.addFault("concurrency of %s: %d handlers, want at least 1", s.name, handlers)
			return
		}
		s.concurrency = handlers
	}
}

// Handle adds fn as a handler of events of type T, which must be a named type. All handlers
// of a type run for each of its events, in the order in which they were added. A handler of
// Raw gets only events that no other handler takes.
//
// If T is an interface, fn gets the events of all registered types that implement T, except events
// that a handler of the type itself takes (see Register). All such handlers run, in the order in
// which they were added, before those of Raw. The event is a value of the registered type, or a
// pointer to it if only the pointer implements T. A handler of an interface gets no requests, and
// its only option is Replacing.
//
// The exported fields of T are sent under their names, or under the tag `msgpack:"name"`. The
// encoding is msgpack, unless WithCodec replaces it. Unknown fields are ignored and missing fields
// are zero. Under msgpack, an event is malformed if a value does not fit into its field, such as a
// number that the type of the field cannot hold exactly. If T has AppendBinary on the value and
// UnmarshalBinary on the pointer (encoding.BinaryAppender, encoding.BinaryUnmarshaler), these
// methods encode and decode it, without reflection.
//
// The name of T does not include its package: if two programs of a cluster have different types
// with the same name, rename one with Named. A generic type needs Named if its name would include
// the package of an argument.
//
// The context is canceled when the node closes; Close waits for fn. fn may run before the Start of
// its node has returned. cluster.FromContext returns the node, for example to reply to
// from.Address; Metadata returns the metadata of the event. All handlers share the event and must
// not change the data that it points to.
//
// An error of fn is counted. It is returned to a sender that waits for the outcome;
// otherwise the node logs it. An event that has no handler, or cannot be decoded into T, is dropped
// and counted. A sender that waits gets an error, and the node logs one warning for each name and
// sender.
//
// Decoding may allocate in proportion to the size of T: each byte of an event can become an element
// of a slice in T. With cluster.MaxEventValues, that is at most 64 MiB for elements of up to 256
// bytes, and proportionally more for larger elements. If T decodes itself, its methods must set
// their own limits.
//
// The Start of the node reports mistakes, such as two types with the same name, or a type whose
// values would arrive without some of their fields. While a node uses
// the Mux, Handle takes effect with the next event, and panics on a mistake, without effect.
func Handle[T any](
	mux *Mux, fn func(ctx context.Context, from member.Member, event T) error, opts ...Option,
) *Registration {
	return addHandler(mux, nil, fn, opts)
}

// HandleMatch is like Handle, but only for the events for which the function match returns true. It
// runs with the handlers and must not block. If T is Raw, match is called for every event, even if
// the type of that event has handlers. So one handler can get all events of several names.
func HandleMatch[T any](
	mux *Mux, match func(from member.Member, event T) bool,
	fn func(ctx context.Context, from member.Member, event T) error, opts ...Option,
) *Registration {
	if match == nil {
		match = func(member.Member, T) bool { return false }
		opts = append(slices.Clone(opts), func(m *Mux, _ *settings) {
			m.addFault("the match function of a handler of %v is nil", reflect.TypeFor[T]())
		})
	}
	return addHandler(mux, match, fn, opts)
}

// addHandler adds a handler of events. match may be nil.
func addHandler[T any](
	mux *Mux, match func(from member.Member, event T) bool,
	fn func(ctx context.Context, from member.Member, event T) error, opts []Option,
) *Registration {
	h := &Registration{}
	if match != nil {
		h.match = func(from member.Member, event any) bool { return match(from, valueAs[T](event)) }
	}
	if fn != nil {
		h.run = func(ctx context.Context, from member.Member, event any) (any, error) {
			return nil, fn(ctx, from, valueAs[T](event))
		}
	}
	return mux.register(newRoute[T](), ofEvents, h, opts)
}

// valueAs returns the event behind a pointer as a T. T is the type of the event or an interface
// that the event implements.
func valueAs[T any](pointer any) T {
	if event, ok := pointer.(*T); ok {
		return *event
	}
	if event, ok := reflect.ValueOf(pointer).Elem().Interface().(T); ok {
		return event
	}
	return pointer.(T)
}

// HandleRequest makes fn the handler of requests of type Req, which must have no other handler.
// Requests are handled concurrently and in no particular order; see Concurrency.
//
// The context is canceled when the timeout of the sender expires, when the sender cancels the
// request or its connection is lost, and when the node closes. After a timeout the error of the
// context is context.DeadlineExceeded, or context.Canceled if the clock of the sender was faster.
//
// If fn returns an error, its text is sent back. If a Req is sent as an event rather than a
// request, fn runs and its answer is dropped.
func HandleRequest[Req, Resp any](
	mux *Mux, fn func(ctx context.Context, from member.Member, req Req) (Resp, error), opts ...Option,
) *Registration {
	h := &Registration{}
	if fn != nil {
		h.run = func(ctx context.Context, from member.Member, event any) (any, error) {
			return fn(ctx, from, *event.(*Req))
		}
	}
	if err := mux.checkFields(reflect.TypeFor[Resp]()); err != nil {
		opts = append(slices.Clone(opts), func(m *Mux, _ *settings) { m.addFault("answer: %w", err) })
	}
	return mux.register(newRoute[Req](), ofRequests, h, opts)
}

// Register sets the options of a type that this node sends, or that only handlers of interfaces
// handle.
func Register[T any](mux *Mux, opts ...Option) {
	mux.register(newRoute[T](), ofNothing, nil, opts)
}

func newRoute[T any]() *route {
	t := reflect.TypeFor[T]()
	r := &route{
		settings: settings{name: t.Name(), queue: QueueLength},
		decode:   decodeAs[T],
		point:    func(event any) any { e := event.(T); return &e },
		typ:      t,
		isRaw:    t == reflect.TypeFor[Raw](),
		lanes:    map[laneKey]*lane{},
	}
	r.dispatch.Store(&dispatch{})
	return r
}

// makeSlots prepares the limit of running handlers. No event of the route may be queued.
func (r *route) makeSlots() {
	limit := r.concurrency
	if limit == 0 && r.kind == ofRequests {
		limit = RequestConcurrency + RequestConcurrency/32*(MaxDepth-1)
	}
	if limit > 0 {
		r.slots = newSlots(limit)
	}
}

// decodeAs decodes a payload that has already been checked.
func decodeAs[T any](codec Codec, raw Raw) (any, error) {
	event := new(T)
	if r, ok := any(event).(*Raw); ok {
		*r = raw
		return event, nil
	}
	return event, codec.Unmarshal(raw.Payload, event)
}

func (m *Mux) addFault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Errorf("receiver: "+format, args...))
}

func validName(name string) bool {
	return name != "" && len(name) <= maxNameBytes && member.IsPrintable(name)
}
