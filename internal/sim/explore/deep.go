// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"
	"unsafe"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// A machine has no way to be copied or compared, and needs none to run. Both are
// done here by reflection over all that it has, so that a field that it gets one
// day is neither shared by two states nor forgotten when they are compared.

// passive are types that no step changes in place: copies share them.
var passive = map[reflect.Type]bool{
	reflect.TypeFor[statemachine.Config](): true,
	reflect.TypeFor[member.Roster]():       true,
	reflect.TypeFor[time.Time]():           true,
}

// apart are types that say nothing of what a machine will do, but for when.
var apart = map[reflect.Type]bool{
	reflect.TypeFor[statemachine.Config](): true,
	reflect.TypeFor[statemachine.Output](): true,
	reflect.TypeFor[time.Time]():           true,
	reflect.TypeFor[*rand.Rand]():          true,
}

// beside are fields, by type, that decide nothing here: waits that grow, what was
// shown, and flows of which no event arrives.
var beside = map[string]bool{
	"Machine.dirty":     true, // of the last call, as what was shown
	"Machine.shown":     true,
	"Machine.join":      true,
	"Machine.follow":    true,
	"Machine.inquiry":   true,
	"Proposer.Failures": true,
	"Proposer.round":    true, // see keyOf
	"Proposer.version":  true, // the same
}

// fields are those of a struct type that are compared.
type fields map[reflect.Type][]int

func (f fields) fieldsOf(t reflect.Type) []int {
	list, ok := f[t]
	if !ok {
		list = []int{}
		for i := range t.NumField() {
			if !beside[t.Name()+"."+t.Field(i).Name] && !apart[t.Field(i).Type] {
				list = append(list, i)
			}
		}
		f[t] = list
	}
	return list
}

// keyOf is all of a machine that decides what it will do, but for when.
func (f fields) keyOf(m machine) string {
	v := reflect.ValueOf(m).Elem()
	d := m.Durable()
	// What was seen counts where it is above what comes next anyway.
	seen := v.FieldByName("propose")
	version := max(d.Held.Version+1, d.Promised.Version, seen.FieldByName("version").Uint())
	round := max(d.Promised.Ballot.Round, seen.FieldByName("round").Uint())
	key := binary.AppendUvarint(f.appendCanonical(nil, v), version)
	return string(binary.AppendUvarint(key, round))
}

// cloneMachine copies a machine with all that its steps change.
func cloneMachine(m machine) machine {
	switch m := m.(type) {
	case *voter:
		c := *m // of values alone
		return &c
	case *statemachine.Machine:
		c := new(statemachine.Machine)
		*c = *m
		detachValue(reflect.ValueOf(c).Elem())
		return c
	}
	panic(fmt.Sprintf("explore: cannot copy a %T", m))
}

// detachValue gives v memory of its own behind every pointer and slice.
func detachValue(v reflect.Value) {
	if passive[v.Type()] {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[statemachine.Output]() {
			settableValue(v).SetZero() // of the last call; the next begins with none
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
		panic(fmt.Sprintf("explore: a machine has a %s: say how it is copied", v.Type()))
	}
}

// settableValue is v, which has an address, without the guard of unexported fields.
func settableValue(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// appendCanonical appends all of v that decides what comes next, so that equal bytes mean
// equal behaviour but for times.
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
	panic(fmt.Sprintf("explore: a machine has a %s: say how it is compared", v.Type()))
}
