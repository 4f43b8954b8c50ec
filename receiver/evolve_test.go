// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/member"
)

// arrivesAs returns a test that a value of an old type arrives as want in a new type of that name.
func arrivesAs[Old, New any](sent Old, want New) func(*testing.T) {
	return sendToRelease(sent, want, "")
}

// isRefused returns a test that a value does not arrive in a new type, with the text of the error.
func isRefused[New, Old any](sent Old, text string) func(*testing.T) {
	return sendToRelease(sent, *new(New), text)
}

func sendToRelease[Old, New any](sent Old, want New, text string) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sender, receiver, got := NewMux(), NewMux(), make(chan New, 1)
			Register[Old](sender, Named("x"))
			Handle(receiver, func(_ context.Context, _ member.Member, n New) error {
				got <- n
				return nil
			}, Named("x"))
			started(t, sender, Setup{})
			started(t, receiver, Setup{})
			payload, err := sender.Encode(nil, sent)
			if err != nil {
				t.Fatal(err)
			}
			d := Delivery{From: &member.Member{}, Raw: Raw{"x", payload}}
			err = receiver.Deliver(t.Context(), d)
			if text != "" {
				if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), text) {
					t.Errorf("%+v: got %v, want ErrMalformed with %q", sent, err, text)
				}
				return
			}
			if err != nil {
				t.Fatalf("%+v: got %v, want %+v", sent, err, want)
			}
			hidden := cmp.AllowUnexported(ordered{}, longer{}, swapped{})
			if diff := cmp.Diff(want, <-got, hidden); diff != "" {
				t.Errorf("%+v: -want +got:\n%s", sent, diff)
			}
		})
	}
}

type (
	more    struct{ N, Added int }
	renamed struct{ M int }
	tagged  struct {
		M int `msgpack:"N"`
	}
	aliased struct {
		M int `msgpack:"M,alias:N"`
	}
	ordered struct {
		_msgpack struct{} `msgpack:",as_array"` //nolint:unused // its tag is used
		A, B     int
	}
	swapped struct {
		_msgpack struct{} `msgpack:",as_array"` //nolint:unused // its tag is used
		B, A     int
	}
	longer struct {
		_msgpack struct{} `msgpack:",as_array"` //nolint:unused // its tag is used
		A, B, C  int
	}
	moved struct{ Inner }
)

// keeps returns a test that a field keeps its value in a new type.
func keeps[Old, New any](sent Old, want New) func(*testing.T) {
	return arrivesAs(one[Old]{sent}, one[New]{want})
}

// loses returns a test that a value is refused in a field of type New.
func loses[New, Old any](sent Old, text string) func(*testing.T) {
	return isRefused[one[New]](one[Old]{sent}, "N: "+text)
}

// TestFieldsEvolve has tests for the rows of the table in docs/events.md that concern fields.
func TestFieldsEvolve(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"add":                  arrivesAs(one[int]{1}, more{N: 1}),
		"remove":               arrivesAs(more{1, 2}, one[int]{1}),
		"rename":               arrivesAs(one[int]{1}, renamed{}),
		"rename but tag":       arrivesAs(one[int]{1}, tagged{1}),
		"rename with alias":    arrivesAs(one[int]{1}, aliased{1}),
		"reorder":              arrivesAs(Inner{1, 2}, struct{ B, A int }{2, 1}),
		"embed":                arrivesAs(Inner{1, 2}, moved{Inner{1, 2}}),
		"embed no longer":      arrivesAs(moved{Inner{1, 2}}, Inner{1, 2}),
		"add in order":         isRefused[longer](ordered{}, "2 fields do not fit into the 3 of"),
		"remove in order":      isRefused[ordered](longer{}, "3 fields do not fit into the 2 of"),
		"reorder as_array":     arrivesAs(ordered{A: 1, B: 2}, swapped{B: 1, A: 2}),
		"begin as_array":       arrivesAs(Inner{1, 2}, ordered{A: 1, B: 2}),
		"end as_array":         arrivesAs(ordered{A: 1, B: 2}, Inner{1, 2}),
		"struct to map":        arrivesAs(Inner{1, 2}, map[string]int8{"A": 1, "B": 2}),
		"map to struct":        arrivesAs(map[string]int{"A": 1, "C": 2}, Inner{A: 1}),
		"map keys":             isRefused[map[int8]int](map[int]int{300: 1}, "[key]: 300 does not fit"),
		"keys in other zones":  isRefused[map[time.Time]int](twoZones(), "2 keys of map[time.Time]int"),
		"struct to number":     loses[int](Inner{}, "a map does not fit into int"),
		"number to struct":     loses[Inner](5, "an integer does not fit into receiver.Inner"),
		"number to list":       loses[[]int](5, "an integer does not fit into []int"),
		"list to number":       loses[int]([]int{5}, "an array does not fit into int"),
		"slice to array":       keeps([]int{1, 2}, [2]int{1, 2}),
		"array to slice":       keeps([2]int{1, 2}, []int{1, 2}),
		"short slice to array": loses[[3]int]([]int{1, 2}, "2 elements do not fit into [3]int"),
		"long slice to array":  loses[[3]int]([]int{1, 2, 3, 4}, "4 elements do not fit into [3]int"),
		"longer byte array":    loses[[8]byte]([4]byte{}, "4 bytes do not fit into [8]uint8"),
		"shorter byte array":   loses[[4]byte]([8]byte{}, "8 bytes do not fit into [4]uint8"),
		"bytes to list":        loses[[]int]([]byte{1}, "a binary does not fit into []int"),
		"list to bytes":        loses[[]byte]([]int{1}, "an array does not fit into []uint8"),
	} {
		t.Run(name, test)
	}
}

// TestValuesEvolve has tests for the other rows. TestNumbersArriveUnchanged has more numbers.
func TestValuesEvolve(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"widen":                 keeps(int8(-5), int64(-5)),
		"narrow what fits":      keeps(int64(127), int8(127)),
		"narrow":                loses[int32](int64(1<<40+7), "1099511627783 does not fit into int32"),
		"lose the sign":         keeps(5, uint32(5)),
		"lose a negative":       loses[uint32](-5, "-5 does not fit into uint32"),
		"get a sign":            loses[int64](uint64(math.MaxUint64), "18446744073709551615 does not"),
		"integer to float":      keeps(int64(1<<53), float64(1<<53)),
		"long integer to float": loses[float64](int64(1<<53+1), "9007199254740993 does not fit"),
		"float to integer":      loses[int](3.0, "the float 3 does not fit into int"),
		"widen a float":         keeps(float32(0.1), float64(float32(0.1))),
		"narrow a float":        loses[float32](0.1, "the float 0.1 does not fit"),
		"name a number":         keeps(int64(5), time.Duration(5)),
		"to pointer":            keeps(5, ptr(5)),
		"from pointer":          keeps(ptr(5), 5),
		"from nil":              keeps((*int)(nil), 0),
		"nil to list":           keeps((*int)(nil), []int(nil)),
		"text to bytes":         keeps("\xff", []byte{0xff}),
		"bytes to text":         keeps([]byte{0xff}, "\xff"),
		"text to number":        loses[int]("5", "a string does not fit into int"),
		"number to text":        loses[string](5, "an integer does not fit into string"),
		"number to bool":        loses[bool](1, "an integer does not fit into bool"),
		"bool to number":        loses[int](true, "a boolean does not fit into int"),
		"number to time":        loses[time.Time](1, "an integer into time.Time"),
		"time to number":        loses[int](time.Time{}, "a time does not fit into int"),
		"number to error":       loses[error](5, "an integer does not fit into error"),
		"to any":                arrivesAs(one[int8]{5}, one[any]{int64(5)}),
		"from any":              arrivesAs(one[any]{5}, one[int8]{5}),
		"from any, too large":   isRefused[one[int8]](one[any]{300}, "N: 300 does not fit into int8"),
		"from nil in any":       arrivesAs(one[any]{}, one[string]{}),
	} {
		t.Run(name, test)
	}
}

// twoZones has two keys that are equal but for their zones, which are not sent.
func twoZones() map[time.Time]int {
	at := time.Unix(5, 0)
	return map[time.Time]int{at.UTC(): 1, at.In(time.FixedZone("IST", 19800)): 2}
}

// TestInterfacesArrive checks which types arrive in an interface.
func TestInterfacesArrive(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	at := time.Unix(5, 6)
	for _, c := range []struct{ sent, want any }{
		{nil, nil},
		{true, true},
		{5, int64(5)},
		{200, int64(200)},
		{-200, int64(-200)},
		{70000, int64(70000)},
		{uint8(200), int64(200)},
		{int32(5), int64(5)},
		{uint64(math.MaxInt64), int64(math.MaxInt64)},
		{uint64(math.MaxInt64 + 1), uint64(math.MaxInt64 + 1)},
		{time.Second, int64(time.Second)},
		{float32(1.5), 1.5},
		{"text", "text"},
		{[]byte("bytes"), []byte("bytes")},
		{[2]byte{1, 2}, []byte{1, 2}},
		{at, at},
		{[]string{"a"}, []any{"a"}},
		{[]any{1, nil, []any{}}, []any{int64(1), nil, []any{}}},
		{map[string]int{"a": 1}, map[string]any{"a": int64(1)}},
		{Inner{1, 2}, map[string]any{"A": int64(1), "B": int64(2)}},
		{&Inner{1, 2}, map[string]any{"A": int64(1), "B": int64(2)}},
	} {
		if diff := cmp.Diff(one[any]{c.want}, trip[one[any]](t, mux, one[any]{c.sent})); diff != "" {
			t.Errorf("%T %v: -want +got:\n%s", c.sent, c.sent, diff)
		}
		in := trip[map[string][]any](t, mux, map[string][]any{"k": {c.sent}})
		if diff := cmp.Diff(map[string][]any{"k": {c.want}}, in); diff != "" {
			t.Errorf("%T in a map: -want +got:\n%s", c.sent, diff)
		}
	}
	for _, c := range []struct {
		sent any
		want string
	}{
		{map[int]string{1: "a"}, "map[int]string in an interface"},
		{[]any{map[int]string{1: "a"}}, "map[int]string in an interface"},
		{one[map[bool]int]{}, "one[map[bool]int] in an interface"},
		{netip.MustParseAddr("::1"), "netip.Addr in an interface"},
		{price{5}, "receiver.price in an interface"},
		{&price{5}, "needs both or none of MarshalBinary"},
		{secret{"x"}, "secret has no exported field"},
		{atTime{}, "without Note"},
		{errBoom, "errorString has no exported field"},
	} {
		for _, value := range []any{
			one[any]{c.sent}, &one[*[1]any]{&[1]any{c.sent}}, map[string]any{"k": c.sent}, []any{c.sent},
			map[string]*moreAny{"k": {N: c.sent}}, moreAny{N: c.sent},
		} {
			_, err := mux.EncodeAnswer(nil, value)
			if !errors.Is(err, ErrUnsendable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%T in %T: got %v, want ErrUnsendable with %q", c.sent, value, err, c.want)
			}
		}
	}
	// Only a receiver sees that a key is not a string in an interface of its own.
	payload, err := mux.EncodeAnswer(nil, one[map[int]int]{map[int]int{1: 2}})
	if err == nil {
		err = mux.DecodeAnswer(payload, new(one[any]))
	}
	const want = "N: a map in an interface has an integer"
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want ErrMalformed with the key", err)
	}
}

type moreAny struct {
	A int
	N any
}

// circle is a type whose values may contain themselves.
type circle struct {
	Next *circle
	List []circle
	By   map[string]*circle
}

func TestValuesThatContainThemselvesAreRefused(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	next, list, by, table := circle{}, circle{List: make([]circle, 1)}, circle{}, map[string]any{}
	next.Next, list.List[0].List = &next, list.List
	by.By = map[string]*circle{"": &by}
	table[""] = []any{table}
	for name, value := range map[string]any{
		"pointer": &next, "list": list, "map": by, "interface": table, "pointer in one": one[any]{&next},
	} {
		if _, err := mux.EncodeAnswer(nil, value); !errors.Is(err, ErrUnsendable) {
			t.Errorf("%s: got %v, want ErrUnsendable", name, err)
		}
	}
	tree := circle{Next: &circle{List: []circle{{}, {By: map[string]*circle{"a": nil}}}}}
	if diff := cmp.Diff(tree, trip[circle](t, mux, tree)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestErrorsArriveAsText(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	got := trip[one[error]](t, mux, one[error]{fmt.Errorf("wrapped: %w", errBoom)})
	if got.N == nil || got.N.Error() != "wrapped: boom" {
		t.Errorf("got %v, want the text", got.N)
	}
	if got := trip[one[error]](t, mux, one[error]{}); got.N != nil {
		t.Errorf("got %v, want nil", got.N)
	}
}

// TestValueBytes checks the bytes of an event: nodes of the previous release write and read the
// same.
func TestValueBytes(t *testing.T) {
	type part struct {
		Inner
		Name string `msgpack:"n,omitempty"`
	}
	type whole struct {
		I8    int8
		I     int
		U     uint64
		F     float32
		B     bool
		S     string
		Data  []byte
		Array [2]uint8
		List  []part
		By    map[int16]*part
		At    time.Time
		IP    netip.Addr
		Any   any
		None  *int
	}
	mux := NewMux()
	started(t, mux, Setup{})
	v := whole{
		I8: -1, I: 300, U: 7, F: 1.5, B: true, S: "s", Data: []byte{1}, Array: [2]uint8{2, 3},
		List: []part{{Inner{1, 2}, "p"}}, By: map[int16]*part{5: {}}, At: time.Unix(5, 0),
		IP: netip.MustParseAddr("10.0.0.1"), Any: int64(9),
	}
	const want = "8ea24938d0ffa149cd012ca155cf0000000000000007a146ca3fc00000a142c3a153a173a4446174" +
		"61c40101a54172726179c4020203a44c6973749183a14101a14202a16ea170a2427981d1000582a1" +
		"4100a14200a24174d6ff00000005a24950c4040a000001a3416e79d30000000000000009a44e6f6e" +
		"65c0"
	b, err := mux.EncodeAnswer(nil, v)
	if got := hex.EncodeToString(b); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	addr := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(v, trip[whole](t, mux, v), addr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
