// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// outgoing is an encoded event. Its memory is reused after release.
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

// delivery returns the event for this node's own receiver. It copies the metadata, which
// the caller may change after Send has returned.
func (e *outgoing) delivery(self *member.Member) receiver.Delivery {
	return receiver.Delivery{
		From:     self,
		Raw:      receiver.Raw{Name: e.name, Payload: e.Payload()},
		Metadata: maps.Clone(e.metadata),
	}
}

// encode encodes an event once for all its recipients, and checks it against the options.
func (m *Messenger) encode(event any, o Options) (*outgoing, error) {
	if o.BestEffort && o.Outcome != nil {
		return nil, errNoOutcome
	}
	if err := checkMetadata(o.Metadata); err != nil {
		return nil, err
	}
	e := outgoings.Get().(*outgoing)
	e.metadata = o.Metadata
	if err := e.encode(m.mux, event); err != nil {
		name := e.name
		e.release()
		return nil, encodeError(name, err)
	}
	if size := len(e.Frame()); o.BestEffort && size > MaxBestEffortBytes {
		defer e.release()
		return nil, fmt.Errorf("%w for BestEffort: %q of %d bytes, want at most %d", ErrTooLarge,
			e.name, size, MaxBestEffortBytes)
	}
	return e, nil
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

// encodeError translates the reason why an event cannot be encoded.
func encodeError(name string, err error) error {
	switch {
	case errors.Is(err, wire.ErrTooLarge) && !errors.Is(err, receiver.ErrUnsendable):
		return fmt.Errorf("%w: %q: %w: use OpenStream", ErrTooLarge, name, err)
	case errors.Is(err, wire.ErrTooLarge):
		return fmt.Errorf("%w: %q: %w", ErrTooLarge, name, err)
	case errors.Is(err, receiver.ErrClosed):
		return ErrClosed
	default:
		return fmt.Errorf("%w: %w", ErrUnknownType, err)
	}
}
