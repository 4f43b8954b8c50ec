// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// packer is the codec of a Mux that was given none. It keeps its encoders and
// decoders, so that small events cost no memory but their own. Who encodes itself
// costs no reflection.
type packer struct{}

type encoder struct {
	enc *msgpack.Encoder
	buf bytes.Buffer
}

type decoder struct {
	dec *msgpack.Decoder
	in  bytes.Reader
}

// ownHeadBytes is the length of what precedes what an event makes of itself.
const ownHeadBytes = 5

// isOwn reports whether a payload is as appendOwn makes it.
func isOwn(payload []byte) bool {
	return len(payload) >= ownHeadBytes && payload[0] == msgpcode.Bin32 &&
		uint64(binary.BigEndian.Uint32(payload[1:])) == uint64(len(payload)-ownHeadBytes)
}

// maxKeptBytes is the largest buffer that is kept for the next event.
const maxKeptBytes = 64 << 10

var (
	encoders = sync.Pool{New: func() any { return &encoder{enc: msgpack.NewEncoder(nil)} }}
	decoders = sync.Pool{New: func() any { return &decoder{dec: msgpack.NewDecoder(nil)} }}
)

func (p packer) Marshal(event any) ([]byte, error) { return p.append(nil, event) }

func (packer) append(dst []byte, event any) ([]byte, error) {
	if own, ok := event.(encoding.BinaryAppender); ok {
		return appendOwn(dst, own)
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

// encodings are the methods by which types encode themselves.
var encodings = []reflect.Type{
	reflect.TypeFor[encoding.BinaryAppender](), reflect.TypeFor[encoding.BinaryMarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](),
	reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.Marshaler](),
}

// unfit says why events of a type would not arrive as they were sent, as far as the
// type shows that.
func (m *Mux) unfit(t reflect.Type) error {
	if m.own || t.Kind() == reflect.Interface {
		return nil
	}
	appends := reflect.TypeFor[encoding.BinaryAppender]()
	reads := reflect.TypeFor[encoding.BinaryUnmarshaler]()
	pointer := reflect.PointerTo(t)
	isStruct := t.Kind() == reflect.Struct
	switch {
	case pointer.Implements(appends) &&
		(!t.Implements(appends) || !pointer.Implements(reads) || isStruct && t.Implements(reads)):
		return fmt.Errorf("%v: AppendBinary must be on the value and UnmarshalBinary on the pointer", t)
	case isStruct && !slices.ContainsFunc(encodings, pointer.Implements) && isHidden(t):
		return fmt.Errorf("%v has no exported field: nothing of it would travel", t)
	default:
		return nil
	}
}

// isHidden reports whether a struct has fields and none is exported.
func isHidden(t reflect.Type) (hidden bool) {
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() {
			return false
		}
		hidden = hidden || f.Name != "_"
	}
	return hidden
}

// appendOwn appends what an event makes of itself, as a msgpack binary.
func appendOwn(dst []byte, event encoding.BinaryAppender) ([]byte, error) {
	at := len(dst)
	begin := at + ownHeadBytes
	b, err := event.AppendBinary(append(dst, msgpcode.Bin32, 0, 0, 0, 0))
	switch {
	case err != nil:
		return dst, err
	case len(b) < begin:
		return dst, fmt.Errorf("its AppendBinary returns %d bytes, which had %d before", len(b), begin)
	case uint64(len(b)-begin) > math.MaxUint32:
		return dst, fmt.Errorf("its AppendBinary makes %d bytes", len(b)-begin)
	}
	binary.BigEndian.PutUint32(b[at+1:], uint32(len(b)-begin))
	return b, nil
}

func (packer) Unmarshal(payload []byte, event any) error {
	if own, ok := event.(encoding.BinaryUnmarshaler); ok && isOwn(payload) {
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
