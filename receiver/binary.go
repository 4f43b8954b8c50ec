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

// binaryHeadBytes is the length of the msgpack head that precedes a binary event. The
// msgpack decoder can read it too.
const binaryHeadBytes = 5

// isBinary reports whether a payload was written by appendBinary.
func isBinary(payload []byte) bool {
	return len(payload) >= binaryHeadBytes && payload[0] == msgpcode.Bin32 &&
		uint64(binary.BigEndian.Uint32(payload[1:])) == uint64(len(payload)-binaryHeadBytes)
}

// appendBinary appends the output of AppendBinary as a msgpack binary.
func appendBinary(dst []byte, event encoding.BinaryAppender) ([]byte, error) {
	at := len(dst)
	begin := at + binaryHeadBytes
	b, err := event.AppendBinary(append(dst, msgpcode.Bin32, 0, 0, 0, 0))
	switch {
	case err != nil:
		return dst, err
	case len(b) < begin || !bytes.Equal(b[:at], dst):
		return dst, errors.New("AppendBinary did not append to its argument")
	case uint64(len(b)-begin) > math.MaxUint32:
		return dst, fmt.Errorf("AppendBinary appended %d bytes, which is too many", len(b)-begin)
	}
	binary.BigEndian.PutUint32(b[at+1:], uint32(len(b)-begin))
	return b, nil
}

// encodesItself reports whether values of a type are sent by AppendBinary and UnmarshalBinary: the
// type must have both, and no method that msgpack would prefer. The error describes what is wrong
// with these methods.
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
		slices.ContainsFunc(msgpackTypes, pointer.Implements):
		return false, nil
	case isStruct && embedsMethods(t, appends) && pointer.Implements(marshals):
		return false, nil // AppendBinary may encode only the embedded value
	case t.Implements(appends) && pointer.Implements(reads) && !(isStruct && t.Implements(reads)):
		return true, nil
	case pointer.Implements(marshals):
		return false, nil
	default:
		return false, fmt.Errorf(
			"%v: declare AppendBinary on the value and UnmarshalBinary on the pointer", t)
	}
}

// msgpackTypes are the interfaces that msgpack tries first, and fallbackTypes are those that it
// tries last.
var (
	msgpackTypes = []reflect.Type{
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.CustomDecoder](),
		reflect.TypeFor[msgpack.Marshaler](), reflect.TypeFor[msgpack.Unmarshaler](),
	}
	fallbackTypes = []reflect.Type{
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	}
)

// embedsMethods reports whether a type embedded in the struct t implements an interface.
func embedsMethods(t, methods reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (f.Type.Implements(methods) || reflect.PointerTo(f.Type).Implements(methods)) {
			return true
		}
	}
	return false
}

// checkType returns an error if events of the type could not be received as they were sent.
func (m *Mux) checkType(t reflect.Type) error {
	if m.ownCodec || t.Kind() == reflect.Interface {
		return nil
	}
	own, err := encodesItself(t)
	if err == nil && !own && hidesAllFields(t) {
		err = fmt.Errorf("%v has no exported field: none of its fields would be sent", t)
	}
	return err
}

// hidesAllFields reports whether a type is a struct with only unexported fields and no
// encoding of its own.
func hidesAllFields(t reflect.Type) (hidden bool) {
	pointer := reflect.PointerTo(t)
	if t.Kind() != reflect.Struct || slices.ContainsFunc(msgpackTypes, pointer.Implements) ||
		slices.ContainsFunc(fallbackTypes, pointer.Implements) {
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
