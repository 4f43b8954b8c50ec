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
	// ErrUnknown says that no handler takes events, or streams, of this name, or that
	// none of them answers.
	ErrUnknown = errors.New("receiver: no handler")
	// ErrMalformed says that a payload is not an event of its type.
	ErrMalformed = errors.New("receiver: malformed event")
	// ErrBusy says that the queue of an event was full, see Policy, or that too many
	// streams of the name are handled.
	ErrBusy = errors.New("receiver: too much of this name is under way")
)

// Delivery is an event that came from another member.
type Delivery struct {
	From *member.Member // does not change afterwards
	// Payload is the caller's again when Deliver returns.
	Raw
	Metadata map[string]string // nil for none; the handlers' to keep
	Call     *Call             // nil when nobody waits for the outcome
}

// Call says that the sender of an event waits for what becomes of it.
type Call struct {
	// ID is the sender's number of the call, for Cancel.
	ID uint64
	// Request says that a value is asked for, which only the handlers of
	// HandleRequest give.
	Request bool
	// Timeout is how long the sender still waits, 0 for ever.
	Timeout time.Duration
	// Answer is called once, unless Deliver returned an error: with the answer of
	// the handler, whether any handler ran, and its error or why none did. It may
	// block.
	Answer func(answer any, ran bool, err error)
}

// Deliver hands an event to its handlers. It blocks while its queue is full and
// its Policy is Block, until ctx ends or the Mux closes. An error says that no
// handler will see the event.
func (m *Mux) Deliver(ctx context.Context, d Delivery) error {
	run := m.live.Load()
	if run == nil || run.ended() {
		return ErrClosed
	}
	r, err := m.lookup(run, d.Name, d.Call)
	if err != nil {
		return err
	}
	it := item{from: d.From, call: d.Call, metadata: d.Metadata, bytes: int64(len(d.Payload))}
	if it.event, err = m.read(run, r, d.Raw); err != nil {
		return err
	}
	if run.raw != nil && r != run.raw {
		it.raw = &Raw{d.Name, slices.Clone(d.Payload)}
	}
	if d.Call != nil && r.answer != nil {
		if it.ctx, err = run.calls.open(run.ctx, d); err != nil {
			return err
		}
	}
	if err = m.put(ctx, run, r, &it); err != nil && it.ctx != nil {
		run.calls.end(d.From.Address, d.Call.ID, err)
	}
	return err
}

// lookup finds the route of an event: that of its name, or that of Raw.
func (m *Mux) lookup(run *live, name string, call *Call) (*route, error) {
	r := run.names[name]
	if r == nil || r.answer == nil && len(r.handlers) == 0 {
		r = run.raw
	}
	switch {
	case r == nil:
		m.unknown.Add(1)
		return nil, unknown(name)
	case call != nil && call.Request && r.answer == nil:
		m.unknown.Add(1)
		return nil, fmt.Errorf("%w that answers, for requests named %s", ErrUnknown,
			safetext.QuotePeerText(name))
	default:
		return r, nil
	}
}

func unknown(name string) error {
	return fmt.Errorf("%w for events named %s", ErrUnknown, safetext.QuotePeerText(name))
}

// read makes an event of a payload. A library that panics over bytes of a peer, as
// msgpack does over a map whose keys cannot be hashed, must not end the process.
func (m *Mux) read(run *live, r *route, raw Raw) (event any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding panics: %s", safetext.PeerText(fmt.Sprint(p)))
		}
		if err != nil {
			r.count.malformed.Add(1)
			err = fmt.Errorf("%w %s: %w", ErrMalformed, safetext.QuotePeerText(raw.Name), err)
		}
	}()
	if !m.own && run.setup.Scan != nil {
		if err := run.setup.Scan(raw.Payload); err != nil {
			return nil, err
		}
	}
	if r == run.raw {
		raw.Payload = slices.Clone(raw.Payload)
	}
	return r.decode(m.codec, raw)
}

// Emit hands an event of the own node to the handlers of its type, and does
// nothing when there are none. It blocks like Deliver.
func (m *Mux) Emit(ctx context.Context, from member.Member, event any) error {
	run := m.live.Load()
	if run == nil || run.ended() {
		return ErrClosed
	}
	r := run.types[reflect.TypeOf(event)]
	if r == nil || len(r.handlers) == 0 {
		return nil
	}
	return m.put(ctx, run, r, &item{from: &from, event: r.point(event)})
}

type metadataKey struct{}

// Metadata is what came beside the event or stream that the handler of ctx has, nil
// for nothing. The handlers of an event share it: none may change it.
func Metadata(ctx context.Context) map[string]string {
	m, _ := ctx.Value(metadataKey{}).(map[string]string)
	return m
}
