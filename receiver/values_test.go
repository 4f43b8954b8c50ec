// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/member"
)

// These types embed a type with methods that encode it, and have other fields.
type (
	atTime struct {
		time.Time
		Note string
	}
	atTimeBy struct {
		*time.Time
		Note string
	}
	atAddr struct {
		netip.Addr
		Note string
	}
	atIP struct {
		net.IP
		Note string
	}
	atURL struct {
		url.URL
		Note string
	}
	atLevel struct {
		slog.Level
		Note string
	}
	atPrice struct {
		price
		Note string
	}
	atGeneric[T any] struct {
		time.Time
		Note T
	}
	atOwner struct {
		N  int
		At atTime
	}
	atDepth            struct{ In struct{ atTime } }
	fullGeneric[T any] struct { // encodes all of its fields
		time.Time
		Note T
	}
	onlyTime struct {
		time.Time
		cached int
	}
	twoTimes struct { // no method is promoted: both fields have it
		time.Time
		netip.Addr
		Note string
	}
	apart struct {
		Time time.Time
		Note string
	}
)

func (f fullGeneric[T]) MarshalBinary() ([]byte, error) {
	return json.Marshal([]any{f.Time, f.Note})
}

func (f *fullGeneric[T]) UnmarshalBinary(b []byte) error {
	return json.Unmarshal(b, &[]any{&f.Time, &f.Note})
}

// These types have fields that would arrive empty, or cannot be decoded.
type (
	secret    struct{ text string }
	holder    struct{ In secret }
	justText  struct{ N halfText }
	halfText  int
	inner     struct{ A, B int }
	byPointer struct{ *inner }
	Inner     struct{ A, B int }
	ByPointer struct{ *Inner }
	shadowing struct {
		Inner
		A int
	}
	twice struct {
		A int `msgpack:"n"`
		B int `msgpack:"n"`
	}
	lower    int             //nolint:unused // it is embedded
	embedded struct{ lower } //nolint:unused // it cannot be sent
	stringer struct{ V fmt.Stringer }
)

// These types have embedded fields that can be sent.
type (
	lowEmbedded struct {
		inner
		C int
	}
	fieldBefore struct {
		A int
		Inner
	}
	separate struct {
		*Inner `msgpack:",noinline"`
		A      int `msgpack:"n"`
		Also   Inner
		Hidden int `msgpack:"h,omitempty"`
		Off    int `msgpack:"-"`
		Last   int `msgpack:"last,alias:first"`
	}
)

func (halfText) MarshalText() ([]byte, error) { return nil, nil }

// registerBoth returns the errors of a type as an event and as an answer.
func registerBoth[T any](mux func() *Mux, value T) map[string]error {
	events, answers := mux(), mux()
	Register[T](events, Named("x"))
	HandleRequest(answers, func(context.Context, member.Member, order) (T, error) {
		return value, nil
	})
	return map[string]error{"event": events.Start(Setup{}), "answer": answers.Start(Setup{})}
}

// refusal returns a test that values of a type are refused, with a text.
func refusal[T any](value T, want string) func(*testing.T) {
	return func(t *testing.T) {
		mux := NewMux()
		started(t, mux, Setup{})
		errs := registerBoth(func() *Mux { return NewMux() }, value)
		_, errs["sent answer"] = mux.EncodeAnswer(nil, value)
		_, errs["sent pointer"] = mux.EncodeAnswer(nil, &value)
		errs["received answer"] = mux.DecodeAnswer([]byte{0x80}, &value)
		for way, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%T as %s: got %v, want an error with %q", value, way, err, want)
			}
		}
	}
}

// TestUnsendableTypesAreRefused checks that a type is refused when it is registered, and when a
// value is sent, if the value would arrive without some of its fields or not at all.
func TestUnsendableTypesAreRefused(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"time":       refusal(atTime{}, "MarshalBinary of its embedded field Time, without Note"),
		"*time":      refusal(atTimeBy{}, "MarshalBinary of its embedded field Time, without Note"),
		"addr":       refusal(atAddr{}, "MarshalBinary of its embedded field Addr, without Note"),
		"ip":         refusal(atIP{}, "MarshalText of its embedded field IP, without Note"),
		"url":        refusal(atURL{}, "MarshalBinary of its embedded field URL, without Note"),
		"level":      refusal(atLevel{}, "MarshalText of its embedded field Level, without Note"),
		"price":      refusal(atPrice{}, "AppendBinary of its embedded field price, without Note"),
		"generic":    refusal(atGeneric[int]{}, "of its embedded field Time, without Note"),
		"in a field": refusal(atOwner{}, "atOwner.At: receiver.atTime would be sent by"),
		"in depth":   refusal(atDepth{}, "atDepth.In: receiver.atTime would be sent by MarshalBinary"),
		"in a slice": refusal([]atTime{}, "atTime[]: receiver.atTime would be sent by"),
		"in a map":   refusal(map[string][2]*atTime{}, "atTime[][]: receiver.atTime would be"),
		"hidden":     refusal(secret{"x"}, "secret has no exported field"),
		"hidden in":  refusal(holder{}, "holder.In: receiver.secret has no exported field"),
		"half":       refusal(justText{}, "N: receiver.halfText needs both or none of MarshalText and"),
		"nil":        refusal(ByPointer{}, "ByPointer.Inner: an embedded pointer"),
		"hidden nil": refusal(byPointer{}, "byPointer.inner: an embedded pointer"),
		"lower":      refusal(embedded{}, "embedded.lower: receivers cannot set"),
		"shadowing":  refusal(shadowing{}, `shadowing.A: two fields of receiver.shadowing are sent`),
		"twice":      refusal(twice{}, `twice.B: two fields of receiver.twice are sent as "n"`),
		"interface":  refusal(stringer{}, "stringer.V: a receiver cannot know which type is in a fmt.S"),
		"function":   refusal(struct{ F func() }{}, "F: a func() cannot be sent"),
		"channel":    refusal(struct{ C chan int }{}, "C: a chan int cannot be sent"),
		"complex":    refusal(struct{ C complex64 }{}, "C: a complex64 cannot be sent"),
		"uintptr":    refusal(struct{ U []uintptr }{}, "U[]: a uintptr cannot be sent"),
		"**int":      refusal(struct{ P **int }{}, "P: a **int that points to nil"),
		"*[]int":     refusal(struct{ P *[]int }{}, "P: a *[]int that points to nil"),
		"any key":    refusal(struct{ M map[any]int }{}, "keys of map[interface {}]int hold interfaces"),
		"*int key":   refusal(struct{ M map[*int]int }{}, "M: the keys of map[*int]int would arrive as"),
	} {
		t.Run(name, test)
	}
}

// TestCodecOfOwnKeepsEmbedded checks that with a codec of the application too, a type is refused if
// a method of an embedded type encodes it.
func TestCodecOfOwnKeepsEmbedded(t *testing.T) {
	mux := func() *Mux { return NewMux(WithCodec(textCodec{})) }
	for _, errs := range []map[string]error{
		registerBoth(mux, atTime{}), registerBoth(mux, []atLevel{}), registerBoth(mux, atOwner{}),
		registerBoth(mux, map[string]*atIP{}),
	} {
		for _, way := range []string{"event", "answer"} {
			if err := errs[way]; err == nil || !strings.Contains(err.Error(), "without Note") {
				t.Errorf("%s: got %v, want an error about Note", way, err)
			}
		}
	}
	for way, err := range registerBoth(mux, struct {
		At    apart
		Only  onlyTime
		URL   atURL // JSON does not use its MarshalBinary
		Hid   secret
		Other chan int
	}{}) {
		if err != nil {
			t.Errorf("%s: got %v, want nil", way, err)
		}
	}
}

// TestMethodsOfEmbeddedTypes checks that types with embedded fields arrive as they were sent if all
// their fields are encoded.
func TestMethodsOfEmbeddedTypes(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	at := time.Unix(5, 6).UTC()
	isSame := func(name string, want, got any) {
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(inner{}, onlyTime{}, lowEmbedded{}),
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	generic := fullGeneric[int]{at, 7}
	if got := trip[fullGeneric[int]](t, mux, generic); got.Note != 7 || !got.Equal(at) {
		t.Errorf("own methods of a generic type: got %v", got)
	}
	if got := trip[onlyTime](t, mux, onlyTime{at, 0}); !got.Equal(at) {
		t.Errorf("only embedded: got %v", got)
	}
	two := twoTimes{at, netip.MustParseAddr("::1"), "n"}
	got := trip[twoTimes](t, mux, two)
	if !got.Time.Equal(at) || got.Addr != two.Addr || got.Note != "n" {
		t.Errorf("ambiguous methods: got %v", got)
	}
	low := lowEmbedded{inner{1, 2}, 3}
	isSame("hidden", low, trip[lowEmbedded](t, mux, low))
	before := fieldBefore{1, Inner{2, 3}}
	isSame("shadowed", before, trip[fieldBefore](t, mux, before))
	apart := separate{&Inner{1, 2}, 3, Inner{4, 5}, 6, 0, 7}
	isSame("tags", apart, trip[separate](t, mux, apart))
	apart.Inner = nil
	isSame("nil", apart, trip[separate](t, mux, apart))
}
