// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
)

type order struct{ Text string }

type other struct{ Text string }

// Values of these types could not be received as they were sent.
type (
	hidden     struct{ order order }
	misplaced  struct{ Text string } // both methods on the pointer
	misplaced2 struct{ Text string } // both methods on the value
	writer     struct{ Text string } // no UnmarshalBinary
)

func (*misplaced) AppendBinary(b []byte) ([]byte, error) { return b, nil }
func (*misplaced) UnmarshalBinary([]byte) error          { return nil }

func (misplaced2) AppendBinary(b []byte) ([]byte, error) { return b, nil }
func (misplaced2) UnmarshalBinary([]byte) error          { return nil }

func (writer) AppendBinary(b []byte) ([]byte, error) { return b, nil }

// marker has no fields.
type marker struct{ _ struct{} }

func ignore[T any](context.Context, member.Member, T) error { return nil }

// TestRegistrationMistakesAreJoined checks that one error of Validate contains every mistake.
func TestRegistrationMistakesAreJoined(t *testing.T) {
	mux := NewMux()
	Handle[order](mux, nil)
	Handle(mux, ignore[*order])
	Handle(mux, ignore[struct{ N int }])
	Handle(mux, ignore[other], Named("order"))
	Register[int64](mux, Named(strings.Repeat("x", maxNameBytes+1)))
	Register[int32](mux, Named("a\nb"))
	Register[int16](mux, Named("\xff"))
	Register[fmt.Stringer](mux)
	Handle(mux, ignore[error], Named("fault"))
	Register[int8](mux, Named("first"))
	Register[int8](mux, Named("second"))
	Register[hidden](mux)
	Register[misplaced](mux)
	Register[misplaced2](mux)
	Register[writer](mux)
	// These types are valid.
	Register[price](mux)
	Register[marshaled](mux)
	Register[marker](mux)
	err := mux.Validate(nil)
	for _, want := range []string{
		"handler of order is nil", "*receiver.order: register the type itself",
		"struct { N int } has no name", "two types are named \"order\"",
		"int64: name \"xxx", `int32: name "a\nb"`, `int16: name "\xff"`,
		"fmt.Stringer is an interface: register", "error is an interface: its only option",
		`one type is named "first" and "second"`,
		"receiver.hidden has no exported field", "receiver.misplaced: declare AppendBinary on the value",
		"receiver.misplaced2: declare AppendBinary", "receiver.writer: declare AppendBinary",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: got %v, want it to contain %q", err, want)
		}
	}
	for _, right := range []string{"price", "marshaled", "marker", `""`} {
		if strings.Contains(err.Error(), right) {
			t.Errorf("Validate: got %v, want nothing of %s", err, right)
		}
	}
	if err := mux.Start(Setup{}); err == nil {
		t.Error("Start after mistakes: got nil, want the error of Validate")
	}
}

func TestValidateAcceptsWhatIsRight(t *testing.T) {
	mux := NewMux()
	Handle(mux, ignore[order])
	Handle(mux, ignore[order])
	Handle(mux, ignore[other], Named("shop.other"))
	Handle(mux, ignore[Raw])
	// A local type may have the same name as a type that is sent.
	type local struct{}
	Handle(mux, ignore[local], Named("order"))
	if err := mux.Validate([]reflect.Type{reflect.TypeFor[local]()}); err != nil {
		t.Errorf("Validate: got %v, want nil", err)
	}
}

func TestMuxServesOneNodeAtATime(t *testing.T) {
	mux := NewMux()
	for range 2 {
		if err := mux.Start(Setup{}); err != nil {
			t.Fatalf("Start: got %v, want nil", err)
		}
		if err := mux.Start(Setup{}); err == nil {
			t.Error("Start while a node has the Mux: got nil, want an error")
		}
		if err := mux.Close(t.Context()); err != nil {
			t.Fatalf("Close: got %v, want nil", err)
		}
	}
}

func TestEncodeNamesWhatTravels(t *testing.T) {
	type emitted struct{}
	mux := NewMux()
	Handle(mux, ignore[other], Named("order"))
	Register[int](mux, Named("count"))
	started(t, mux, Setup{Local: []reflect.Type{reflect.TypeFor[emitted]()}})
	for _, c := range []struct {
		event any
		want  string // empty: ErrUnsendable
	}{
		{other{}, "order"},
		{&other{}, "order"},
		{1, "count"},
		{"text", "string"},
		{Raw{"any", []byte{0xc0}}, "any"},
		{Raw{"any", []byte{0xc1}}, ""}, // rejected by the scan
		{(*other)(nil), ""},
		{hidden{order: order{}}, ""},
		{&misplaced{}, ""},
		{marker{}, "marker"},
		{&marker{}, "marker"}, // the same value behind a pointer
		{order{}, ""},         // its name belongs to another type
		{emitted{}, ""},
		{struct{ N int }{}, ""},
		{[]int{1}, ""},
		{make(unsendable), ""},
		{nil, ""},
	} {
		got, err := mux.Name(c.event)
		if err == nil {
			if _, err = mux.Encode(nil, c.event); err != nil {
				got = ""
			}
		}
		if got != c.want || (c.want == "") != errors.Is(err, ErrUnsendable) {
			t.Errorf("Encode(%T): got %q, %v; want %q", c.event, got, err, c.want)
		}
	}
}

type unsendable chan int

// fragile is an event whose decoding panics.
type fragile struct{ text string }

func (f fragile) MarshalText() ([]byte, error) { return []byte(f.text), nil }
func (f *fragile) UnmarshalText([]byte) error  { panic("boom") }

func TestDecodingThatPanicsIsMalformed(t *testing.T) {
	mux := NewMux()
	Handle(mux, func(context.Context, member.Member, fragile) error { return nil })
	if err := mux.Start(Setup{Scan: func([]byte) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	defer mux.Close(t.Context())
	raw := Raw{Name: "fragile", Payload: []byte{0xa1, 'x'}}
	err := mux.Deliver(t.Context(), Delivery{From: &member.Member{}, Raw: raw})
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("Deliver: got %v, want ErrMalformed", err)
	}
}
