// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"reflect"
	"testing"
)

// The steps of a copy must not change the original: after the search, each state must still
// have the key under which it was stored.
func TestStepsLeaveTheOriginal(t *testing.T) {
	for _, opt := range []Options{
		{Size: 2, Attempts: 2, Crashes: 1}, {Size: 3, Attempts: 2, Crashes: 1, Paxos: true},
	} {
		x := newExplorer(opt)
		x.exploreAll()
		for _, n := range x.nodes {
			for key, i := range n.known {
				if n.fields.keyOf(n.states[i].machine) != key {
					t.Fatalf("%+v: state %d of %s changed since it was met", opt, i, n.cfg.Name)
				}
			}
		}
	}
}

// Every field of a machine must be compared, except the ignored fields.
func TestEveryFieldIsCompared(t *testing.T) {
	w := newWorld(Options{Size: 3})
	m := w.nodes[0].states[0].machine
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		c := cloneMachine(m)
		changed := flip(reflect.ValueOf(c).Elem().Field(i))
		skipped := ignoredTypes[f.Type] || ignoredFields["Machine."+f.Name]
		if skipped || !changed {
			continue
		}
		if w.fields.keyOf(c) == w.fields.keyOf(m) {
			t.Errorf("%s changed, but the machine counts as the same", f.Name)
		}
	}
}

// flip changes the first plain value in v that is compared. It returns false if v contains no such
// value.
func flip(v reflect.Value) bool {
	if ignoredTypes[v.Type()] {
		return false
	}
	switch v.Kind() {
	case reflect.Bool:
		settableValue(v).SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		settableValue(v).SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		settableValue(v).SetUint(v.Uint() + 1)
	case reflect.String:
		settableValue(v).SetString(v.String() + "x")
	case reflect.Array:
		return flip(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if !ignoredFields[v.Type().Name()+"."+v.Type().Field(i).Name] && flip(v.Field(i)) {
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// Copying a field of an unknown kind must panic.
func TestUnknownKindsPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a map was copied as if it were a value")
		}
	}()
	holder := struct{ m map[int]int }{map[int]int{}}
	detachValue(reflect.ValueOf(&holder).Elem())
}
