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
	// maxNameBytes bounds the name of an event type.
	maxNameBytes = 128
	// QueueLength is how many events of one sender and type wait at most,
	// unless Queue says otherwise.
	QueueLength = 128
	// QueueBytes bounds their payloads together, as they travelled. A larger
	// one may wait alone.
	QueueBytes = 1 << 20
	// RequestConcurrency is how many requests of one type are handled at once,
	// unless Concurrency says otherwise.
	RequestConcurrency = 64
)

// Raw is an event that was not decoded. A Raw that is sent goes out as it is.
type Raw struct {
	Name    string
	Payload []byte // in the encoding of the cluster, msgpack unless WithCodec says otherwise
}

// route is one event type with its handlers and lanes.
type route struct {
	name     string
	named    bool                                    // by Named
	decode   func(codec Codec, raw Raw) (any, error) // gives a pointer to the event
	point    func(event any) any                     // from an event to a pointer to it
	handlers []handler
	// answer is of HandleRequest, and then the only handler of the type.
	answer func(ctx context.Context, from member.Member, event any) (any, error)

	policy      Policy
	queue       int // events of one sender that wait at most
	concurrency int // handlers at once, 0 for one of each sender
	slots       chan struct{}

	mu    sync.Mutex
	lanes map[member.Address]*lane
	idle  []*lane
	count counters
}

// handler is one function of the application. Events come as pointers.
type handler struct {
	match func(from member.Member, event any) bool // nil for every event
	run   func(ctx context.Context, from member.Member, event any) error
}

// counters are those of Stats.
type counters struct {
	handled, failed, panicked, malformed, dropped, rejected atomic.Uint64
	took                                                    histogram.Histogram
}

// Option changes how one event type is treated, whatever handler it is given with.
type Option func(*Mux, *route)

// Named fixes the name under which the type travels, in place of the type's
// own, so that a type may be renamed while older members still run.
func Named(name string) Option {
	return func(m *Mux, r *route) {
		if r.named && r.name != name {
			m.fault("one type is named %q and %q", r.name, name)
		}
		r.name, r.named = name, true
	}
}

// Policy is what becomes of an event whose queue is full.
type Policy uint8

// The policies.
const (
	// Block holds the sender up: its connection is read no further, and in the
	// end its Send blocks. Nothing is lost. Its other events, and its requests, wait
	// behind; answers, streams and heartbeats pass. Types that may pile up beside
	// requests are better dropped or rejected.
	Block Policy = iota
	// Drop makes room by dropping the oldest events that wait, for types of
	// which only the newest matter. A sender that waits for the outcome of an
	// old one gets ErrBusy. Counted in Stats, not logged, as is Reject.
	Drop
	// Reject drops the new event. A sender that waits for its outcome gets ErrBusy.
	Reject
)

// Queue bounds how many events of the type wait from one sender, at least 1, and
// says what happens then, also to requests. Default: QueueLength and Block. QueueBytes
// holds as well. The last one given for a type counts.
func Queue(length int, policy Policy) Option {
	return func(m *Mux, r *route) {
		if length < 1 || policy > Reject {
			m.fault("queue of %s: length %d and policy %d, want at least 1 and Block, Drop or Reject",
				r.name, length, policy)
			return
		}
		r.queue, r.policy = length, policy
	}
}

// Concurrency bounds how many handlers of the type run at once, over all senders,
// at least 1. Events of one sender still run one after the other; requests run
// side by side. Default: one for each sender, and RequestConcurrency for requests.
func Concurrency(handlers int) Option {
	return func(m *Mux, r *route) {
		if handlers < 1 {
			m.fault("concurrency of %s: %d handlers, want at least 1", r.name, handlers)
			return
		}
		r.concurrency = handlers
	}
}

// Handle adds fn as a handler of events of type T, a named type. Its exported fields
// travel, by msgpack unless WithCodec says otherwise, under their names or the tag
// `msgpack:"name"`; what the other side does not know is skipped, and what is missing
// stays zero. The package of T is no part of its name: two programs of one cluster
// that have different types of one name use Named. Under msgpack, a T with
// AppendBinary on the value and UnmarshalBinary on the pointer
// (encoding.BinaryAppender and BinaryUnmarshaler) travels as those say, which spares
// small events the reflection. The context ends
// when the node closes; a handler that goes on after that holds up Close. An error is
// counted, and goes to the sender if that waits for the outcome, else to the log of
// the node; it changes nothing else. Handlers of one type share the event: none may
// change what it points to. Metadata tells what else came with the event.
//
// All handlers of an event run, in the order in which they were added. A handler
// of Raw is the default: it takes the events that no other handler takes, which are
// handled then.
//
// A handler may run before the Start of its node has returned. It has the node from
// cluster.FromContext, to send an event to from.Address for example.
//
// An event that no handler takes, or that does not decode into T, is dropped and
// counted. A sender that waits for the outcome is told; the receiving node warns in
// its log, once for each name and sender.
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
	add(mux, nil, fn, opts)
}

// HandleMatch is Handle for those events of type T that match reports true for.
// match runs with the handlers and must not block. Where T is Raw it is asked
// about every event, those of types that have handlers of their own included, so
// that one handler can see all names of a kind.
func HandleMatch[T any](
	mux *Mux, match func(from member.Member, event T) bool,
	fn func(ctx context.Context, from member.Member, event T) error, opts ...Option,
) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if match == nil {
		mux.fault("match of a handler of %v is nil", reflect.TypeFor[T]())
		return
	}
	add(mux, func(from member.Member, event any) bool { return match(from, *event.(*T)) }, fn, opts)
}

// add adds a handler. The Mux is locked.
func add[T any](
	mux *Mux, match func(member.Member, any) bool,
	fn func(ctx context.Context, from member.Member, event T) error, opts []Option,
) {
	r := register[T](mux, opts)
	switch {
	case fn == nil:
		mux.fault("handler of %s is nil", r.name)
	case r.answer != nil:
		mux.fault("%s has a handler of requests: that is the only one", r.name)
	default:
		r.handlers = append(r.handlers, handler{match,
			func(ctx context.Context, from member.Member, event any) error {
				return fn(ctx, from, *event.(*T))
			}})
	}
}

// HandleRequest makes fn answer requests of type Req, which have no other
// handler. Requests of one sender run side by side, and in no order; see
// Concurrency. The context ends with the deadline that the asking side gave (its
// error is context.DeadlineExceeded, or context.Canceled where the asking side's own
// clock was first), when it asks no longer, when its connection is lost, and when the
// node closes.
// An error goes back as its text. Of an event of the type, one that is sent and
// not asked, the answer is dropped.
func HandleRequest[Req, Resp any](
	mux *Mux, fn func(ctx context.Context, from member.Member, req Req) (Resp, error), opts ...Option,
) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	r := register[Req](mux, opts)
	switch {
	case fn == nil:
		mux.fault("handler of %s is nil", r.name)
	case r.answer != nil || len(r.handlers) > 0 || reflect.TypeFor[Req]() == reflect.TypeFor[Raw]():
		mux.fault("requests of %s: one handler answers, and no other may be there", r.name)
	default:
		r.answer = func(ctx context.Context, from member.Member, event any) (any, error) {
			return fn(ctx, from, *event.(*Req))
		}
	}
}

// Register fixes the options of a type that this node sends and does not handle.
func Register[T any](mux *Mux, opts ...Option) {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	register[T](mux, opts)
}

func register[T any](mux *Mux, opts []Option) *route {
	t := reflect.TypeFor[T]()
	if mux.live.Load() != nil {
		panic(fmt.Sprintf("receiver: %v is registered while a node has the Mux", t))
	}
	r := mux.types[t]
	if r == nil {
		r = &route{
			name:   t.Name(),
			decode: decode[T],
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
		mux.fault("%v: register the type itself, not a pointer to it", t)
	case t.Kind() == reflect.Interface:
		mux.fault("%v is an interface: register the types of its values", t)
	case r.name == "":
		mux.fault("%v has no name to travel under: declare a type", t)
	case !validName(r.name):
		mux.fault("%v: name %q must have 1 to %d printable characters", t, r.name, maxNameBytes)
	}
	return r
}

// decode reads a payload that was scanned.
func decode[T any](codec Codec, raw Raw) (any, error) {
	event := new(T)
	if r, ok := any(event).(*Raw); ok {
		*r = raw
		return event, nil
	}
	return event, codec.Unmarshal(raw.Payload, event)
}

func (m *Mux) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Errorf("receiver: "+format, args...))
}

func validName(name string) bool {
	return name != "" && len(name) <= maxNameBytes && member.IsPrintable(name)
}
