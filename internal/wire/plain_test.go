// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"testing"
)

// TestPlainEvents checks that the fast path for events without metadata reads what a Draft
// of this version writes, and no frame of another version.
func TestPlainEvents(t *testing.T) {
	frame, err := EncodeEvent(Event{Name: "a.b", Payload: []byte("x")}, DefaultEventBytes)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := plainEvent(frame); !ok || e.Name != "a.b" || string(e.Payload) != "x" {
		t.Errorf("plainEvent(% x): got %+v, %v, want the event", frame, e, ok)
	}
	for _, version := range []byte{0, Version - 1, Version + 1} {
		frame[1] = version
		if e, err := DecodeEvent(frame, DefaultEventBytes); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: got %+v, %v, want ErrVersion", version, e, err)
		}
	}
}
