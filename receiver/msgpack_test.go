// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/athena-go/athena/member"
)

// price encodes itself.
type price struct{ cents uint32 }

var errNoPrice = errors.New("4 bytes are a price")

func (p price) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(b, p.cents), nil
}

func (p *price) UnmarshalBinary(b []byte) error {
	if len(b) != 4 {
		return errNoPrice
	}
	p.cents = binary.BigEndian.Uint32(b)
	return nil
}

// offer has a field whose type encodes itself. msgpack uses MarshalBinary for it.
type offer struct{ Price marshaled }

type marshaled struct{ price }

func (m marshaled) MarshalBinary() ([]byte, error) { return m.AppendBinary(nil) }

// TestOwnEncodingTravels sends a type that encodes itself as a value and as a pointer, in an event,
// an answer and a field.
func TestOwnEncodingTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		Handle(mux, func(_ context.Context, _ member.Member, p price) error {
			seen.add("%d", p.cents)
			return nil
		})
		Handle(mux, func(_ context.Context, _ member.Member, o offer) error {
			seen.add("offer %d", o.Price.cents)
			return nil
		})
		if err := mux.Start(Setup{}); err != nil {
			t.Fatal(err)
		}
		defer mux.Close(t.Context())
		for _, event := range []any{price{7}, &price{8}, offer{marshaled{price{9}}}} {
			payload, err := mux.Encode([]byte("before"), event)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := mux.Name(event)
			d := Delivery{From: ptr(sender(1)), Raw: Raw{name, payload[len("before"):]}}
			if err := mux.Deliver(t.Context(), d); err != nil {
				t.Fatalf("Deliver(%#v): %v", event, err)
			}
			synctest.Wait()
		}
		seen.want(t, "7", "8", "offer 9")
		var got price
		answer, err := mux.EncodeAnswer(nil, price{10})
		if err == nil {
			err = mux.DecodeAnswer(answer, &got)
		}
		if err != nil || got.cents != 10 {
			t.Errorf("answer: got %d, %v, want 10", got.cents, err)
		}
	})
}

// TestOwnEncodingOfMsgpack checks that values encoded by msgpack with MarshalBinary can be decoded,
// and that damaged bytes are malformed.
func TestOwnEncodingOfMsgpack(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	short, err := msgpack.Marshal(marshaled{price{11}})
	if err != nil {
		t.Fatal(err)
	}
	var got marshaled
	if err := mux.DecodeAnswer(short, &got); err != nil || got.cents != 11 {
		t.Errorf("of msgpack: got %d, %v, want 11", got.cents, err)
	}
	own, err := mux.EncodeAnswer(nil, price{12})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		payload string
		want    error
	}{
		{string(own[:len(own)-1]), ErrMalformed},
		{"\xc6\x00\x00\x00\x00", errNoPrice},
		{"\x80", ErrMalformed},
		{"", ErrMalformed},
	} {
		var p price
		if err := mux.DecodeAnswer([]byte(c.payload), &p); !errors.Is(err, c.want) {
			t.Errorf("DecodeAnswer(%q): got %v, want %v", c.payload, err, c.want)
		}
	}
}

// These types have a faulty AppendBinary.
type (
	faulty    struct{ price }
	forgetful struct{ price }
	panicking struct{ price }
	owner     struct{ cached []byte }
)

func (faulty) AppendBinary(b []byte) ([]byte, error)    { return b, errBoom }
func (forgetful) AppendBinary([]byte) ([]byte, error)   { return []byte("x"), nil }
func (panicking) AppendBinary(b []byte) ([]byte, error) { panic("boom") }
func (o owner) AppendBinary([]byte) ([]byte, error)     { return o.cached, nil }
func (o *owner) UnmarshalBinary([]byte) error           { return nil }

func TestOwnEncodingThatFails(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	cached := []byte("memory of the application's own")
	for _, c := range []struct {
		event any
		want  string
	}{
		{faulty{}, errBoom.Error()}, {forgetful{}, "did not append"}, {owner{cached}, "did not append"},
		{panicking{}, "encoding panicked: boom"},
	} {
		got, err := mux.Encode([]byte("before"), c.event)
		if !errors.Is(err, ErrUnsendable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Encode(%T): got %v, want ErrUnsendable with %q", c.event, err, c.want)
		}
		if string(got) != "before" {
			t.Errorf("Encode(%T): got %q, want what was there before", c.event, got)
		}
	}
	if string(cached) != "memory of the application's own" {
		t.Errorf("it was written to: %q", cached)
	}
}

// These types have AppendBinary, but msgpack encodes them in another way.
type (
	// logged embeds time.Time and implements a msgpack interface.
	logged struct {
		time.Time
		Text string
	}
	// stamped implements MarshalBinary.
	stamped struct {
		time.Time
		Text string
	}
	entry struct {
		At   time.Time
		Text string
	}
	// half cannot decode what it appends.
	half struct{ A, B int }
)

func (l logged) EncodeMsgpack(e *msgpack.Encoder) error { return e.Encode(entry{l.Time, l.Text}) }
func (l *logged) DecodeMsgpack(d *msgpack.Decoder) error {
	var e entry
	err := d.Decode(&e)
	l.Time, l.Text = e.At, e.Text
	return err
}

func (s stamped) MarshalBinary() ([]byte, error) { return json.Marshal(entry{s.Time, s.Text}) }
func (s *stamped) UnmarshalBinary(b []byte) error {
	var e entry
	err := json.Unmarshal(b, &e)
	s.Time, s.Text = e.At, e.Text
	return err
}

func (h half) AppendBinary(b []byte) ([]byte, error) { return append(b, byte(h.A), byte(h.B)), nil }

// trip encodes an answer and returns the result of decoding it.
func trip[T any](t *testing.T, mux *Mux, answer any) (got T) {
	t.Helper()
	b, err := mux.EncodeAnswer(nil, answer)
	if err == nil {
		err = mux.DecodeAnswer(b, &got)
	}
	if err != nil {
		t.Errorf("%#v: %v", answer, err)
	}
	return got
}

// TestMsgpackKeepsItsOwn checks that a type is sent in the encoding of msgpack if msgpack has its
// own encoding for the type.
func TestMsgpackKeepsItsOwn(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	at := time.Unix(1, 0)
	if got := trip[logged](t, mux, logged{at, "full"}); got.Text != "full" || !got.Equal(at) {
		t.Errorf("with EncodeMsgpack: got %+v", got)
	}
	if got := trip[stamped](t, mux, stamped{at, "full"}); got.Text != "full" || !got.Equal(at) {
		t.Errorf("with MarshalBinary: got %+v", got)
	}
	if got := trip[half](t, mux, half{1, 2}); got != (half{1, 2}) {
		t.Errorf("without UnmarshalBinary: got %+v", got)
	}
	if got := trip[*time.Time](t, mux, &at); got == nil || !got.Equal(at) {
		t.Errorf("pointer to a time: got %v", got)
	}
	if got := trip[*time.Time](t, mux, (*time.Time)(nil)); got != nil {
		t.Errorf("nil: got %v", got)
	}
	if got := trip[*price](t, mux, (*price)(nil)); got != nil {
		t.Errorf("nil: got %v", got)
	}
	if got := trip[*price](t, mux, &price{3}); got == nil || got.cents != 3 {
		t.Errorf("pointer: got %v", got)
	}
	if got, ok := trip[any](t, mux, at).(time.Time); !ok || !got.Equal(at) {
		t.Errorf("time in any: got %v", got)
	}
}

// TestEncodeAppends checks that an event of any size is encoded into the memory that the caller
// provides. If encoding fails, that memory must keep its content.
func TestEncodeAppends(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	large := struct{ Data []byte }{make([]byte, 200<<10)}
	memory := append(make([]byte, 0, 300<<10), "head"...)
	b, err := mux.EncodeAnswer(memory, large)
	if err != nil || &b[0] != &memory[0] || string(b[:4]) != "head" {
		t.Errorf("EncodeAnswer: got %d bytes elsewhere or without the head, %v", len(b), err)
	}
	broken := struct{ Data func() }{func() {}}
	if b, err := mux.EncodeAnswer(memory, broken); err == nil || string(b) != "head" {
		t.Errorf("EncodeAnswer of a function: got %q, %v; want the head and an error", b, err)
	}
}

// TestPartsThatPointersEncode sends values with parts that only methods of their pointers encode,
// which msgpack refuses in a value that has no address.
func TestPartsThatPointersEncode(t *testing.T) {
	type payment struct {
		Amount big.Int
		At     [1]url.URL
	}
	mux := NewMux()
	Handle(mux, func(context.Context, member.Member, payment) error { return nil })
	if err := mux.Start(Setup{}); err != nil {
		t.Fatal(err)
	}
	defer mux.Close(t.Context())
	sent := payment{*big.NewInt(1 << 40), [1]url.URL{{Scheme: "https", Host: "example.org"}}}
	want, err := mux.Encode(nil, &sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := mux.Encode([]byte("before"), sent)
	if err != nil || string(got) != "before"+string(want) {
		t.Errorf("got %q, %v, want that of a pointer, %q", got, err, want)
	}
	if back := trip[payment](t, mux, sent); back.Amount.Cmp(&sent.Amount) != 0 || back.At != sent.At {
		t.Errorf("got %v, want %v", back, sent)
	}
	_, err = mux.EncodeAnswer(nil, map[string]big.Int{"a": {}})
	if err == nil || !strings.HasSuffix(err.Error(), "big.Int): use pointers to it in maps") {
		t.Errorf("in a map: got %v, want advice", err)
	}
}
