// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"reflect"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// decoder decodes a payload into a value. It refuses what the value cannot hold: msgpack itself
// cuts integers to the width of the value, and decodes integers in interfaces into the smallest of
// eight types.
type decoder struct {
	dec     *msgpack.Decoder // reads in
	in      bytes.Reader     // reads payload
	payload []byte
}

// fieldError is an error of a value inside an event.
type fieldError struct {
	path string // such as ".Items[3].Count"
	err  error
}

func (e *fieldError) Error() string {
	return strings.TrimPrefix(e.path, ".") + ": " + e.err.Error()
}

func (e *fieldError) Unwrap() error { return e.err }

// inField adds the name of a field, or an index, to the path of an error.
func inField(name string, err error) error {
	if e, ok := err.(*fieldError); ok { //nolint:errorlint // a wrapped one has a text before its path
		e.path = name + e.path
		return e
	}
	return &fieldError{name, err}
}

// peekCode returns the first byte of the next value, without reading it.
func (d *decoder) peekCode() byte {
	if d.in.Len() == 0 {
		return 0xc1 // which begins no value
	}
	return d.payload[len(d.payload)-d.in.Len()]
}

// The kinds of values of msgpack, in errors.
const (
	aMap      = "a map"
	anArray   = "an array"
	aString   = "a string"
	aBinary   = "a binary"
	anInteger = "an integer"
	aFloat    = "a float"
	aBoolean  = "a boolean"
	aNil      = "nil"
	aTime     = "a time"
)

// kindOf returns the kind of the value that begins with c.
func kindOf(c byte) string {
	switch {
	case msgpcode.IsFixedNum(c), msgpcode.Uint8 <= c && c <= msgpcode.Int64:
		return anInteger
	case msgpcode.IsFixedMap(c), c == msgpcode.Map16, c == msgpcode.Map32:
		return aMap
	case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
		return anArray
	case msgpcode.IsString(c):
		return aString
	case msgpcode.IsBin(c):
		return aBinary
	case c == msgpcode.Float, c == msgpcode.Double:
		return aFloat
	case c == msgpcode.True, c == msgpcode.False:
		return aBoolean
	case c == msgpcode.Nil:
		return aNil
	case msgpcode.IsExt(c):
		return aTime // other extensions do not pass the scan
	default:
		return "the end of the payload"
	}
}

// decodeValue decodes the next value into v, which has the shape s.
func (d *decoder) decodeValue(s *shape, v reflect.Value) error {
	c := d.peekCode()
	found, k := kindOf(c), v.Kind()
	isText := found == aString || found == aBinary
	isList := k == reflect.Slice || k == reflect.Array
	switch {
	case s.opaque:
		if err := d.dec.DecodeValue(v); err != nil {
			return fmt.Errorf("%s into %v: %w", found, s.typ, err)
		}
		return nil
	case found == aNil:
		v.SetZero()
		return d.dec.DecodeNil()
	case s.number:
		return d.decodeNumber(found, v)
	case k == reflect.Struct && found == aMap:
		return d.decodeStruct(s, v)
	case k == reflect.Struct && found == anArray:
		return d.decodeFields(s, v)
	case k == reflect.String && isText:
		text, err := d.dec.DecodeString()
		v.SetString(text)
		return err
	case isList && s.elem == nil && isText:
		return d.decodeBytes(v)
	case isList && s.elem != nil && found == anArray:
		return d.decodeList(s, v)
	case k == reflect.Map && found == aMap:
		return d.decodeMap(s, v)
	case k == reflect.Bool && found == aBoolean:
		v.SetBool(c == msgpcode.True)
		_, err := d.dec.DecodeBool()
		return err
	case k == reflect.Pointer:
		v.Set(reflect.New(s.elem.typ))
		return d.decodeValue(s.elem, v.Elem())
	case k == reflect.Interface && v.NumMethod() == 0:
		value, err := d.decodeAny()
		if value != nil {
			v.Set(reflect.ValueOf(value))
		}
		return err
	case k == reflect.Interface && isText: // an error is sent as its text
		text, err := d.dec.DecodeString()
		v.Set(reflect.ValueOf(errors.New(text)))
		return err
	}
	return fmt.Errorf("%s does not fit into %v", found, s.typ)
}

// checkLength refuses a length that exceeds the rest of the payload: each element of a list or map,
// and each byte of a string or binary, takes at least one byte. It returns err if that is not nil.
func (d *decoder) checkLength(n int, err error) (int, error) {
	if err == nil && n > d.in.Len() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// decodeStruct decodes a map of fields. It skips unknown fields.
func (d *decoder) decodeStruct(s *shape, v reflect.Value) error {
	n, err := d.checkLength(d.dec.DecodeMapLen())
	for i := 0; i < n && err == nil; i++ {
		var name []byte
		if name, err = d.readName(); err != nil {
			return err
		}
		f := s.findField(name, i)
		if f == nil {
			err = d.dec.Skip()
			continue
		}
		if err = d.decodeValue(f.shape, v.FieldByIndex(f.index)); err != nil {
			return inField("."+f.name, err)
		}
	}
	return err
}

// findField returns the field with a name, or nil. The sender probably has the same fields, so this
// is probably field i.
func (s *shape) findField(name []byte, i int) *wireField {
	if i < len(s.fields) && s.fields[i].name == string(name) {
		return &s.fields[i]
	}
	return s.names[string(name)]
}

// readName reads the name of a field. The result belongs to the payload.
func (d *decoder) readName() ([]byte, error) {
	n, err := d.checkLength(d.dec.DecodeBytesLen())
	if err != nil || n <= 0 {
		return nil, err
	}
	begin := len(d.payload) - d.in.Len()
	_, err = d.in.Seek(int64(n), io.SeekCurrent)
	return d.payload[begin : begin+n], err
}

// decodeFields decodes an array of fields, which a struct with the option as_array becomes.
func (d *decoder) decodeFields(s *shape, v reflect.Value) error {
	n, err := d.dec.DecodeArrayLen()
	if err == nil && n != len(s.fields) {
		err = fmt.Errorf("%d fields do not fit into the %d of %v", n, len(s.fields), v.Type())
	}
	if err != nil {
		return err
	}
	for i := range s.fields {
		f := &s.fields[i]
		if err := d.decodeValue(f.shape, v.FieldByIndex(f.index)); err != nil {
			return inField("."+f.name, err)
		}
	}
	return nil
}

func (d *decoder) decodeBytes(v reflect.Value) error {
	n, err := d.checkLength(d.dec.DecodeBytesLen())
	switch {
	case err != nil:
		return err
	case v.Kind() == reflect.Slice:
		v.SetBytes(make([]byte, n))
	case n != v.Len():
		return fmt.Errorf("%d bytes do not fit into %v", n, v.Type())
	}
	return d.dec.ReadFull(v.Bytes())
}

func (d *decoder) decodeList(s *shape, v reflect.Value) error {
	n, err := d.checkLength(d.dec.DecodeArrayLen())
	switch {
	case err != nil:
		return err
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	case n != v.Len():
		return fmt.Errorf("%d elements do not fit into %v", n, v.Type())
	}
	for i := range n {
		if err := d.decodeValue(s.elem, v.Index(i)); err != nil {
			return inField(fmt.Sprintf("[%d]", i), err)
		}
	}
	return nil
}

func (d *decoder) decodeMap(s *shape, v reflect.Value) error {
	n, err := d.checkLength(d.dec.DecodeMapLen())
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), n))
	key, elem := reflect.New(s.key.typ).Elem(), reflect.New(s.elem.typ).Elem()
	for range n {
		key.SetZero()
		elem.SetZero()
		if err := d.decodeValue(s.key, key); err != nil {
			return inField("[key]", err)
		}
		if err := d.decodeValue(s.elem, elem); err != nil {
			return inField("[]", err)
		}
		v.SetMapIndex(key, elem)
	}
	if v.Len() != n {
		return fmt.Errorf("%d keys of %v are equal after decoding", n-v.Len()+1, v.Type())
	}
	return nil
}

// decodeAny decodes a value without a type. Integers become int64, or uint64 if only that can hold
// them, and floats become float64. Maps must have strings as keys.
func (d *decoder) decodeAny() (any, error) {
	c := d.peekCode()
	switch kindOf(c) {
	case anInteger:
		n, big, err := d.readInteger()
		if big {
			return n, err
		}
		return int64(n), err
	case aFloat:
		return d.dec.DecodeFloat64()
	case anArray:
		n, err := d.checkLength(d.dec.DecodeArrayLen())
		if err != nil {
			return nil, err
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = d.decodeAny(); err != nil {
				return nil, inField(fmt.Sprintf("[%d]", i), err)
			}
		}
		return list, nil
	case aMap:
		n, err := d.checkLength(d.dec.DecodeMapLen())
		if err != nil {
			return nil, err
		}
		table := make(map[string]any, n)
		for range n {
			if found := kindOf(d.peekCode()); found != aString {
				return nil, fmt.Errorf("a map in an interface has %s as key, want a string", found)
			}
			key, err := d.dec.DecodeString()
			if err == nil {
				table[key], err = d.decodeAny()
			}
			if err != nil {
				return nil, inField("[]", err)
			}
		}
		return table, nil
	default:
		return d.dec.DecodeInterface()
	}
}

// readInteger reads an integer. If it is too large for an int64, big is set and n is the uint64.
// Otherwise n is the int64, converted.
func (d *decoder) readInteger() (n uint64, big bool, err error) {
	big = d.peekCode() == msgpcode.Uint64
	n, err = d.dec.DecodeUint64() // extends the sign of narrow integers
	return n, big && n>>63 == 1, err
}

// decodeNumber decodes an integer or a float if v can hold exactly its value.
func (d *decoder) decodeNumber(found string, v reflect.Value) error {
	switch found {
	case anInteger:
		n, big, err := d.readInteger()
		if err == nil && !setInteger(v, n, !big && n>>63 == 1) {
			if big {
				return fmt.Errorf("%d does not fit into %v", n, v.Type())
			}
			return fmt.Errorf("%d does not fit into %v", int64(n), v.Type())
		}
		return err
	case aFloat:
		f, err := d.dec.DecodeFloat64()
		isCut := v.Kind() == reflect.Float32 && float64(float32(f)) != f && !math.IsNaN(f)
		if err != nil || !v.CanFloat() || isCut {
			return cmp.Or(err, fmt.Errorf("the float %v does not fit into %v", f, v.Type()))
		}
		v.SetFloat(f)
		return nil
	default:
		return fmt.Errorf("%s does not fit into %v", found, v.Type())
	}
}

// setInteger sets v to an integer, or returns false if v cannot hold it. If negative is set, n is
// an int64.
func setInteger(v reflect.Value, n uint64, negative bool) bool {
	switch {
	case v.CanInt():
		if !negative && n>>63 == 1 || v.OverflowInt(int64(n)) {
			return false
		}
		v.SetInt(int64(n))
	case v.CanUint():
		if negative || v.OverflowUint(n) {
			return false
		}
		v.SetUint(n)
	default:
		precision := 53
		if v.Kind() == reflect.Float32 {
			precision = 24
		}
		size := n
		if negative {
			size = -n
		}
		if bits.Len64(size)-bits.TrailingZeros64(size) > precision {
			return false
		}
		f := float64(size)
		if negative {
			f = -f
		}
		v.SetFloat(f)
	}
	return true
}
