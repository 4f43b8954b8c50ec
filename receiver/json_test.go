// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ware has a field of each kind that JSON can express.
type ware struct {
	Item   string
	Count  int
	Left   uint64
	Price  float64
	Whole  float64
	Paid   bool
	Blob   []byte
	For    time.Duration
	Tags   []string
	Notes  map[string]int
	Parent *ware
	Short  int `msgpack:"s"`
}

// TestJSONDecodesIntoTypes checks that an event written as JSON arrives like one sent by a program.
func TestJSONDecodesIntoTypes(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	text := `{"Item": "pen", "Count": -3, "Left": 18446744073709551615, "Price": 1.5e2, "Whole": 7,
		"Paid": true, "Blob": "raw", "For": 1500, "Tags": ["a", "b"],
		"Notes": {"x": 9007199254740993}, "Parent": {"Item": "box", "Parent": null}, "s": 2, "New": 1}`
	event := JSON{Name: "ware", Text: []byte(text)}
	if name, err := mux.Name(event); err != nil || name != "ware" {
		t.Errorf("Name: %q, %v, want ware", name, err)
	}
	payload, err := mux.Encode([]byte("before"), event)
	if err != nil {
		t.Fatal(err)
	}
	var got ware
	if err := mux.DecodeAnswer(payload[len("before"):], &got); err != nil {
		t.Fatal(err)
	}
	want := ware{
		Item: "pen", Count: -3, Left: math.MaxUint64, Price: 150, Whole: 7, Paid: true,
		Blob: []byte("raw"), For: 1500,
		Tags: []string{"a", "b"}, Notes: map[string]int{"x": 9007199254740993},
		Parent: &ware{Item: "box"}, Short: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// textCodec is a codec that an application might use.
type textCodec struct{}

func (textCodec) Marshal(event any) ([]byte, error)      { return json.Marshal(event) }
func (textCodec) Unmarshal(text []byte, event any) error { return json.Unmarshal(text, event) }

// TestJSONUsesTheCodec checks that a JSON is encoded with the codec of WithCodec, not as msgpack.
func TestJSONUsesTheCodec(t *testing.T) {
	mux := NewMux(WithCodec(textCodec{}))
	started(t, mux, Setup{})
	payload, err := mux.Encode(nil, JSON{Name: "ware", Text: []byte(` {"Count": 1} `)})
	if err != nil || string(payload) != `{"Count":1}` {
		t.Errorf("payload %q, %v, want it as JSON", payload, err)
	}
}

func TestJSONRefuses(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	for _, c := range []struct{ name, text, want string }{
		{"", `{}`, "1 to 128 printable"},
		{"a\nb", `{}`, "1 to 128 printable"},
		{strings.Repeat("n", 129), `{}`, "1 to 128 printable"},
		{"n", ``, "not a JSON value"},
		{"n", `{`, "not a JSON value"},
		{"n", `{} {}`, "more than one"},
		{"n", `18446744073709551616`, "64 bits"},
		{"n", `[-9223372036854775809]`, "64 bits"},
		{"n", `{"a": 1e999}`, "64-bit"},
	} {
		before := []byte("before")
		got, err := mux.Encode(before, JSON{Name: c.name, Text: []byte(c.text)})
		if !errors.Is(err, ErrUnsendable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Encode(%q, %s): %v, want ErrUnsendable with %q", c.name, c.text, err, c.want)
		}
		if string(got) != "before" {
			t.Errorf("Encode(%q, %s): %q, want what was there before", c.name, c.text, got)
		}
	}
}
