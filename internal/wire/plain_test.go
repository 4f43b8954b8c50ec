// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// TestPlainEvents checks that the fast path for events without metadata reads what a Draft
// of this version writes, and no frame of another version.
func TestPlainEvents(t *testing.T) {
	frame, err := EncodeEvent(Event{Name: "a.b", Payload: []byte("x")}, DefaultEventBytes)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := plainEvent(frame, nil); !ok || e.Name != "a.b" || string(e.Payload) != "x" {
		t.Errorf("plainEvent(% x): got %+v, %v, want the event", frame, e, ok)
	}
	for _, version := range []byte{0, Version - 1, Version + 1} {
		frame[1] = version
		if e, err := DecodeEvent(frame, DefaultEventBytes); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: got %+v, %v, want ErrVersion", version, e, err)
		}
	}
}

// TestNames checks that a known name is not allocated again, that an unprintable one is refused,
// and that a peer cannot make Names grow.
func TestNames(t *testing.T) {
	var names Names
	frame := func(name string) []byte {
		f, err := EncodeEvent(Event{Name: name, Payload: []byte("x")}, DefaultEventBytes)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	known, forged := frame("a.b"), frame("a.b")
	forged[bytes.Index(forged, []byte("a.b"))] = 7
	for range 2 {
		if e, err := names.DecodeEvent(known, DefaultEventBytes); err != nil || e.Name != "a.b" {
			t.Errorf("got %+v, %v, want the event", e, err)
		}
		if e, err := names.DecodeEvent(forged, DefaultEventBytes); !errors.Is(err, ErrMalformed) {
			t.Errorf("unprintable name: got %+v, %v, want ErrMalformed", e, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = names.DecodeEvent(known, 1000) }); n != 0 {
		t.Errorf("%v allocations for a known name, want none", n)
	}
	for i := range 3 * maxNames {
		name := fmt.Sprint(i)
		if e, err := names.DecodeEvent(frame(name), 1000); err != nil || e.Name != name {
			t.Errorf("name %s: got %+v, %v", name, e, err)
		}
	}
	if len(names.known) > maxNames {
		t.Errorf("%d names are kept, want at most %d", len(names.known), maxNames)
	}
}

// TestDraftKeepsItsName checks that a Draft writes the name of each event, also after an error.
func TestDraftKeepsItsName(t *testing.T) {
	var d Draft
	for i, name := range []string{"a", "a", "bb", "", "bb", "a\n", "a", "too long", "a", "bb"} {
		b, err := d.Begin(name)
		if err == nil {
			limit := DefaultEventBytes
			if name == "too long" {
				limit = 2
			}
			err = d.End(append(b, "payload"...), nil, limit)
		}
		if refused := name == "" || name == "a\n" || name == "too long"; refused != (err != nil) {
			t.Errorf("event %d, %q: got %v", i, name, err)
		} else if refused {
			continue
		}
		if e, err := DecodeEvent(d.Frame(), DefaultEventBytes); err != nil || e.Name != name ||
			string(e.Payload) != "payload" {
			t.Errorf("event %d: got %+v, %v, want the name %q", i, e, err, name)
		}
	}
}
