// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
)

// maxSeed keeps attacks of several megabytes out of the corpora.
const maxSeed = 4096

func FuzzDecode(f *testing.F) {
	for _, frame := range golden(f) {
		f.Add(frame)
	}
	for _, a := range attacks() {
		if len(a.body) <= maxSeed {
			f.Add(append([]byte{0xae, wire.Version, byte(message.KindVote)}, a.body...))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var got message.Message
		var err error
		checkCheap(t, frame, func() { got, err = wire.Decode(frame) })
		checkSound(t, frame, got, err)
	})
}

func FuzzEvent(f *testing.F) {
	for _, e := range append(events(), calls()...) {
		f.Add(encodeEvent(f, e))
	}
	for _, a := range attacks() {
		if len(a.body) <= maxSeed {
			f.Add(append([]byte{0xae, wire.Version, 0xff}, a.body...))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var got wire.Event
		var err error
		checkCheap(t, frame, func() { got, err = wire.DecodeEvent(frame, wire.DefaultEventBytes) })
		checkSound(t, frame, got, err)
	})
}

func FuzzAnswer(f *testing.F) {
	for _, a := range answers() {
		f.Add(encodeAnswer(f, a))
	}
	f.Add(wire.AppendCancel(nil, 7))
	for _, a := range attacks() {
		if len(a.body) <= maxSeed {
			f.Add(append([]byte{0xae, wire.Version, 0xfd}, a.body...))
			f.Add(append([]byte{0xae, wire.Version, 0xfc}, a.body...))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var got any
		var err error
		checkCheap(t, frame, func() {
			if wire.IsCancel(frame) {
				got, err = wire.DecodeCancel(frame)
			} else {
				got, err = wire.DecodeAnswer(frame, wire.DefaultEventBytes)
			}
		})
		checkSound(t, frame, got, err)
	})
}

// checkCheap checks that decoding leaves the frame unchanged and allocates at most a few
// times its length, whatever lengths the frame declares.
func checkCheap(t *testing.T, frame []byte, decode func()) {
	t.Helper()
	as := bytes.Clone(frame)
	limit := uint64(cheapFactor*len(frame) + cheapBytes)
	got := allocatedOnce(decode)
	if got > limit {
		got = allocated(decode) // the first count may include allocations of the runtime
	}
	if got > limit {
		t.Fatalf("%d bytes allocated for a frame of %d, want at most %d", got, len(frame), limit)
	}
	if !bytes.Equal(as, frame) {
		t.Fatalf("decoding changed the frame %x to %x", as, frame)
	}
}

// FuzzScan compares Scan with an independent reader: Scan must accept only a single
// complete value, and refuse one only for a documented reason.
func FuzzScan(f *testing.F) {
	for _, frame := range golden(f) {
		f.Add(frame[3:])
	}
	for _, a := range attacks() {
		if len(a.body) <= maxSeed {
			f.Add(a.body)
		}
	}
	f.Add([]byte{0x95, 0xca, 1, 2, 3, 4, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8, 0xd0, 0x80, 0xd1, 1, 2, 0xe0})
	f.Fuzz(func(t *testing.T, b []byte) {
		err := wire.Scan(b)
		rest := bytes.NewReader(b)
		skipErr := msgpack.NewDecoder(rest).Skip()
		whole := skipErr == nil && rest.Len() == 0
		switch {
		case err == nil && !whole:
			t.Fatalf("Scan accepts %x; the library leaves %d bytes, error %v", b, rest.Len(), skipErr)
		case err == nil:
			if got := testing.AllocsPerRun(1, func() { _ = wire.Scan(b) }); got > 0 {
				t.Fatalf("Scan of %x allocates %v times", b, got)
			}
		case !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrTooLarge):
			t.Fatalf("Scan of %x: error %v wraps none of the package", b, err)
		case whole && !errors.Is(err, wire.ErrTooLarge) && !strings.Contains(err.Error(), "extension") &&
			!strings.Contains(err.Error(), "levels deep"):
			t.Fatalf("Scan of %x: %v, and the library reads it", b, err)
		}
	})
}
