// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// msgpackCodec is the default codec. It pools encoders and decoders, so that a small event
// allocates only its payload, and sends types with AppendBinary without reflection.
type msgpackCodec struct {
	types *sync.Map // *codedType by type
}

// codedType describes how values of a type are sent.
type codedType struct {
	*shape
	// appends is set if AppendBinary and UnmarshalBinary encode the type (see encodesItself).
	appends bool
	// err is not nil if values of the type would not arrive as they were sent.
	err error
}

func (p msgpackCodec) typeOf(t reflect.Type) *codedType {
	if known, ok := p.types.Load(t); ok {
		return known.(*codedType)
	}
	c := &codedType{}
	c.appends, _ = encodesItself(t) // checkType reports the error
	if c.appends {
		c.shape = &shape{typ: t, opaque: true, needsType: true}
		c.err = checkMethods(t, &appending, &appending)
	} else {
		c.shape, c.err = compileType(t)
	}
	p.types.Store(t, c)
	return c
}

// encoder appends to b, which belongs to the caller of appendPayload.
type encoder struct {
	enc *msgpack.Encoder
	b   []byte
}

// Write and WriteByte never fail. Without WriteByte, msgpack would allocate for every byte.
func (e *encoder) Write(p []byte) (int, error) {
	e.b = append(e.b, p...)
	return len(p), nil
}

func (e *encoder) WriteByte(c byte) error {
	e.b = append(e.b, c)
	return nil
}

var (
	encoders = sync.Pool{New: func() any { return &encoder{enc: msgpack.NewEncoder(nil)} }}
	decoders = sync.Pool{New: func() any { return &decoder{dec: msgpack.NewDecoder(nil)} }}
)

func (p msgpackCodec) Marshal(event any) ([]byte, error) { return p.appendPayload(nil, event) }

func (p msgpackCodec) appendPayload(dst []byte, event any) ([]byte, error) {
	if event == nil {
		return append(dst, msgpcode.Nil), nil
	}
	t := reflect.TypeOf(event)
	coded := p.typeOf(sentType(t))
	if coded.err != nil {
		return dst, coded.err
	}
	if own, ok := event.(encoding.BinaryAppender); ok && coded.appends && !isNilPointer(t, event) {
		return appendBinary(dst, own)
	}
	if coded.dynamic {
		if err := p.checkValue(coded.shape, reflect.Indirect(reflect.ValueOf(event)), 0); err != nil {
			return dst, err
		}
	}
	e := encoders.Get().(*encoder)
	e.b = dst
	e.enc.Reset(e)
	var err error
	if coded.needsType && t.Kind() != reflect.Pointer {
		v := reflect.New(t).Elem() // with an address: methods of pointers may encode parts of it
		v.Set(reflect.ValueOf(event))
		err = e.enc.EncodeValue(v)
	} else {
		err = e.enc.Encode(event)
	}
	payload := e.b
	e.b = nil
	encoders.Put(e)
	switch {
	case err != nil && strings.Contains(err.Error(), "non-addressable"):
		return dst, fmt.Errorf("%w: use pointers to it in maps", err)
	case err != nil:
		return dst, err
	}
	return payload, nil
}

// maxPointers limits the pointers, lists, maps and interfaces inside each other. It only has to end
// values that contain themselves, because the scan refuses an event long before.
const maxPointers = 100

// checkValue checks what only the value shows, for a dynamic shape: that receivers can decode the
// values in its interfaces without their types, and that it does not contain itself.
func (p msgpackCodec) checkValue(s *shape, v reflect.Value, depth int) error {
	if !s.dynamic || isNilable(v.Kind()) && v.IsNil() {
		return nil
	}
	if depth++; depth > maxPointers {
		return fmt.Errorf("%v is nested too deeply, or contains itself", s.typ)
	}
	switch v.Kind() {
	case reflect.Interface:
		v = v.Elem()
		in := p.typeOf(v.Type())
		if in.err != nil {
			return in.err
		}
		if in.needsType {
			return fmt.Errorf("%v in an interface: a receiver that does not know the type cannot decode "+
				"a map whose keys are not strings, or a type that encodes itself", v.Type())
		}
		return p.checkValue(in.shape, v, depth)
	case reflect.Pointer:
		return p.checkValue(s.elem, v.Elem(), depth)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := p.checkValue(s.elem, v.Index(i), depth); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, elem := range v.Seq2() {
			if err := p.checkValue(s.elem, elem, depth); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for _, f := range s.fields {
			if err := p.checkValue(f.shape, v.FieldByIndex(f.index), depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p msgpackCodec) Unmarshal(payload []byte, event any) error {
	v := reflect.ValueOf(event).Elem()
	if v.Kind() == reflect.Pointer {
		v.SetZero()
		if len(payload) == 1 && payload[0] == msgpcode.Nil {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		event, v = v.Interface(), v.Elem()
	}
	coded := p.typeOf(v.Type())
	if coded.err != nil {
		return coded.err
	}
	if coded.appends && isBinary(payload) {
		return event.(encoding.BinaryUnmarshaler).UnmarshalBinary(payload[binaryHeadBytes:])
	}
	d := decoders.Get().(*decoder)
	d.payload = payload
	d.in.Reset(payload)
	d.dec.Reset(&d.in)
	err := d.decodeValue(coded.shape, v)
	d.payload = nil
	d.in.Reset(nil)
	decoders.Put(d)
	return err
}
