// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
)

type level int8

// limitValues returns values at the limits of every type of number.
func limitValues() (values []reflect.Value) {
	for _, t := range numberTypes {
		for _, n := range []int64{
			0, 1, -1, math.MaxInt8, math.MinInt8, math.MaxUint8, 1 << 8, math.MinInt8 - 1,
			math.MaxInt16, math.MinInt16, math.MaxUint16, 1 << 16, 1 << 24, 1<<24 + 1, math.MaxInt32,
			math.MinInt32, math.MaxUint32, 1 << 32, 1 << 53, 1<<53 + 1, -1<<53 - 1, math.MaxInt64,
			math.MinInt64,
		} {
			if v := reflect.New(t).Elem(); v.CanInt() && !v.OverflowInt(n) {
				v.SetInt(n)
				values = append(values, v)
			} else if v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)) {
				v.SetUint(uint64(n))
				values = append(values, v)
			} else if v.CanFloat() {
				v.SetFloat(float64(n))
				values = append(values, v)
			}
		}
	}
	for _, f := range []any{
		uint64(math.MaxUint64), uint64(1 << 63), 1.5, float32(1.5), 0.1, float32(0.1), 1e300,
		math.SmallestNonzeroFloat64, math.Inf(1), float32(math.Inf(-1)), math.Copysign(0, -1),
	} {
		values = append(values, reflect.ValueOf(f))
	}
	return values
}

var numberTypes = []reflect.Type{
	reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](),
	reflect.TypeFor[int32](), reflect.TypeFor[int64](), reflect.TypeFor[uint](),
	reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](),
	reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[level](),
	reflect.TypeFor[time.Duration](),
}

// exactValue returns the value of a number.
func exactValue(v reflect.Value) *big.Float {
	switch {
	case v.CanInt():
		return new(big.Float).SetInt64(v.Int())
	case v.CanUint():
		return new(big.Float).SetUint64(v.Uint())
	default:
		return big.NewFloat(v.Float())
	}
}

// canHold reports whether a type can hold a number.
func canHold(n reflect.Value, t reflect.Type) bool {
	v := reflect.New(t).Elem()
	whole, _ := exactValue(n).Int(nil)
	switch {
	case v.CanFloat() && n.CanFloat():
		return t.Kind() == reflect.Float64 || float64(float32(n.Float())) == n.Float()
	case n.CanFloat():
		return false
	case v.CanInt():
		return whole.IsInt64() && !v.OverflowInt(whole.Int64())
	case v.CanUint():
		return whole.IsUint64() && !v.OverflowUint(whole.Uint64())
	case t.Kind() == reflect.Float32:
		_, accuracy := exactValue(n).Float32()
		return accuracy == big.Exact
	default:
		_, accuracy := exactValue(n).Float64()
		return accuracy == big.Exact
	}
}

// places are the ways in which a type can hold numbers: its type, how it holds one, how it is read.
var places = map[string]struct {
	in  func(t reflect.Type) reflect.Type
	put func(place, n reflect.Value)
	get func(place reflect.Value) reflect.Value
}{
	"itself": {
		func(t reflect.Type) reflect.Type { return t },
		func(v, n reflect.Value) { v.Set(n) },
		func(v reflect.Value) reflect.Value { return v },
	},
	"field of a field": {
		func(t reflect.Type) reflect.Type { return structOf(structOf(t)) },
		func(v, n reflect.Value) { v.Field(0).Field(0).Set(n) },
		func(v reflect.Value) reflect.Value { return v.Field(0).Field(0) },
	},
	"pointer": {
		func(t reflect.Type) reflect.Type { return structOf(reflect.PointerTo(t)) },
		func(v, n reflect.Value) {
			v.Field(0).Set(reflect.New(n.Type()))
			v.Field(0).Elem().Set(n)
		},
		func(v reflect.Value) reflect.Value { return v.Field(0).Elem() },
	},
	"slice": {
		func(t reflect.Type) reflect.Type { return reflect.SliceOf(structOf(t)) },
		func(v, n reflect.Value) {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v.Index(0).Field(0).Set(n)
		},
		func(v reflect.Value) reflect.Value { return v.Index(0).Field(0) },
	},
	"array": {
		func(t reflect.Type) reflect.Type { return reflect.ArrayOf(1, structOf(t)) },
		func(v, n reflect.Value) { v.Index(0).Field(0).Set(n) },
		func(v reflect.Value) reflect.Value { return v.Index(0).Field(0) },
	},
	"key": {
		func(t reflect.Type) reflect.Type { return reflect.MapOf(t, reflect.TypeFor[bool]()) },
		func(v, n reflect.Value) {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(n, reflect.ValueOf(true))
		},
		func(v reflect.Value) reflect.Value { return v.MapKeys()[0] },
	},
	"value of a map": {
		func(t reflect.Type) reflect.Type { return reflect.MapOf(reflect.TypeFor[string](), t) },
		func(v, n reflect.Value) {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("k"), n)
		},
		func(v reflect.Value) reflect.Value { return v.MapIndex(reflect.ValueOf("k")) },
	},
}

func structOf(t reflect.Type) reflect.Type {
	return reflect.StructOf([]reflect.StructField{{Name: "N", Type: t}})
}

// TestNumbersArriveUnchanged sends numbers at all limits from every type of number to every other,
// in every place. A number must arrive with its value, or be refused with its value and the type.
func TestNumbersArriveUnchanged(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	for name, p := range places {
		for _, n := range limitValues() {
			sent := reflect.New(p.in(n.Type())).Elem()
			p.put(sent, n)
			payload, err := mux.EncodeAnswer(nil, sent.Interface())
			if err != nil {
				t.Fatal(err)
			}
			for _, to := range numberTypes {
				got := reflect.New(p.in(to))
				err := mux.DecodeAnswer(payload, got.Interface())
				at := fmt.Sprintf("%s: %v of %v to %v", name, n, n.Type(), to)
				text := fmt.Sprintf("%v does not fit into %v", reflect.Indirect(withoutMethods(n)), to)
				switch fit := canHold(n, to); {
				case fit && err != nil:
					t.Errorf("%s: got %v", at, err)
				case fit && exactValue(p.get(got.Elem())).Cmp(exactValue(n)) != 0:
					t.Errorf("%s: got %v", at, p.get(got.Elem()))
				case !fit && (!errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), text)):
					t.Errorf("%s: got %v, %v, want ErrMalformed with %q", at, got.Elem(), err, text)
				}
			}
		}
	}
}

// withoutMethods returns a number without its methods, such as time.Duration.String.
func withoutMethods(n reflect.Value) reflect.Value {
	if n.CanInt() {
		return reflect.ValueOf(n.Int())
	}
	if n.CanFloat() {
		return reflect.ValueOf(n.Float())
	}
	return n
}

// TestNumberNamesItsField checks that the error of a number names its field, value and type.
func TestNumberNamesItsField(t *testing.T) {
	type item[T any] struct{ Count T }
	type basket[T any] struct {
		Items []item[T]
		By    map[string]*item[T]
	}
	mux := NewMux()
	started(t, mux, Setup{})
	for want, value := range map[string]any{
		"Items[1].Count: 300 does not fit into int8": basket[int]{Items: []item[int]{{1}, {300}}},
		"By[].Count: -129 does not fit into int8": basket[int]{
			By: map[string]*item[int]{"a": {-129}},
		},
		"By: an array does not fit into map[string]*receiver.item[int8]": struct{ By []int }{[]int{}},
		"Items[0]: a string does not fit into receiver.item[int8]": map[string][]string{
			"Items": {""},
		},
		"an integer does not fit into receiver.basket[int8]": 3,
	} {
		payload, err := mux.EncodeAnswer(nil, value)
		if err != nil {
			t.Fatal(err)
		}
		var got basket[int8]
		err = mux.DecodeAnswer(payload, &got)
		if err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%+v: got %v, want %q", value, err, want)
		}
	}
	var got struct{ N int8 }
	payload, err := mux.Encode(nil, JSON{Name: "x", Text: []byte(`{"N": 300}`)})
	if err == nil {
		err = mux.DecodeAnswer(payload, &got)
	}
	if err == nil || !strings.Contains(err.Error(), "N: 300 does not fit into int8") {
		t.Errorf("JSON: got %v, %v, want that 300 does not fit", got, err)
	}
}
