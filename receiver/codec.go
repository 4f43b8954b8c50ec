// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/athena-go/athena/internal/safetext"
)

// Codec encodes the events and answers of an application. All nodes of a cluster
// need the same one; that is not checked: to a node with another one most events are
// malformed, which its log says, and some decode into wrong values. Both methods may
// be called side by side. Unmarshal reads what any member has sent: it must bound
// what it allocates and how deep it goes, and keep nothing of payload. A panic in it
// is taken for an error.
type Codec interface {
	Marshal(event any) (payload []byte, err error)
	Unmarshal(payload []byte, event any) error // event is a pointer
}

// WithCodec replaces msgpack, for example by JSON or Protocol Buffers. Then
// cluster.MaxEventValues means nothing: the limits are those of the codec.
func WithCodec(c Codec) MuxOption { return func(m *Mux) { m.codec, m.own = c, true } }

// ErrUnsendable says that a value cannot travel: its type has no name of its
// own, only the own node emits it, another type has its name here, or it has no
// encoding that every receiver takes.
var ErrUnsendable = errors.New("receiver: event cannot be sent")

// Name is the name under which an event travels: a value of a named type or a
// pointer to one, a Raw, or a JSON. Errors wrap ErrUnsendable.
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
	t := reflect.TypeOf(event)
	name, ok := run.sent[t]
	if !ok {
		var err error
		if name, err = m.nameOfOther(run, t); err != nil {
			return "", err
		}
	}
	if isNil(t, event) {
		return "", fmt.Errorf("%w: it is a nil %v", ErrUnsendable, t)
	}
	return name, nil
}

// nameOfOther is the name of a type that was not registered.
func (m *Mux) nameOfOther(run *live, t reflect.Type) (string, error) {
	if name, ok := run.others.Load(t); ok {
		return name.(string), nil
	}
	name, err := run.nameOf(t)
	if err == nil {
		err = m.unfit(elem(t))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnsendable, err)
	}
	run.others.Store(t, name)
	return name, nil
}

// Encode appends the payload of an event to dst, which may be nil; that of a Raw
// is taken as it is. Errors wrap ErrUnsendable.
func (m *Mux) Encode(dst []byte, event any) ([]byte, error) {
	switch e := event.(type) {
	case Raw:
		if err := m.scan(e.Payload); err != nil {
			return dst, fmt.Errorf("%w: %T: %w", ErrUnsendable, event, err)
		}
		return append(dst, e.Payload...), nil
	case JSON:
		value, err := e.value()
		if err != nil {
			return dst, fmt.Errorf("%w: event %.*q: %w", ErrUnsendable, maxNameBytes, e.Name, err)
		}
		return m.EncodeAnswer(dst, value)
	default:
		return m.EncodeAnswer(dst, event)
	}
}

// EncodeAnswer appends the payload of an answer, of any type. Errors wrap
// ErrUnsendable.
func (m *Mux) EncodeAnswer(dst []byte, answer any) ([]byte, error) {
	payload, err := m.marshal(dst, answer)
	if err != nil {
		return dst, err
	}
	// What a receiver would refuse is better told here.
	if err := m.scan(payload[len(dst):]); err != nil {
		return dst, fmt.Errorf("%w: %T: %w", ErrUnsendable, answer, err)
	}
	return payload, nil
}

// DecodeAnswer reads the payload of an answer into what answer points to. Errors
// wrap ErrMalformed.
func (m *Mux) DecodeAnswer(payload []byte, answer any) (err error) {
	if err := m.scan(payload); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: decoding panics: %s", ErrMalformed, safetext.PeerText(fmt.Sprint(p)))
		}
	}()
	if err := m.codec.Unmarshal(payload, answer); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// marshal takes a panic for an error: an answer is encoded where nobody but the
// process would see it.
func (m *Mux) marshal(dst []byte, event any) (payload []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			payload, err = dst, fmt.Errorf("%w: %T: encoding panics: %v", ErrUnsendable, event, p)
		}
	}()
	if p, ok := m.codec.(packer); ok {
		payload, err = p.append(dst, event)
	} else if payload, err = m.codec.Marshal(event); err == nil {
		payload = append(dst, payload...)
	}
	if err != nil {
		return dst, fmt.Errorf("%w: %T: %w", ErrUnsendable, event, err)
	}
	return payload, nil
}

// scan looks at a payload as its receiver will.
func (m *Mux) scan(payload []byte) error {
	run := m.live.Load()
	switch {
	case run == nil:
		return ErrClosed
	case m.own || run.setup.Scan == nil:
		return nil
	default:
		return run.setup.Scan(payload)
	}
}

// elem is the type that a type, or a pointer to one, travels as.
func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isNil reports whether a value of type t is a nil pointer.
func isNil(t reflect.Type, value any) bool {
	return t.Kind() == reflect.Pointer && reflect.ValueOf(value).IsNil()
}

// nameOf is the name under which a type travels.
func (run *live) nameOf(t reflect.Type) (string, error) {
	if t == nil {
		return "", errors.New("it is nil")
	}
	t = elem(t)
	name := t.Name()
	r := run.types[t]
	if r != nil {
		name = r.name
	}
	other := run.names[name]
	switch {
	case slices.Contains(run.setup.Local, t):
		return "", fmt.Errorf("only a node itself emits %v", t)
	case !validName(name):
		return "", fmt.Errorf("%v has no name to travel under: declare a type", t)
	case other != nil && other != r:
		return "", fmt.Errorf("the name of %v, %q, belongs to another type: Register it with "+
			"another name", t, name)
	}
	return name, nil
}
