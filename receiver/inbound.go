// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// Errors of Deliver, AcceptStream and Call.Answer.
var (
	// ErrUnknown means that there is no handler for events or streams of this name, or no handler that
	// answers requests.
	ErrUnknown = errors.New("receiver: no handler")
	// ErrMalformed means that a payload cannot be decoded into the type of the event.
	ErrMalformed = errors.New("receiver: malformed event")
	// ErrStalled means that no event has left the full queue for Delivery.Wait.
	ErrStalled = fmt.Errorf("%w: no event was taken from the queue", ErrBusy)
	// ErrBusy means that the queue of the event is full (see Policy), or that too many
	// streams of the name are open.
	ErrBusy = errors.New("receiver: busy: too many events or streams of this name are pending")
	// ErrDeclined is returned by a handler that has done nothing, so that the event may be sent again.
	// If the error of a handler wraps it, the sender gets cluster.ErrNotDelivered instead of a
	// *HandlerError, and RequestLeader and RequestShard send the request again.
	ErrDeclined = errors.New("receiver: the handler declined")
)

// Delivery is an event from another member.
type Delivery struct {
	From *member.Member // must not be changed afterwards
	// Payload may be reused once Deliver has returned.
	Raw
	Metadata map[string]string // may be nil; belongs to the handlers
	Call     *Call             // nil if the sender does not wait for the outcome
	// Depth is the Depth of the context with which the sender sent the event.
	Depth int
	// Wait bounds how long Deliver waits for room while no event leaves the queue; 0 means no limit.
	Wait time.Duration
}

// Call describes how the sender of an event waits for its outcome.
type Call struct {
	// ID identifies the call among the calls of its sender; see Cancel.
	ID uint64
	// Request is set if the sender wants an answer, which only a handler of HandleRequest
	// returns.
	Request bool
	// Timeout is the time that the sender will still wait; 0 means no limit.
	Timeout time.Duration
	// Answer is called once, unless Deliver returned an error. Its arguments are the answer of the
	// handler, whether any handler ran, and the error of the handler or the reason why no handler ran.
	// It may block.
	Answer func(answer any, ran bool, err error)
}

// Deliver queues an event for its handlers. While the queue is full and its Policy is Block,
// Deliver blocks until ctx is done, the Mux closes, or no event has left the queue for d.Wait. If
// Deliver returns an error, no handler runs.
func (m *Mux) Deliver(ctx context.Context, d Delivery) error {
	run := m.live.Load()
	if run == nil || run.isEnded() {
		return ErrClosed
	}
	table := run.table.Load()
	r, err := m.findRoute(table, d.Name, d.Call)
	if err != nil {
		return err
	}
	it := item{
		from: d.From, call: d.Call, metadata: d.Metadata, bytes: int64(len(d.Payload)),
		depth: min(d.Depth, MaxDepth),
	}
	if d.Call == nil || !d.Call.Request {
		it.depth = min(d.Depth, 1)
	}
	if it.event, err = m.decodeEvent(run, r, d.Raw); err != nil {
		return err
	}
	if !r.isRaw && table.raw.hasHandlers() {
		it.raw = &Raw{d.Name, slices.Clone(d.Payload)}
	}
	if d.Call != nil && r.kind == ofRequests {
		if it.ctx, err = run.calls.openCall(run.contexts[it.depth], d); err != nil {
			return err
		}
	}
	if err = m.enqueueItem(ctx, run, r, &it, d.Wait); err != nil && it.ctx != nil {
		run.calls.endCall(callKey{d.From.Address, d.Call.ID}, err)
	}
	return err
}

// findRoute returns the route of an event: the route of its name, or else the route of Raw.
func (m *Mux) findRoute(table *routeTable, name string, call *Call) (*route, error) {
	r := table.names[name]
	if !r.hasHandlers() {
		r = table.raw
	}
	switch {
	case !r.hasHandlers():
		m.unknown.Add(1)
		return nil, unknownErr(name)
	case call != nil && call.Request && r.kind != ofRequests:
		m.unknown.Add(1)
		return nil, fmt.Errorf("%w that answers requests named %s", ErrUnknown,
			safetext.QuotePeerText(name))
	default:
		return r, nil
	}
}

func unknownErr(name string) error {
	return fmt.Errorf("%w for events named %s", ErrUnknown, safetext.QuotePeerText(name))
}

// decodeEvent decodes a payload. It recovers panics, because hostile bytes can make a library
// panic: msgpack panics if the keys of a map cannot be hashed.
func (m *Mux) decodeEvent(run *muxRun, r *route, raw Raw) (event any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding panicked: %s", safetext.PeerText(fmt.Sprint(p)))
		}
		if err != nil {
			r.count.malformed.Add(1)
			err = fmt.Errorf("%w %s: %w", ErrMalformed, safetext.QuotePeerText(raw.Name), err)
		}
	}()
	if !m.ownCodec && run.setup.Scan != nil {
		if err := run.setup.Scan(raw.Payload); err != nil {
			return nil, err
		}
	}
	if r.isRaw {
		raw.Payload = slices.Clone(raw.Payload)
	}
	return r.decode(m.codec, raw)
}

// Emit queues an event of the local node for the handlers of its type, if there are any. It
// blocks like Deliver.
func (m *Mux) Emit(ctx context.Context, from member.Member, event any) error {
	run := m.live.Load()
	if run == nil || run.isEnded() {
		return ErrClosed
	}
	r := run.table.Load().types[reflect.TypeOf(event)]
	if !r.hasHandlers() {
		return nil
	}
	return m.enqueueItem(ctx, run, r, &item{from: &from, event: r.point(event)}, 0)
}

type metadataKey struct{}

// Metadata returns the metadata of the event or stream that the handler with ctx is
// handling, or nil. The handlers of an event share the map and must not change it.
func Metadata(ctx context.Context) map[string]string {
	m, _ := ctx.Value(metadataKey{}).(map[string]string)
	return m
}
