// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bytes"
	"encoding"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// msgpackCodec is the default codec. It pools encoders and decoders, so that a small event
// allocates only its payload, and sends types with AppendBinary without reflection.
type msgpackCodec struct {
	binary *sync.Map // results of encodesItself by type
}

// encodesItself caches the results of the function encodesItself.
func (p msgpackCodec) encodesItself(t reflect.Type) bool {
	if own, ok := p.binary.Load(t); ok {
		return own.(bool)
	}
	own, _ := encodesItself(t) // the error is reported to senders of the type
	p.binary.Store(t, own)
	return own
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

type decoder struct {
	dec *msgpack.Decoder
	in  bytes.Reader
}

var (
	encoders = sync.Pool{New: func() any { return &encoder{enc: msgpack.NewEncoder(nil)} }}
	decoders = sync.Pool{New: func() any { return &decoder{dec: msgpack.NewDecoder(nil)} }}
)

func (p msgpackCodec) Marshal(event any) ([]byte, error) { return p.appendPayload(nil, event) }

func (p msgpackCodec) appendPayload(dst []byte, event any) ([]byte, error) {
	if own, ok := event.(encoding.BinaryAppender); ok {
		t := reflect.TypeOf(event)
		if p.encodesItself(sentType(t)) && !isNilPointer(t, event) {
			return appendBinary(dst, own)
		}
	}
	e := encoders.Get().(*encoder)
	e.b = dst
	e.enc.Reset(e)
	err := e.enc.Encode(event)
	payload := e.b
	e.b = nil
	encoders.Put(e)
	if err != nil {
		return dst, err
	}
	return payload, nil
}

func (p msgpackCodec) Unmarshal(payload []byte, event any) error {
	if own, ok := event.(encoding.BinaryUnmarshaler); ok && isBinary(payload) &&
		p.encodesItself(sentType(reflect.TypeOf(event))) {
		return own.UnmarshalBinary(payload[binaryHeadBytes:])
	}
	d := decoders.Get().(*decoder)
	d.in.Reset(payload)
	d.dec.Reset(&d.in)
	err := d.dec.Decode(event)
	d.in.Reset(nil)
	decoders.Put(d)
	return err
}
