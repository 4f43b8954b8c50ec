// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

const (
	// MaxEventBytes bounds an encoded event with its name: 1 MiB.
	MaxEventBytes = messaging.MaxEventBytes
	// MaxEventValues bounds the values of an event: 131,072. Numbers, strings, keys and
	// lists are values, and a []byte is one value. Decoding an event allocates at most
	// about twice this number times the size of the largest element that its type has in
	// a slice, in a map or behind a pointer: 64 MiB for elements of 256 bytes.
	MaxEventValues = wire.MaxValues
	// MaxSending bounds the sends of a node that are in flight.
	MaxSending = messaging.MaxSending
	// MaxBestEffortBytes bounds an encoded event of BestEffort with its name and metadata.
	MaxBestEffortBytes = messaging.MaxBestEffortBytes
)

// SendOption changes one Send, Broadcast, Request or OpenStream.
type SendOption func(*sendOptions)

type sendOptions struct {
	messaging.Options
	results *[]Result // where a Broadcast stores its results; nil for nowhere
}

// newSendOptions applies opts. The common case of no option does not allocate.
func newSendOptions(opts []SendOption) sendOptions {
	if len(opts) == 0 {
		return sendOptions{}
	}
	return applyOptions(opts)
}

// applyOptions is apart from newSendOptions since its result escapes to the heap.
func applyOptions(opts []SendOption) sendOptions {
	var o sendOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithSelf makes Broadcast deliver the event to this node's receiver too.
func WithSelf() SendOption { return func(o *sendOptions) { o.Self = true } }

// WithResults makes Broadcast store into *into, before it returns, its result at each
// member that was active when it began, in the order of their addresses.
func WithResults(into *[]Result) SendOption {
	return func(o *sendOptions) { o.results = into }
}

// WithMetadata sends entries with the event, such as a trace id. The handler reads them
// with receiver.Metadata. More than 16 entries, keys of more than 128 bytes and values of
// more than 1,024 are ErrTooLarge.
func WithMetadata(entries map[string]string) SendOption {
	return func(o *sendOptions) { o.Metadata = entries }
}

// WithOutcome makes the node call report once for each member that took the event, when
// its outcome there is known: nil if its handlers returned nil, else *HandlerError,
// ErrUnknownType, ErrBusy, ErrClosed, or ErrUnknownOutcome if the connection was lost
// first. So a sender learns of each event that is lost. report is not called for a
// member for which Send returned an error. If a member's process dies, its outcomes are
// reported when its host refuses the port, or else when the member is removed.
//
// report is called by goroutines of the node, perhaps by several at the same time, and
// must not block. Outcomes of one member are reported in the order in which they arrive.
// While 65,536 outcomes of sends and requests are pending, Send blocks.
func WithOutcome(report func(to member.Address, err error)) SendOption {
	return func(o *sendOptions) { o.Outcome = report }
}

// BestEffort makes Send and Broadcast fast and unreliable, for data that is soon out of
// date: the event arrives at most once, perhaps never, and may overtake others. The call
// never waits for the network or for handlers. What either cannot take is lost and
// counted. So is an event to a member without a connection; the node then makes one for
// later events. At most 128 events wait at either end; a longer burst is lost and
// counted (Status.Transport.Dropped, Status.Dropped). A nil error therefore means
// nothing. An event larger than MaxBestEffortBytes is ErrTooLarge. BestEffort is an error
// together with WithOutcome, for a request, and for a stream.
//
// Send gives such an event to any member of the view that is not removed, whatever its
// status and that of this node: in a partition without a leader no member can know who
// is active.
func BestEffort() SendOption { return func(o *sendOptions) { o.BestEffort = true } }

// Send gives an event to one active member, which may be this node. It blocks while
// there is no connection to that member, for at most 5 s, and while the member's handlers
// are slow, until ctx ends. A nil error means that the connection took the event; it is
// delivered at most once, in the order sent. Errors: ErrNotActive, ErrNotDelivered, with
// the cause of ctx if that ended meanwhile, ErrTooLarge, ErrUnknownType, ErrBusy. If the
// other end dies, its connection still takes events for up to 5 s, unless the host
// refuses the port.
//
// A nil error does not mean that a handler takes the event. A member without a handler
// for its name drops it and logs a warning, once for each name and sender; it counts each
// as "no handler" in Status.Dropped. To learn of that, use WithOutcome or Request.
func (n *Node) Send(
	ctx context.Context, to member.Address, event any, opts ...SendOption,
) error {
	return n.messages.Send(ctx, to, event, newSendOptions(opts).Options)
}

// Broadcast gives an event to all active members except this one, side by side, and
// blocks until each took it or failed. If one failed, the error is a *BroadcastError with
// the result of each. WithResults stores the results in any case, and their number is
// the number of outcomes that WithOutcome will report. See Send.
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
