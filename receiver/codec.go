// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/athena-go/athena/internal/safetext"
)

// Codec encodes the events and answers of an application. All nodes of a cluster must use
// the same codec. This is not checked: a node with a different codec reports most events as
// malformed, and decodes some into wrong values. Both methods may be called concurrently.
//
// Unmarshal reads bytes that any member may have sent: it must bound its allocations and its
// recursion, and must not retain payload. A panic in Unmarshal counts as an error.
type Codec interface {
	Marshal(event any) (payload []byte, err error)
	Unmarshal(payload []byte, event any) error // event is a pointer
}

// WithCodec replaces msgpack with another codec, such as JSON or Protocol Buffers.
// cluster.MaxEventValues then has no effect, so the codec must set its own limits.
func WithCodec(c Codec) MuxOption { return func(m *Mux) { m.codec, m.ownCodec = c, true } }

// ErrUnsendable means that a value cannot be sent. Its type may have no name, be reserved for
// events of the local node, or have the name of another registered type. Or the value has no
// encoding that receivers can decode.
var ErrUnsendable = errors.New("receiver: event cannot be sent")

// Name returns the name under which an event is sent. The event must be a value of a named type, a
// pointer to such a value, a Raw, or a JSON. Errors wrap ErrUnsendable or ErrClosed.
func (m *Mux) Name(event any) (string, error) {
	run := m.live.Load()
	if run == nil {
		return "", ErrClosed
	}
	switch e := event.(type) {
	case Raw:
		return e.Name, nil
	case JSON:
		return e.Name, nil
	}
	t, table := reflect.TypeOf(event), run.table.Load()
	name, known := table.sent.Load(t)
	if !known {
		var err error
		if name, err = table.nameOfType(t, run.setup.Local); err == nil {
			err = m.checkType(sentType(t))
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrUnsendable, err)
		}
		table.sent.Store(t, name)
	}
	if isNilPointer(t, event) {
		return "", fmt.Errorf("%w: it is a nil %v", ErrUnsendable, t)
	}
	return name.(string), nil
}

// Encode appends the payload of an event to dst, which may be nil. The payload of a Raw is
// appended unchanged. Errors wrap ErrUnsendable.
func (m *Mux) Encode(dst []byte, event any) ([]byte, error) {
	switch e := event.(type) {
	case Raw:
		if err := m.checkPayload(e.Payload); err != nil {
			return dst, fmt.Errorf("%w: %T: %w", ErrUnsendable, event, err)
		}
		return append(dst, e.Payload...), nil
	case JSON:
		value, err := e.decode()
		if err != nil {
			return dst, fmt.Errorf("%w: event %.*q: %w", ErrUnsendable, maxNameBytes, e.Name, err)
		}
		return m.EncodeAnswer(dst, value)
	default:
		return m.EncodeAnswer(dst, event)
	}
}

// EncodeAnswer appends the payload of an answer, of any type, to dst. Errors wrap ErrUnsendable.
func (m *Mux) EncodeAnswer(dst []byte, answer any) ([]byte, error) {
	payload, err := m.marshalPayload(dst, answer)
	if err != nil {
		return dst, err
	}
	// Check here, so that the sender of the answer gets the error, not its receiver.
	if err := m.checkPayload(payload[len(dst):]); err != nil {
		return dst, fmt.Errorf("%w: %T: %w", ErrUnsendable, answer, err)
	}
	return payload, nil
}

// CheckAnswer returns an error if no answer could arrive unchanged in the value that answer points
// to. Errors wrap ErrUnsendable.
func (m *Mux) CheckAnswer(answer any) error {
	if p, ok := m.codec.(msgpackCodec); ok {
		if err := p.typeOf(sentType(reflect.TypeOf(answer).Elem())).err; err != nil {
			return fmt.Errorf("%w as an answer: %w", ErrUnsendable, err)
		}
	}
	return nil
}

// DecodeAnswer decodes the payload of an answer into the value that answer points to. Errors
// wrap ErrMalformed.
func (m *Mux) DecodeAnswer(payload []byte, answer any) (err error) {
	if err := m.checkPayload(payload); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: decoding panicked: %s", ErrMalformed, safetext.PeerText(fmt.Sprint(p)))
		}
	}()
	if err := m.codec.Unmarshal(payload, answer); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// marshalPayload turns a panic into an error, because answers are encoded outside of
// application code.
func (m *Mux) marshalPayload(dst []byte, event any) (payload []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			payload, err = dst, fmt.Errorf("%w: %T: encoding panicked: %v", ErrUnsendable, event, p)
		}
	}()
	if p, ok := m.codec.(msgpackCodec); ok {
		payload, err = p.appendPayload(dst, event)
	} else if payload, err = m.codec.Marshal(event); err == nil {
		payload = append(dst, payload...)
	}
	if err != nil {
		return dst, fmt.Errorf("%w: %T: %w", ErrUnsendable, event, err)
	}
	return payload, nil
}

// checkPayload checks a payload as its receiver does.
func (m *Mux) checkPayload(payload []byte) error {
	run := m.live.Load()
	switch {
	case run == nil:
		return ErrClosed
	case m.ownCodec || run.setup.Scan == nil:
		return nil
	default:
		return run.setup.Scan(payload)
	}
}

// sentType returns the type under which a value of type t is sent: its element type if t is
// a pointer.
func sentType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isNilPointer reports whether a value of type t is a nil pointer.
func isNilPointer(t reflect.Type, value any) bool {
	return t.Kind() == reflect.Pointer && reflect.ValueOf(value).IsNil()
}

// nameOfType returns the name under which values of a type are sent. local is Setup.Local.
func (table *routeTable) nameOfType(t reflect.Type, local []reflect.Type) (string, error) {
	if t == nil {
		return "", errors.New("it is nil")
	}
	t = sentType(t)
	if slices.Contains(local, t) {
		return "", fmt.Errorf("%v is reserved for events of the local node", t)
	}
	if r := table.types[t]; r != nil {
		return r.name, nil
	}
	if table.names[t.Name()] != nil {
		return "", fmt.Errorf("%v has the same name as another type, %q: register it with another name",
			t, t.Name())
	}
	return t.Name(), checkTypeName(t)
}

// checkTypeName returns an error if values of a type cannot be sent under the name of the type. The
// name of a generic type may contain the paths of packages, which change when code moves.
func checkTypeName(t reflect.Type) error {
	name := t.Name()
	switch {
	case strings.ContainsAny(name, "./"):
		return fmt.Errorf("the name %q contains a package: name %v with receiver.Named, "+
			"with this name while some nodes use it", name, t)
	case !validName(name):
		return fmt.Errorf("%v has no name: declare a named type", t)
	}
	return nil
}
