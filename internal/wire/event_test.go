// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/athena-go/athena/internal/wire"
)

func TestEventRoundTrip(t *testing.T) {
	for _, want := range append(events(), calls()...) {
		got, err := wire.DecodeEvent(encodeEvent(t, want), wire.DefaultEventBytes)
		if err != nil {
			t.Errorf("%q: %v", want.Name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", want.Name, diff)
		}
	}
}

func TestAnswerRoundTrip(t *testing.T) {
	for _, want := range answers() {
		got, err := wire.DecodeAnswer(encodeAnswer(t, want), wire.DefaultEventBytes)
		if err != nil {
			t.Errorf("%+v: %v", want, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestAnswersAreCutAndBounded checks answers with arbitrary texts and of any size.
func TestAnswersAreCutAndBounded(t *testing.T) {
	long := wire.Answer{Text: strings.Repeat("é", wire.MaxAnswerText) + "\xff"}
	got, err := wire.DecodeAnswer(encodeAnswer(t, long), wire.DefaultEventBytes)
	if want := strings.Repeat("é", wire.MaxAnswerText/2); err != nil || got.Text != want {
		t.Errorf("long text: got %d bytes, %v, want %d", len(got.Text), err, len(want))
	}
	large := wire.Answer{Payload: make([]byte, 100)}
	if _, err := wire.AppendAnswer(nil, large, 100); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("large answer: got %v, want ErrTooLarge", err)
	}
	for _, frame := range [][]byte{encodeEvent(t, events()[0]), wire.AppendCancel(nil, 1)} {
		if _, err := wire.DecodeAnswer(frame, 1000); !errors.Is(err, wire.ErrUnknownKind) {
			t.Errorf("DecodeAnswer of another frame: got %v, want ErrUnknownKind", err)
		}
	}
	if _, err := wire.DecodeCancel(encodeEvent(t, events()[0])); !errors.Is(err, wire.ErrUnknownKind) {
		t.Errorf("DecodeCancel of an event: got %v, want ErrUnknownKind", err)
	}
}

func TestDrawnEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := wire.Event{
			Name:    drawName(t, 1, wire.MaxEventName),
			Payload: rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "payload"),
			Metadata: rapid.MapOfN(rapid.StringN(0, -1, 40), rapid.StringN(0, -1, 40),
				0, wire.MaxMetadata).Draw(t, "metadata"),
		}
		frame, err := wire.EncodeEvent(want, wire.DefaultEventBytes)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.DecodeEvent(frame, wire.DefaultEventBytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Payload) == 0 {
			want.Payload = nil
		}
		if len(want.Metadata) == 0 {
			want.Metadata = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestEqualEventsHaveEqualBytes checks that the encoding does not depend on the order of a
// map.
func TestEqualEventsHaveEqualBytes(t *testing.T) {
	want := encodeEvent(t, events()[2])
	for range 20 {
		if got := encodeEvent(t, events()[2]); !bytes.Equal(got, want) {
			t.Fatal("one event was encoded in two ways")
		}
	}
}

func TestEncodeEventRefuses(t *testing.T) {
	tooMany := events()[2].Metadata
	tooMany["one more"] = ""
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name  string
		event wire.Event
		limit int
		want  error
	}{
		{"no name", wire.Event{}, 100, wire.ErrMalformed},
		{"the longest name", wire.Event{Name: text(128)}, 1000, nil},
		{"a longer name", wire.Event{Name: text(129)}, 1000, wire.ErrMalformed},
		{"a name that is not UTF-8", wire.Event{Name: "\xff"}, 100, wire.ErrMalformed},
		{"a name of two lines", wire.Event{Name: "a\nb"}, 100, wire.ErrMalformed},
		{"an entry too many", wire.Event{Name: "n", Metadata: tooMany}, 1 << 20, wire.ErrMalformed},
		{"a long key", wire.Event{Name: "n", Metadata: map[string]string{text(129): ""}},
			1000, wire.ErrMalformed},
		{"a long value", wire.Event{Name: "n", Metadata: map[string]string{"k": text(1025)}},
			5000, wire.ErrMalformed},
		// Frame header 3, array 3, name 2, payload head 2, metadata 3.
		{"just small enough", wire.Event{Name: "n", Payload: make([]byte, 87)}, 100, nil},
		{"just too large", wire.Event{Name: "n", Payload: make([]byte, 88)}, 100, wire.ErrTooLarge},
		{"far too large", wire.Event{Name: "n", Payload: make([]byte, 101)}, 100, wire.ErrTooLarge},
	} {
		frame, err := wire.EncodeEvent(c.event, c.limit)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if err != nil {
			continue
		}
		if _, err := wire.DecodeEvent(frame, c.limit); err != nil {
			t.Errorf("%s: encoded, but not decoded: %v", c.name, err)
		}
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	entries := func(n byte, of ...byte) []byte { // fixmap of n entries, then their bytes
		return append([]byte{0x93, 0xa1, 'n', 0xc4, 0x00, 0x80 | n}, of...)
	}
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"one entry", entries(1, 0xa1, 'k', 0xa1, 'v'), ""},
		{"one key twice", entries(2, 0xa1, 'k', 0xa1, 'v', 0xa1, 'k', 0xa1, 'w'), `key k occurs twice`},
		{"a key that is a number", entries(1, 0x01, 0xa1, 'v'), "want a string"},
		{"17 entries", append([]byte{0x93, 0xa1, 'n', 0xc4, 0x00, 0xde, 0, 17},
			bytes.Repeat([]byte{0xa0, 0xa0}, 17)...), "metadata of 17"},
		{"no name", []byte{0x93, 0xa0, 0xc4, 0x00, 0x80}, "without a name"},
		{"a name that steers a terminal", []byte{0x93, 0xa2, 0x1b, 'c', 0xc4, 0x00, 0x80},
			`the name "\x1bc"`},
		{"a string as payload", []byte{0x93, 0xa1, 'n', 0xa0, 0x80}, "want a binary"},
		{"nil as metadata", []byte{0x93, 0xa1, 'n', 0xc4, 0x00, 0xc0}, "want a map"},
		{"no metadata", []byte{0x92, 0xa1, 'n', 0xc4, 0x00}, "a field is missing"},
		{"a map", []byte{0x80}, "want an array"},
	} {
		frame := append([]byte{0xae, wire.Version, 0xff}, c.body...)
		got, err := wire.DecodeEvent(frame, wire.DefaultEventBytes)
		checkRefused(t, c.name, got, err, c.want)
	}
}

func TestScanLetsTimestampsThrough(t *testing.T) {
	for _, at := range []time.Time{
		time.Unix(1, 0), time.Unix(1<<33, 5), time.Unix(1<<40, 5),
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		b, err := msgpack.Marshal(struct{ At []time.Time }{[]time.Time{at, at}})
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.Scan(b); err != nil {
			t.Errorf("Scan of %v, % x: got %v, want nil", at, b, err)
		}
	}
}
