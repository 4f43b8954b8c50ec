// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
)

var update = flag.Bool("update", false, "write testdata/golden; takes a new format version")

// Names of the golden files that hold no message.
const (
	goldenEvent  = "Event"
	goldenCall   = "Call"
	goldenAnswer = "Answer"
	goldenCancel = "Cancel"
)

// checkGolden compares a frame with its file, which has 32 bytes per line.
func checkGolden(t *testing.T, name string, frame []byte) {
	t.Helper()
	var text strings.Builder
	for rest := frame; len(rest) > 0; rest = rest[min(32, len(rest)):] {
		text.WriteString(hex.EncodeToString(rest[:min(32, len(rest))]) + "\n")
	}
	path := filepath.Join("testdata", "golden", name+".hex")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("the bytes of %s changed (-file +now):\n%s", name, diff)
	}
}

func golden(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*.hex"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	frames := make(map[string][]byte)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		frames[strings.TrimSuffix(filepath.Base(path), ".hex")] = frame
	}
	return frames
}

func decodeAny(name string, frame []byte) (any, error) {
	switch name {
	case goldenEvent, goldenCall:
		return wire.DecodeEvent(frame, wire.DefaultEventBytes)
	case goldenAnswer:
		return wire.DecodeAnswer(frame, wire.DefaultEventBytes)
	case goldenCancel:
		return wire.DecodeCancel(frame)
	default:
		return wire.Decode(frame)
	}
}

func TestGoldenBytes(t *testing.T) {
	seen := make(map[message.Kind]bool)
	for _, m := range typical() {
		kind := m.Body.Kind()
		seen[kind] = true
		checkGolden(t, kind.String(), encode(t, m))
	}
	for _, k := range kinds() {
		if !seen[k] {
			t.Errorf("%s has no golden bytes", k)
		}
	}
	checkGolden(t, goldenEvent, encodeEvent(t, events()[0]))
	checkGolden(t, goldenCall, encodeEvent(t, calls()[0]))
	checkGolden(t, goldenAnswer, encodeAnswer(t, answers()[0]))
	checkGolden(t, goldenCancel, wire.AppendCancel(nil, 7))
}

func TestGoldenDecodes(t *testing.T) {
	frames := golden(t)
	for _, want := range typical() {
		name := want.Body.Kind().String()
		got, err := wire.Decode(frames[name])
		if err != nil {
			t.Errorf("Decode(golden %s): %v", name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Decode(golden %s) (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryTruncatedPrefixIsMalformed(t *testing.T) {
	for name, frame := range golden(t) {
		for n := range frame {
			// bytes.Clone leaves little spare capacity, so a read past the end panics.
			got, err := decodeAny(name, bytes.Clone(frame[:n]))
			if !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s cut to %d of %d bytes: got %+v, %v, want ErrMalformed",
					name, n, len(frame), got, err)
			}
		}
	}
}

func TestEveryFlippedByteIsHarmless(t *testing.T) {
	for name, frame := range golden(t) {
		for n := range frame {
			for bit := range 8 {
				bad := bytes.Clone(frame)
				bad[n] ^= 1 << bit
				got, err := decodeAny(name, bad)
				checkSound(t, bad, got, err)
			}
		}
	}
}

// checkSound checks that decoding returned a known error, or a value that survives another
// round trip.
func checkSound(t *testing.T, frame []byte, got any, err error) {
	t.Helper()
	if err != nil {
		for _, known := range []error{
			wire.ErrMalformed, wire.ErrVersion, wire.ErrUnknownKind, wire.ErrTooLarge,
		} {
			if errors.Is(err, known) {
				return
			}
		}
		t.Fatalf("decoding %x: error %v wraps none of the package", frame, err)
	}
	var again any
	switch v := got.(type) {
	case message.Message:
		again, err = wire.Decode(encode(t, v))
	case wire.Event:
		again, err = wire.DecodeEvent(encodeEvent(t, v), wire.DefaultEventBytes)
	case wire.Answer:
		again, err = wire.DecodeAnswer(encodeAnswer(t, v), wire.DefaultEventBytes)
	case uint64:
		again, err = wire.DecodeCancel(wire.AppendCancel(nil, v))
	}
	if err != nil {
		t.Fatalf("decoding %x gave %+v, which does not survive: %v", frame, got, err)
	}
	if !reflect.DeepEqual(got, again) {
		t.Fatalf("decoding %x, then again (-first +second):\n%s", frame, cmp.Diff(got, again))
	}
}
