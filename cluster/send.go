// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

const (
	// MaxEventBytes bounds an event with its name, as it travels: 1 MiB.
	MaxEventBytes = wire.DefaultEventBytes
	// MaxEventValues bounds the values of an event: numbers, strings, keys, lists
	// and so on; a []byte is one: 131,072. Decoding an event allocates at most about twice
	// this times the size of the largest element that its type has in a slice, in
	// a map or behind a pointer: 64 MiB for elements of 256 bytes.
	MaxEventValues = wire.MaxValues
	// MaxSending bounds the sends of a node that are under way at once.
	MaxSending = 1024
	// MaxMetadata bounds the entries of WithMetadata: 16.
	MaxMetadata = wire.MaxMetadata
	// MaxMetadataKey bounds a key of WithMetadata, in bytes: 128.
	MaxMetadataKey = wire.MaxMetadataKey
	// MaxMetadataValue bounds a value of WithMetadata, in bytes: 1,024.
	MaxMetadataValue = wire.MaxMetadataValue
)

// SendOption changes one Send, Broadcast, Request or OpenStream.
type SendOption func(*sending)

// sending is what the options of a call say.
type sending struct {
	self     bool
	results  *[]Result
	metadata map[string]string
	outcome  func(to member.Address, err error)

	bestEffort bool
}

func newSending(opts []SendOption) sending {
	if len(opts) == 0 {
		return sending{} // the common case, without an allocation
	}
	return applied(opts)
}

func applied(opts []SendOption) sending {
	var s sending
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// WithSelf delivers a Broadcast to this node's receiver too.
func WithSelf() SendOption { return func(s *sending) { s.self = true } }

// WithResults sets into to what became of a Broadcast at each member that was active
// when it began, in the order of their addresses, before Broadcast returns.
func WithResults(into *[]Result) SendOption { return func(s *sending) { s.results = into } }

// WithMetadata sends entries beside the event, such as the id of a trace; the
// handler reads them with receiver.Metadata. More than MaxMetadata entries, or
// longer ones than it names, are ErrTooLarge.
func WithMetadata(entries map[string]string) SendOption {
	return func(s *sending) { s.metadata = entries }
}

// WithOutcome has told is called once for each member that took the event, when it
// is known what became of it there: nil when its handlers have returned, else
// *HandlerError, ErrUnknownType, ErrBusy, ErrClosed, or ErrUnknownOutcome when the
// connection was lost meanwhile. So a sender learns of each event that is lost. It
// is not called where Send returned an error. A member that dies without a word is
// told of when its host says so, or when it is a member no more.
//
// told is called by goroutines of the node, perhaps by several at once, and must not
// block. Answers of one member are told in the order in which they come. At most
// MaxAwaited outcomes are awaited at once: Send blocks while there are that many.
func WithOutcome(told func(to member.Address, err error)) SendOption {
	return func(s *sending) { s.outcome = told }
}

// Send gives an event to one active member, which may be this node. It blocks
// while there is no connection to that member, for 5 s at most, and while its
// handlers are slow, until ctx ends. A nil error says that the connection took the
// event; it is delivered at most once, in the order sent. Errors: ErrNotActive,
// ErrNotDelivered, with the cause of ctx where that ended meanwhile, ErrTooLarge,
// ErrUnknownType, ErrBusy. A connection whose other end died counts as one for up to
// 5 s, unless its host refuses the port.
//
// A nil error does not say that anybody handles the event. A member without a
// handler for its name drops it and warns in its own log, once for each name and
// sender; it counts each as "no handler" in Status.Dropped. Who needs to know
// gives WithOutcome, or uses Request.
//
// A handler that sends has its node from WithListening, not from what Start
// returns: events come before that. The example shows how.
func (n *Node) Send(
	ctx context.Context, to member.Address, event any, opts ...SendOption,
) error {
	s := newSending(opts)
	e, err := n.encodeWith(event, s)
	if err != nil {
		return err
	}
	defer e.release()
	return n.send(ctx, n.look(), to, e, s)
}

// Broadcast gives an event to all active members but this one, side by side,
// and blocks until each took it or failed. When one failed, the error is a
// *BroadcastError with the result of each; WithResults tells them in any case, and
// with them how many outcomes WithOutcome will tell. See Send.
func (n *Node) Broadcast(ctx context.Context, event any, opts ...SendOption) error {
	s := newSending(opts)
	e, err := n.encodeWith(event, s)
	if err != nil {
		return err
	}
	defer e.release()
	seen := n.look()
	var results []Result
	for _, m := range seen.view.Members {
		if m.Status == member.Active && (m.Address != n.cfg.self || s.self) {
			results = append(results, Result{To: m})
		}
	}
	var sends sync.WaitGroup
	for i := range results {
		r := &results[i]
		if n.trySend(ctx, seen, r.To.Address, e, s) {
			continue
		}
		sends.Go(func() { r.Err = n.send(ctx, seen, r.To.Address, e, s) })
	}
	sends.Wait()
	if s.results != nil {
		*s.results = results
	}
	for _, r := range results {
		if r.Err != nil {
			return &BroadcastError{results}
		}
	}
	return nil
}

// outgoing is an event ready to send. Its memory is used again.
type outgoing struct {
	wire.Draft
	name     string
	metadata map[string]string
}

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func (e *outgoing) release() {
	if e.Cap() <= maxKeptBytes {
		outgoings.Put(e)
	}
}

// delivery is the event for the receiver of this node itself. The metadata is the
// caller's again when that has taken it.
func (e *outgoing) delivery(self *member.Member) receiver.Delivery {
	return receiver.Delivery{
		From:     self,
		Raw:      receiver.Raw{Name: e.name, Payload: e.Payload()},
		Metadata: maps.Clone(e.metadata),
	}
}

// encode makes one frame for all who get the event.
func (n *Node) encode(event any, metadata map[string]string) (*outgoing, error) {
	e := outgoings.Get().(*outgoing)
	e.metadata = metadata
	err := e.encode(n.mux, event)
	if err == nil {
		return e, nil
	}
	name := e.name
	e.release()
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return nil, fmt.Errorf("%w: %q: %w", ErrTooLarge, name, err)
	case errors.Is(err, receiver.ErrClosed):
		return nil, ErrClosed
	default:
		return nil, fmt.Errorf("%w: %w", ErrUnknownType, err)
	}
}

func (e *outgoing) encode(mux *receiver.Mux, event any) (err error) {
	if e.name, err = mux.Name(event); err != nil {
		return err
	}
	b, err := e.Begin(e.name)
	if err != nil {
		return err
	}
	if b, err = mux.Encode(b, event); err != nil {
		return err
	}
	return e.End(b, e.metadata, MaxEventBytes)
}

// send gives an encoded event to one member.
func (n *Node) send(
	ctx context.Context, seen *sight, to member.Address, e *outgoing, s sending,
) error {
	if s.bestEffort {
		return n.sendBestEffort(ctx, seen, to, e)
	}
	if err := n.maySend(ctx, seen, to); err != nil {
		return err
	}
	if s.outcome != nil {
		return n.sendAwaited(ctx, seen, to, e, s.outcome)
	}
	if n.meter.sending.Add(1) > MaxSending {
		n.meter.sending.Add(-1)
		return ErrBusy
	}
	defer n.meter.sending.Add(-1)
	if to == n.cfg.self {
		return untaken(ctx, n.deliver(ctx, e.delivery(seen.members[to])))
	}
	return n.notDelivered(n.net.Send(ctx, to, e.Frame()))
}

// untaken says in the words of this package why the node's own receiver did not take
// an event.
func untaken(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%w: %w", ErrNotDelivered, err)
	case errors.Is(err, receiver.ErrUnknown), errors.Is(err, receiver.ErrMalformed):
		return fmt.Errorf("%w: %w", ErrUnknownType, err)
	case errors.Is(err, receiver.ErrBusy):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	default:
		return err
	}
}

// maySend reports why nothing can be sent to a member now.
func (n *Node) maySend(ctx context.Context, seen *sight, to member.Address) error {
	if err := n.over(ctx); err != nil {
		return err
	}
	switch {
	case !seen.active:
		return fmt.Errorf("%w: this node is not active yet", ErrNotActive)
	case to.IsZero():
		return fmt.Errorf("%w: the address is the zero Address: take one from View", ErrNotActive)
	case !seen.isActive(to):
		return fmt.Errorf("%w: %s", ErrNotActive, to)
	default:
		return nil
	}
}

// trySend gives an encoded event to one member where that needs neither time nor
// another goroutine.
func (n *Node) trySend(
	ctx context.Context, seen *sight, to member.Address, e *outgoing, s sending,
) bool {
	return s.outcome == nil && !s.bestEffort && to != n.cfg.self &&
		n.maySend(ctx, seen, to) == nil && n.net.TrySend(to, e.Frame())
}

// notDelivered says in the words of this package why the transport did not take a
// frame.
func (n *Node) notDelivered(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrClosed):
		return ErrClosed
	default:
		return fmt.Errorf("%w: %w", ErrNotDelivered, err)
	}
}
