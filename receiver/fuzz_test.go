// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// specimen has a field of every kind that can be sent.
type specimen struct {
	Inner
	Bool    bool
	Int     int
	I8      int8
	I16     int16
	I32     int32
	I64     int64
	Uint    uint
	U8      uint8
	U16     uint16
	U32     uint32
	U64     uint64
	F32     float32
	F64     float64
	Text    string
	Level   level
	For     time.Duration
	At      time.Time
	Addr    netip.Addr
	Data    []byte
	Hash    [3]byte
	Pair    [2]int16
	Numbers []int64
	Words   []string
	Whole   *specimen
	Parts   []*specimen
	Omitted *Inner `msgpack:"o,omitempty"`
	Times   *time.Time
	Names   map[string]string
	ByInt   map[int]uint16
	ByArray map[[2]int8]*Inner
	Any     any
	Table   map[string]any
	Fault   error
}

// supply gives values, in an order that the fuzzer controls. It is followed by zeros.
type supply struct{ bytes []byte }

func (s *supply) takeNumber() uint64 {
	var b [8]byte
	n := 1
	if len(s.bytes) > 0 && s.bytes[0] >= 0xf0 { // some numbers are long
		n = 9
	}
	n = min(n, len(s.bytes))
	if n > 1 {
		copy(b[:], s.bytes[1:n])
	} else {
		copy(b[:], s.bytes[:n])
	}
	s.bytes = s.bytes[n:]
	return binary.LittleEndian.Uint64(b[:])
}

func (s *supply) takeText() string {
	n := min(int(s.takeNumber()%40), len(s.bytes))
	text := string(s.bytes[:n])
	s.bytes = s.bytes[n:]
	return text
}

// fillValue fills v. It leaves out some pointers, lists and maps, and makes others empty.
func (s *supply) fillValue(v reflect.Value) {
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Unix(int64(s.takeNumber()%(1<<36)), int64(s.takeNumber()%1e9))
		return
	case *netip.Addr:
		*at, _ = netip.ParseAddr(fmt.Sprintf("10.0.0.%d", s.takeNumber()%300))
		return
	case *error:
		if text := s.takeText(); text != "" {
			*at = errors.New(text)
		}
		return
	case *any:
		*at = s.takeAny()
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(s.takeNumber()%2 == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(s.takeNumber()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(s.takeNumber())
	case reflect.Float32:
		v.SetFloat(float64(math.Float32frombits(uint32(s.takeNumber()))))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(s.takeNumber()))
	case reflect.String:
		v.SetString(s.takeText())
	case reflect.Pointer:
		if len(s.bytes) > 0 && s.takeNumber()%2 == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			s.fillValue(v.Elem())
		}
	case reflect.Slice:
		if n := int(s.takeNumber() % 4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
		}
		for i := range v.Len() {
			s.fillValue(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			s.fillValue(v.Index(i))
		}
	case reflect.Map:
		n := int(s.takeNumber() % 4)
		if n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for range n - 1 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			s.fillValue(key)
			s.fillValue(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			s.fillValue(v.Field(i))
		}
	}
}

// takeAny returns a value for an interface, as it arrives.
func (s *supply) takeAny() any {
	if len(s.bytes) == 0 {
		return nil
	}
	switch s.takeNumber() % 8 {
	case 0:
		return nil
	case 1:
		return int64(s.takeNumber())
	case 2:
		return s.takeNumber() | 1<<63
	case 3:
		return math.Float64frombits(s.takeNumber())
	case 4:
		return s.takeText()
	case 5:
		return []byte(s.takeText())
	case 6:
		return []any{s.takeAny(), s.takeAny()}
	default:
		return map[string]any{s.takeText(): s.takeAny()}
	}
}

// FuzzValues sends a value that is drawn from the input. It must arrive equal. Then it decodes the
// input itself. Unless the input is refused, its value must arrive equal too.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{
		"", "\x01\x02\x03",
		"\x84\xa1A\x01\xa3Int\xff\xa3Any\x93\x01\xc0\x81\xa1x\xcb?\xf0\x00\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	for n := range byte(8) {
		seed := make([]byte, 600)
		for i := range seed {
			seed[i] = byte(i)*(2*n+1) + byte(i>>3)
		}
		f.Add(seed)
	}
	mux := NewMux()
	if err := mux.Start(Setup{}); err != nil {
		f.Fatal(err)
	}
	options := []cmp.Option{
		cmpopts.EquateNaNs(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
	}
	check := func(t *testing.T, sent *specimen) {
		payload, err := mux.EncodeAnswer(nil, sent)
		if err != nil && strings.Contains(err.Error(), "nested too deeply") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var got specimen
		if err := mux.DecodeAnswer(payload, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*sent, got, options...); diff != "" {
			t.Errorf("-sent +got:\n%s", diff)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4<<10 {
			return
		}
		var sent specimen
		(&supply{input}).fillValue(reflect.ValueOf(&sent).Elem())
		check(t, &sent)
		sent = specimen{}
		switch err := mux.DecodeAnswer(input, &sent); {
		case err == nil:
			check(t, &sent)
		case !errors.Is(err, ErrMalformed):
			t.Errorf("got %v, want ErrMalformed", err)
		}
	})
}
