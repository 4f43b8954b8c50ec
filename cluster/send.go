// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

const (
	// MaxEventBytes bounds an encoded event including its name: 1 MiB.
	MaxEventBytes = messaging.MaxEventBytes
	// MaxEventValues bounds the values of an event: 131,072. Numbers, strings, keys and lists are
	// values, and a []byte is one value. Decoding an event allocates at most about 2 x MaxEventValues
	// x S bytes. S is the size of the largest type that the event contains in a slice, in a map or
	// behind a pointer. With elements of 256 bytes, that is 64 MiB.
	MaxEventValues = wire.MaxValues
	// MaxSending bounds the number of sends of a node that are in flight.
	MaxSending = messaging.MaxSending
	// MaxBestEffortBytes bounds an encoded event with BestEffort, including its name and metadata.
	MaxBestEffortBytes = messaging.MaxBestEffortBytes
	// MaxStreams bounds the number of streams that this node has opened to one member and that are
	// still open at either end.
	MaxStreams = transport.MaxStreams
)

// SendOption modifies one call of Send, Broadcast, Request or OpenStream.
type SendOption func(*sendOptions)

type sendOptions struct {
	messaging.Options
	results *[]Result // set by WithResults; may be nil
}

// newSendOptions applies opts. It does not allocate if opts is empty.
func newSendOptions(opts []SendOption) sendOptions {
	if len(opts) == 0 {
		return sendOptions{}
	}
	return applyOptions(opts)
}

// applyOptions is separate from newSendOptions because its result escapes to the heap.
func applyOptions(opts []SendOption) sendOptions {
	var o sendOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithSelf makes Broadcast deliver the event to this node's receiver too.
func WithSelf() SendOption { return func(o *sendOptions) { o.Self = true } }

// WithResults makes Broadcast store its results in *into before it returns: one for each member
// that was active when Broadcast began, sorted by address.
func WithResults(into *[]Result) SendOption {
	return func(o *sendOptions) { o.results = into }
}

// WithMetadata sends entries with the event, such as a trace id. The handler reads them with
// receiver.Metadata. The limits are 16 entries, 128 bytes for a key and 1,024 bytes for a value. If
// an event exceeds them, the error is ErrTooLarge.
func WithMetadata(entries map[string]string) SendOption {
	return func(o *sendOptions) { o.Metadata = entries }
}

// WithOutcome makes the node call the function report once for each member that accepted the event,
// when the outcome at that member is known. The outcome is nil if the member's handlers returned
// nil. It is ErrUnknownOutcome if the connection was lost first. Otherwise it is a *HandlerError,
// ErrUnknownType, ErrBusy or ErrClosed. If a member's process dies, its outcomes are reported when
// its host refuses packets to the port, or else when the member is removed. report is not called
// for a member for which Send returned an error.
//
// Goroutines of the node call report, possibly several at the same time, so it must not block. The
// outcomes of one member are reported in the order in which they arrive. While 65,536 outcomes of
// sends and requests are pending, Send blocks for at most 5 s, and not at all in a handler.
func WithOutcome(report func(to member.Address, err error)) SendOption {
	return func(o *sendOptions) { o.Outcome = report }
}

// BestEffort makes Send and Broadcast fast and unreliable, for data that soon becomes obsolete. The
// event arrives at most once, perhaps never, and may overtake other events. The call never waits
// for the network or for handlers: if 128 events are already queued for one of them, the event is
// dropped and counted (Status.Transport.Dropped, Status.Dropped). An event to a member without a
// connection is lost too, but the node then connects for later events. A nil error therefore does
// not mean that the event was sent.
//
// If the event is larger than MaxBestEffortBytes, the error is ErrTooLarge. BestEffort cannot be
// combined with WithOutcome, nor used for a request or a stream. With BestEffort, Send accepts any
// member that is not removed, for any status of that member and of this node. In a partition
// without a leader, no member can know which members are active.
func BestEffort() SendOption { return func(o *sendOptions) { o.BestEffort = true } }

// Idempotent makes RequestLeader and RequestShard repeat a request whose outcome is unknown, until
// ctx is done. The handler may then run several times for one call, at the same time too: by the
// old leader or owner and by the next one.
func Idempotent() SendOption { return func(o *sendOptions) { o.Idempotent = true } }

// Send sends an event to one active member, which may be this node. While there is no connection to
// the member, Send blocks for at most 5 s. While the member's handlers are slow, it blocks until
// ctx is done, the member is no longer active, or its handlers have taken no event for 5 s. A
// nil error means that the connection accepted the event, which is delivered at most once and in
// the order sent. The error is ErrNotActive, ErrTooLarge, ErrUnknownType, ErrBusy, or
// ErrNotDelivered with the cause of ctx if ctx was done. If the other process dies, the connection
// accepts events until the member is no longer active, unless the host refuses packets to the port.
//
// In a handler, pass the context of the handler. Such events do not wait behind others, and have an
// order of their own. In the handler of an event that a handler sent, and to this node, Send does
// not wait for room: the error is ErrBusy. So handlers that send never wait for each other in a
// circle.
//
// A nil error does not mean that a handler gets the event. A member that has no handler for the
// event's name drops it, logs a warning once for each name and sender, and counts it as "no
// handler" in Status.Dropped. To detect this, use WithOutcome or Request.
func (n *Node) Send(
	ctx context.Context, to member.Address, event any, opts ...SendOption,
) error {
	return n.messages.Send(ctx, to, event, newSendOptions(opts).Options)
}

// Broadcast sends an event to all active members except this one, in parallel, and blocks until
// each member has accepted it or failed. If any member failed, the error is a *BroadcastError with
// the result of each member. WithResults stores the results in any case; WithOutcome reports one
// outcome for each nil result. See Send.
func (n *Node) Broadcast(ctx context.Context, event any, opts ...SendOption) error {
	o := newSendOptions(opts)
	all, err := n.messages.Broadcast(ctx, event, o.Options)
	if err != nil {
		return err
	}
	failed := slices.ContainsFunc(all, func(r messaging.Result) bool { return r.Err != nil })
	if !failed && o.results == nil {
		return nil
	}
	results := make([]Result, len(all))
	for i, r := range all {
		results[i] = Result(r)
	}
	if o.results != nil {
		*o.results = results
	}
	if failed {
		return &BroadcastError{results}
	}
	return nil
}

// OpenStream opens a stream of bytes in both directions to an active member, which may be this
// node. The handler is the one that the member has registered for name with receiver.HandleStream.
// The only option that applies is WithMetadata. OpenStream waits for a connection like Send. ctx
// bounds only OpenStream itself, not the stream. Streams delay neither events nor heartbeats, and a
// stream that is not read blocks only its own writer.
//
// After an error there is no stream. The error is ErrNotActive, ErrNotDelivered, ErrTooLarge,
// ErrClosed, or ErrBusy if MaxStreams streams to the member are open. It is ErrUnknownOutcome if a
// handler may have been called with a closed stream.
//
// The member may still refuse the stream. The first Read, or a Write, then returns ErrUnknownType
// if the member has no handler for the name, ErrBusy if too many handlers run there, and
// ErrNotDelivered if the member is closing. If the member is this node, OpenStream itself returns
// ErrUnknownType and ErrBusy.
//
// Read and Write fail with ErrStreamReset, ErrStreamCut or ErrStreamClosed, and with Node.Err if
// this node ended. To make sure that the handler has read everything, call CloseWrite and read
// until io.EOF, which arrives when the handler has returned nil or called CloseWrite. The caller
// must call Close.
func (n *Node) OpenStream(
	ctx context.Context, to member.Address, name string, opts ...SendOption,
) (receiver.Stream, error) {
	return n.messages.OpenStream(ctx, to, name, newSendOptions(opts).Options)
}
