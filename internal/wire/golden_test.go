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

var update = flag.Bool("update", false, "write the golden files of goldenRelease")

// goldenRelease is the release whose golden files contain the bytes of this program. They never
// change once it is released: then a change of the bytes takes a new folder for the next release
// (docs/compatibility.md).
const goldenRelease = "v0.2.0"

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
	path := filepath.Join("testdata", goldenRelease, name+".hex")
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

func golden(t testing.TB) map[string][]byte { return goldenOf(t, goldenRelease) }

// goldenOf returns the golden frames of a release, by name.
func goldenOf(t testing.TB, release string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", release, "*.hex"))
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
	_, again, err := recode(t, got)
	if err != nil {
		t.Fatalf("decoding %x gave %+v, which does not survive: %v", frame, got, err)
	}
	if !reflect.DeepEqual(got, again) {
		t.Fatalf("decoding %x, then again (-first +second):\n%s", frame, cmp.Diff(got, again))
	}
}

// recode encodes a value that decodeAny returned, and decodes it again.
func recode(t *testing.T, value any) (frame []byte, again any, err error) {
	t.Helper()
	switch v := value.(type) {
	case message.Message:
		frame = encode(t, v)
		again, err = wire.Decode(frame)
	case wire.Event:
		frame = encodeEvent(t, v)
		again, err = wire.DecodeEvent(frame, wire.DefaultEventBytes)
	case wire.Answer:
		frame = encodeAnswer(t, v)
		again, err = wire.DecodeAnswer(frame, wire.DefaultEventBytes)
	case uint64:
		frame = wire.AppendCancel(nil, v)
		again, err = wire.DecodeCancel(frame)
	}
	return frame, again, err
}

// TestReleasedBytes decodes every frame of every release and encodes it again. The result must
// contain each value of the release at its place, so that programs of the release can read it.
func TestReleasedBytes(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join("testdata", "v*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no golden files of a release: %v", err)
	}
	for _, folder := range folders {
		release := filepath.Base(folder)
		for name, frame := range goldenOf(t, release) {
			got, err := decodeAny(name, frame)
			if err != nil {
				t.Errorf("%s of %s: %v", name, release, err)
				continue
			}
			now, again, err := recode(t, got)
			if err != nil || !reflect.DeepEqual(got, again) {
				t.Errorf("%s of %s, encoded by this program: %v, %+v", name, release, err, again)
			}
			if !bytes.Equal(frame[:3], now[:3]) || !extends(parse(t, frame), parse(t, now)) {
				t.Errorf("%s of %s: programs of that release cannot read what this one sends:\n%s",
					name, release, cmp.Diff(parse(t, frame), parse(t, now)))
			}
		}
	}
}

// extends reports whether a later value has all elements of an earlier one at their places. Only
// arrays may be longer.
func extends(earlier, later any) bool {
	was, isArray := earlier.([]any)
	is, ok := later.([]any)
	if !isArray || !ok || len(is) < len(was) {
		return !isArray && reflect.DeepEqual(earlier, later)
	}
	for i := range was {
		if !extends(was[i], is[i]) {
			return false
		}
	}
	return true
}

func TestExtends(t *testing.T) {
	released := []any{uint64(1), []any{"a", nil}, true}
	for _, c := range []struct {
		later any
		want  bool
	}{
		{released, true},
		{[]any{uint64(1), []any{"a", nil, "new"}, true, 7}, true},
		{[]any{uint64(1), []any{"a"}, true}, false},
		{[]any{uint64(2), []any{"a", nil}, true}, false},
		{[]any{uint64(1), "a", true}, false},
		{[]any{[]any{uint64(1)}, []any{"a", nil}, true}, false},
		{"a", false},
	} {
		if got := extends(released, c.later); got != c.want {
			t.Errorf("extends(%v, %v) = %t, want %t", released, c.later, got, c.want)
		}
	}
}
