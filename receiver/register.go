// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

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
	// RequestConcurrency is the default limit of concurrently handled requests of one type;
	// see Concurrency.
	RequestConcurrency = 64
)

// Raw is an event in encoded form. A Raw is sent unchanged.
type Raw struct {
	Name    string
	Payload []byte // encoded with the codec of the cluster, by default msgpack
}

// route is an event type with its handlers and lanes.
type route struct {
	name     string
	named    bool                                    // by Named
	decode   func(codec Codec, raw Raw) (any, error) // returns a pointer to the event
	point    func(event any) any                     // returns a pointer to a copy of the event
	handlers []handler
	answers  bool // the only handler was added by HandleRequest

	policy      Policy
	queue       int // limit of waiting events per sender
	concurrency int // limit of running handlers; 0 means one for each sender
	slots       chan struct{}

	mu    sync.Mutex
	lanes map[member.Address]*lane
	last  *lane // the lane of the last event, which the next one probably needs too; may be nil
	idle  []*lane
	count counters
}

// handler is a function of the application. Its argument is a pointer to the event.
type handler struct {
	match func(from member.Member, event any) bool // nil matches every event
	run   func(ctx context.Context, from member.Member, event any) (answer any, err error)
}

// counters holds the counters of Stats.
type counters struct {
	handled, failed, panicked, malformed, dropped, rejected atomic.Uint64
	took                                                    histogram.Histogram
}

// Option configures an event type. It applies to all handlers of the type.
type Option func(*Mux, *route)

// Named sets the name under which the type is sent, instead of the name of the Go type.
// With it, a type can be renamed while members with the old name are running.
func Named(name string) Option {
	return func(m *Mux, r *route) {
		if r.named && r.name != name {
			m.addFault("one type is named %q and %q", r.name, name)
		}
		r.name, r.named = name, true
	}
}

// Policy selects what happens to an event if its queue is full.
type Policy uint8

// The policies.
const (
	// Block blocks the sender: the node stops reading events and requests of this sender, whose Send
	// eventually blocks. No event is lost; answers, streams and heartbeats still pass. Prefer another
	// policy for types whose events may delay requests.
	Block Policy = iota
	// Drop drops the oldest waiting events. It is for types whose older events become obsolete. A
	// sender that waits for the outcome of a dropped event gets ErrBusy. Events dropped by Drop or
	// Reject are counted in Stats and not logged.
	Drop
	// Reject drops the new event. A sender that waits for its outcome gets ErrBusy.
	Reject
)

// Queue sets how many events or requests of the type may wait per sender, at least 1, and what
// happens when more arrive. The default is QueueLength and Block. The limit QueueBytes always
// applies. If the option is given repeatedly, the last option counts.
func Queue(length int, policy Policy) Option {
	return func(m *Mux, r *route) {
		if length < 1 || policy > Reject {
			m.addFault("queue of %s: length %d and policy %d, "+
				"want a length of at least 1 and Block, Drop or Reject",
				r.name, length, policy)
			return
		}
		r.queue, r.policy = length, policy
	}
}

// Concurrency limits how many handlers of the type run concurrently for all senders together. The
// limit is at least 1. Events of one sender still run one after the other; requests run
// concurrently. The default is one per sender for events, and RequestConcurrency for requests.
func Concurrency(handlers int) Option {
	return func(m *Mux, r *route) {
		if handlers < 1 {
			m.addFault("concurrency of %s: %d handlers, want at least 1", r.name, handlers)
			return
		}
		r.concurrency = handlers
	}
}

// Handle adds fn as a handler of events of type T, which must be a named type. All handlers
// of a type run for each of its events, in the order in which they were added. A handler of
// Raw gets only events that no other handler takes.
//
// The exported fields of T are sent under their names, or under the tag `msgpack:"name"`. The
// encoding is msgpack, unless WithCodec replaces it. Unknown fields are ignored and missing fields
// are zero. Under msgpack, if T has AppendBinary on the value and UnmarshalBinary on the pointer
// (encoding.BinaryAppender, encoding.BinaryUnmarshaler), these methods encode and decode it,
// without reflection. The name of T does not include its package: if two programs of a cluster have
// different types with the same name, rename one with Named.
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
// The Start of the node reports mistakes, such as two types with the same name. Handle panics while
// a node uses the Mux.
func Handle[T any](
	mux *Mux, fn func(ctx context.Context, from member.Member, event T) error, opts ...Option,
) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	addHandler(mux, nil, fn, opts)
}

// HandleMatch is like Handle, but only for the events for which the function match returns true. It
// runs with the handlers and must not block. If T is Raw, match is called for every event, even if
// the type of that event has handlers. So one handler can get all events of several names.
func HandleMatch[T any](
	mux *Mux, match func(from member.Member, event T) bool,
	fn func(ctx context.Context, from member.Member, event T) error, opts ...Option,
) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if match == nil {
		mux.addFault("the match function of a handler of %v is nil", reflect.TypeFor[T]())
		return
	}
	matches := func(from member.Member, event any) bool { return match(from, *event.(*T)) }
	addHandler(mux, matches, fn, opts)
}

// addHandler adds a handler. mux.mu must be held.
func addHandler[T any](
	mux *Mux, match func(member.Member, any) bool,
	fn func(ctx context.Context, from member.Member, event T) error, opts []Option,
) {
	r := registerType[T](mux, opts)
	switch {
	case fn == nil:
		mux.addFault("the handler of %s is nil", r.name)
	case r.answers:
		mux.addFault("%s has a handler of requests, so it can have no other handler", r.name)
	default:
		r.handlers = append(r.handlers, handler{match,
			func(ctx context.Context, from member.Member, event any) (any, error) {
				return nil, fn(ctx, from, *event.(*T))
			}})
	}
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
) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	r := registerType[Req](mux, opts)
	switch {
	case fn == nil:
		mux.addFault("the handler of %s is nil", r.name)
	case len(r.handlers) > 0 || reflect.TypeFor[Req]() == reflect.TypeFor[Raw]():
		mux.addFault("%s cannot have a handler of requests beside other handlers", r.name)
	default:
		r.answers = true
		r.handlers = []handler{{nil, func(
			ctx context.Context, from member.Member, event any,
		) (any, error) {
			return fn(ctx, from, *event.(*Req))
		}}}
	}
}

// Register sets the options of a type that this node sends but does not handle.
func Register[T any](mux *Mux, opts ...Option) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	registerType[T](mux, opts)
}

func registerType[T any](mux *Mux, opts []Option) *route {
	t := reflect.TypeFor[T]()
	if mux.live.Load() != nil {
		panic(fmt.Sprintf("receiver: cannot register %v while a node uses the Mux", t))
	}
	r := mux.types[t]
	if r == nil {
		r = &route{
			name:   t.Name(),
			decode: decodeAs[T],
			point:  func(event any) any { e := event.(T); return &e },
			queue:  QueueLength,
			lanes:  map[member.Address]*lane{},
		}
		mux.types[t] = r
	}
	for _, opt := range opts {
		opt(mux, r)
	}
	switch {
	case t.Kind() == reflect.Pointer:
		mux.addFault("%v: register the type itself, not a pointer to it", t)
	case t.Kind() == reflect.Interface:
		mux.addFault("%v is an interface: register the types of its values", t)
	case r.name == "":
		mux.addFault("%v has no name: declare a named type", t)
	case !validName(r.name):
		mux.addFault("%v: name %q must have 1 to %d printable characters", t, r.name, maxNameBytes)
	}
	return r
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
