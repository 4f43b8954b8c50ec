// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"

	"github.com/vmihailenco/msgpack/v5"
)

// coding is a pair of methods with which a type replaces its encoding. The functions find them by
// constant names, because with a computed name the linker keeps every method of the program.
type coding struct {
	name             string // of the methods, in errors
	encodes, decodes reflect.Type
	encoder, decoder func(reflect.Type) (reflect.Method, bool)
}

var (
	appending = coding{
		"AppendBinary and UnmarshalBinary",
		reflect.TypeFor[encoding.BinaryAppender](), reflect.TypeFor[encoding.BinaryUnmarshaler](),
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("AppendBinary") },
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("UnmarshalBinary") },
	}
	customized = coding{
		"EncodeMsgpack and DecodeMsgpack",
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.CustomDecoder](),
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("EncodeMsgpack") },
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("DecodeMsgpack") },
	}
	asMsgpack = coding{
		"MarshalMsgpack and UnmarshalMsgpack",
		reflect.TypeFor[msgpack.Marshaler](), reflect.TypeFor[msgpack.Unmarshaler](),
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("MarshalMsgpack") },
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("UnmarshalMsgpack") },
	}
	asBinary = coding{
		"MarshalBinary and UnmarshalBinary",
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](),
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("MarshalBinary") },
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("UnmarshalBinary") },
	}
	asText = coding{
		"MarshalText and UnmarshalText",
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("MarshalText") },
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("UnmarshalText") },
	}
	asJSON = coding{
		"MarshalJSON and UnmarshalJSON",
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("MarshalJSON") },
		func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("UnmarshalJSON") },
	}
)

// The codings that msgpack uses, in its order, and those of JSON, the likeliest codec of an
// application.
var (
	msgpackCodings = []*coding{&customized, &asMsgpack, &asBinary, &asText}
	jsonCodings    = []*coding{&asJSON, &asText}
)

// methodsOf returns the codings whose methods encode and decode values of a type, or nil. Like
// msgpack, it prefers any method of the value to those of the pointer.
func methodsOf(t reflect.Type, codings []*coding) (encodes, decodes *coding) {
	for _, t := range []reflect.Type{t, reflect.PointerTo(t)} {
		for _, c := range codings {
			if encodes == nil && t.Implements(c.encodes) {
				encodes = c
			}
			if decodes == nil && t.Implements(c.decodes) {
				decodes = c
			}
		}
	}
	return encodes, decodes
}

// checkMethods returns an error if the methods of a type leave out exported fields. A coding may be
// nil.
func checkMethods(t reflect.Type, encodes, decodes *coding) error {
	if encodes != nil {
		if err := checkPromoted(t, encodes.encodes, encodes.encoder); err != nil {
			return err
		}
	}
	if decodes != nil {
		return checkPromoted(t, decodes.decodes, decodes.decoder)
	}
	return nil
}

// checkPromoted returns an error if a struct has a method only because it embeds a type, while it
// has exported fields beside that type: the method would not encode them.
func checkPromoted(
	t, has reflect.Type, find func(reflect.Type) (reflect.Method, bool),
) error {
	if t = sentType(t); t.Kind() != reflect.Struct {
		return nil
	}
	method, ok := find(t)
	if !ok {
		method, ok = find(reflect.PointerTo(t))
	}
	if !ok || isDeclared(method) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous || !f.Type.Implements(has) && !reflect.PointerTo(f.Type).Implements(has) {
			continue
		}
		for _, other := range reflect.VisibleFields(t) {
			isStruct := other.Anonymous && other.Type.Kind() == reflect.Struct
			if other.Index[0] != i && other.IsExported() && !isStruct {
				return fmt.Errorf("%v would be sent by %s of its embedded field %s, without %s: "+
					"give that field a name, or declare the method for %v",
					t, method.Name, f.Name, other.Name, t)
			}
		}
		return checkPromoted(f.Type, has, find)
	}
	return nil
}

// isDeclared reports whether a method is declared for a type itself, and not promoted from an
// embedded field. Package reflect does not know this, but the position of a promoted method does,
// because the compiler generates it.
func isDeclared(method reflect.Method) bool {
	f := runtime.FuncForPC(method.Func.Pointer())
	if f == nil {
		return true
	}
	file, _ := f.FileLine(f.Entry())
	return file != "<autogenerated>"
}

// checkEmbedded checks the methods of a type and of the types in it, for a codec that may be JSON.
func checkEmbedded(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	encodes, decodes := methodsOf(t, jsonCodings)
	if t.Kind() != reflect.Pointer && (encodes != nil || decodes != nil) {
		return checkMethods(t, encodes, decodes)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkEmbedded(t.Elem(), seen)
	case reflect.Map:
		return cmp.Or(checkEmbedded(t.Key(), seen), checkEmbedded(t.Elem(), seen))
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				if err := checkEmbedded(f.Type, seen); err != nil {
					return fmt.Errorf("%v.%s: %w", t, f.Name, err)
				}
			}
		}
	}
	return nil
}
