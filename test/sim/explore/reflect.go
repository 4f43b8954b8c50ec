// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"
	"unsafe"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Machines have no methods to copy or compare them, because only the explorer needs that.
// This file uses reflection over all fields, so that a new field is neither shared between
// states nor ignored in a comparison.

// sharedTypes are types whose values no step changes in place, so that copies can share
// them.
var sharedTypes = map[reflect.Type]bool{
	reflect.TypeFor[statemachine.Config](): true,
	reflect.TypeFor[member.Roster]():       true,
	reflect.TypeFor[message.Message]():     true,
	reflect.TypeFor[time.Time]():           true,
}

// ignoredTypes are types that do not affect the actions of a machine, except their times.
var ignoredTypes = map[reflect.Type]bool{
	reflect.TypeFor[statemachine.Config](): true,
	reflect.TypeFor[statemachine.Output](): true,
	reflect.TypeFor[time.Time]():           true,
	reflect.TypeFor[*rand.Rand]():          true,
}

// ignoredFields lists fields that do not affect the search: waiting times, the view that was
// reported last, and the state of procedures that get no event in this search.
var ignoredFields = map[string]bool{
	"Machine.dirty":     true, // left over from the last call
	"Machine.shown":     true,
	"Machine.join":      true,
	"Machine.follow":    true,
	"Machine.inquiry":   true,
	"Proposer.Failures": true,
	"Proposer.round":    true, // see keyOf
	"Proposer.version":  true, // see keyOf
}

// fields lists the compared fields of each struct type.
type fields map[reflect.Type][]int

func (f fields) fieldsOf(t reflect.Type) []int {
	list, ok := f[t]
	if !ok {
		list = []int{}
		for i := range t.NumField() {
			if !ignoredFields[t.Name()+"."+t.Field(i).Name] && !ignoredTypes[t.Field(i).Type] {
				list = append(list, i)
			}
		}
		f[t] = list
	}
	return list
}

// keyOf encodes everything that determines the actions of a machine, except their times.
func (f fields) keyOf(m machine) string {
	v := reflect.ValueOf(m).Elem()
	d := m.Durable()
	// The highest version and round seen matter only if they exceed the version and round that the
	// node would use next anyway.
	seen := v.FieldByName("propose")
	version := max(d.Held.Version+1, d.Promised.Version, seen.FieldByName("version").Uint())
	round := max(d.Promised.Ballot.Round, seen.FieldByName("round").Uint())
	key := binary.AppendUvarint(f.appendCanonical(nil, v), version)
	return string(binary.AppendUvarint(key, round))
}

// cloneMachine copies a machine and everything that its steps may change.
func cloneMachine(m machine) machine {
	switch m := m.(type) {
	case *voter:
		c := *m // a voter has no pointers to shared values
		return &c
	case *statemachine.Machine:
		c := new(statemachine.Machine)
		*c = *m
		detachValue(reflect.ValueOf(c).Elem())
		return c
	}
	panic(fmt.Sprintf("explore: cannot copy a %T", m))
}

// detachValue replaces every pointer and slice in v with a copy.
func detachValue(v reflect.Value) {
	if sharedTypes[v.Type()] {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[statemachine.Output]() {
			settableValue(v).SetZero() // output of the last call; the next call starts with an empty one
			return
		}
		for i := range v.NumField() {
			detachValue(v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(settableValue(v).Elem())
			settableValue(v).Set(p)
			detachValue(p.Elem())
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(s, settableValue(v))
		settableValue(v).Set(s)
		for i := range s.Len() {
			detachValue(s.Index(i))
		}
	case reflect.Map, reflect.Chan, reflect.Func, reflect.Interface, reflect.UnsafePointer:
		panic(fmt.Sprintf("explore: the machine has a field of type %s: define how to copy it", v.Type()))
	}
}

// settableValue returns the addressable value v so that it can be set even if it is an
// unexported field.
func settableValue(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// appendCanonical appends everything in v that determines the next steps. So equal bytes mean equal
// behaviour, except for times.
func (f fields) appendCanonical(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.String:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		return append(b, v.String()...)
	case reflect.Array, reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		plain := v.Type().Elem().Kind() == reflect.Uint8
		for i := range v.Len() {
			if plain {
				b = append(b, byte(v.Index(i).Uint()))
			} else {
				b = f.appendCanonical(b, v.Index(i))
			}
		}
		return b
	case reflect.Struct:
		for _, i := range f.fieldsOf(v.Type()) {
			b = f.appendCanonical(b, v.Field(i))
		}
		return b
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(b, 0)
		}
		if v.Kind() == reflect.Interface {
			b = append(b, v.Elem().Type().Name()...)
		}
		return f.appendCanonical(append(b, 1), v.Elem())
	}
	panic(fmt.Sprintf("explore: the machine has a field of type %s: define how to compare it",
		v.Type()))
}
