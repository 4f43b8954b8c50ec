// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bytes"
	"encoding"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// packer is the codec of a Mux that was given none. It keeps its encoders and
// decoders, so that small events cost no memory but their own. Who encodes itself
// costs no reflection.
type packer struct {
	own *sync.Map // encodesItself, by type
}

// encodesItself remembers what it found of a type.
func (p packer) encodesItself(t reflect.Type) bool {
	if own, ok := p.own.Load(t); ok {
		return own.(bool)
	}
	own, _ := encodesItself(t) // who sends the type has been told
	p.own.Store(t, own)
	return own
}

type encoder struct {
	enc *msgpack.Encoder
	buf bytes.Buffer
}

type decoder struct {
	dec *msgpack.Decoder
	in  bytes.Reader
}

// maxKeptBytes is the largest buffer that is kept for the next event.
const maxKeptBytes = 64 << 10

var (
	encoders = sync.Pool{New: func() any { return &encoder{enc: msgpack.NewEncoder(nil)} }}
	decoders = sync.Pool{New: func() any { return &decoder{dec: msgpack.NewDecoder(nil)} }}
)

func (p packer) Marshal(event any) ([]byte, error) { return p.append(nil, event) }

func (p packer) append(dst []byte, event any) ([]byte, error) {
	if own, ok := event.(encoding.BinaryAppender); ok {
		t := reflect.TypeOf(event)
		if p.encodesItself(elem(t)) && !isNil(t, event) {
			return appendOwn(dst, own)
		}
	}
	e := encoders.Get().(*encoder)
	defer func() {
		if e.buf.Cap() <= maxKeptBytes {
			encoders.Put(e)
		}
	}()
	e.buf.Reset()
	e.enc.Reset(&e.buf)
	if err := e.enc.Encode(event); err != nil {
		return dst, err
	}
	return append(dst, e.buf.Bytes()...), nil
}

func (p packer) Unmarshal(payload []byte, event any) error {
	if own, ok := event.(encoding.BinaryUnmarshaler); ok && isOwn(payload) &&
		p.encodesItself(elem(reflect.TypeOf(event))) {
		return own.UnmarshalBinary(payload[ownHeadBytes:])
	}
	d := decoders.Get().(*decoder)
	d.in.Reset(payload)
	d.dec.Reset(&d.in)
	err := d.dec.Decode(event)
	d.in.Reset(nil)
	decoders.Put(d)
	return err
}
