// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// ownHeadBytes is the length of what precedes what an event makes of itself. The
// decoder of msgpack reads it too.
const ownHeadBytes = 5

// isOwn reports whether a payload is as appendOwn makes it.
func isOwn(payload []byte) bool {
	return len(payload) >= ownHeadBytes && payload[0] == msgpcode.Bin32 &&
		uint64(binary.BigEndian.Uint32(payload[1:])) == uint64(len(payload)-ownHeadBytes)
}

// appendOwn appends what an event makes of itself, as a msgpack binary.
func appendOwn(dst []byte, event encoding.BinaryAppender) ([]byte, error) {
	at := len(dst)
	begin := at + ownHeadBytes
	b, err := event.AppendBinary(append(dst, msgpcode.Bin32, 0, 0, 0, 0))
	switch {
	case err != nil:
		return dst, err
	case len(b) < begin || !bytes.Equal(b[:at], dst):
		return dst, errors.New("its AppendBinary does not append")
	case uint64(len(b)-begin) > math.MaxUint32:
		return dst, fmt.Errorf("its AppendBinary makes %d bytes", len(b)-begin)
	}
	binary.BigEndian.PutUint32(b[at+1:], uint32(len(b)-begin))
	return b, nil
}

// encodesItself reports whether a type has AppendBinary for what its UnmarshalBinary
// reads, and msgpack no other way with it. An error says why that cannot be.
func encodesItself(t reflect.Type) (bool, error) {
	var (
		appends  = reflect.TypeFor[encoding.BinaryAppender]()
		marshals = reflect.TypeFor[encoding.BinaryMarshaler]()
		reads    = reflect.TypeFor[encoding.BinaryUnmarshaler]()
		pointer  = reflect.PointerTo(t)
		isStruct = t.Kind() == reflect.Struct
	)
	switch {
	case !pointer.Implements(appends), t == reflect.TypeFor[time.Time](),
		slices.ContainsFunc(customs, pointer.Implements):
		return false, nil
	case isStruct && embeds(t, appends) && pointer.Implements(marshals):
		return false, nil // AppendBinary may be of the embedded type alone
	case t.Implements(appends) && pointer.Implements(reads) && !(isStruct && t.Implements(reads)):
		return true, nil
	case pointer.Implements(marshals):
		return false, nil
	default:
		return false, fmt.Errorf(
			"%v: AppendBinary must be on the value and UnmarshalBinary on the pointer", t)
	}
}

// customs are what msgpack looks for first, and textual what it looks for last.
var (
	customs = []reflect.Type{
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.CustomDecoder](),
		reflect.TypeFor[msgpack.Marshaler](), reflect.TypeFor[msgpack.Unmarshaler](),
	}
	textual = []reflect.Type{
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	}
)

// embeds reports whether a type embedded in a struct has the methods of an interface.
func embeds(t, methods reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (f.Type.Implements(methods) || reflect.PointerTo(f.Type).Implements(methods)) {
			return true
		}
	}
	return false
}

// unfit says why events of a type would not arrive as they were sent, as far as the
// type shows that.
func (m *Mux) unfit(t reflect.Type) error {
	if m.own || t.Kind() == reflect.Interface {
		return nil
	}
	own, err := encodesItself(t)
	if err == nil && !own && isHidden(t) {
		err = fmt.Errorf("%v has no exported field: nothing of it would travel", t)
	}
	return err
}

// isHidden reports whether a type is a struct that has fields, none of them exported,
// and says in no way how it travels.
func isHidden(t reflect.Type) (hidden bool) {
	pointer := reflect.PointerTo(t)
	if t.Kind() != reflect.Struct || slices.ContainsFunc(customs, pointer.Implements) ||
		slices.ContainsFunc(textual, pointer.Implements) {
		return false
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() {
			return false
		}
		hidden = hidden || f.Name != "_"
	}
	return hidden
}
