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
	"time"

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
		pointer.Implements(customized.encodes), pointer.Implements(customized.decodes),
		pointer.Implements(asMsgpack.encodes), pointer.Implements(asMsgpack.decodes):
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
	if t.Kind() == reflect.Interface {
		return nil
	}
	if _, err := encodesItself(t); err != nil && !m.ownCodec {
		return err
	}
	return m.checkFields(t)
}

// checkFields is like checkType, but for a value of any name, such as an answer.
func (m *Mux) checkFields(t reflect.Type) error {
	if p, ok := m.codec.(msgpackCodec); ok {
		return p.typeOf(sentType(t)).err
	}
	return checkEmbedded(t, map[reflect.Type]bool{})
}
