// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

func TestFramesSurviveTheStream(t *testing.T) {
	const limit = 100_000
	var stream []byte
	var want [][]byte
	for _, length := range []int{1, 3, 4, 5, 1000, chunkBytes - 1, chunkBytes, chunkBytes + 1, limit} {
		frame := bytes.Repeat([]byte{byte(length)}, length)
		want = append(want, frame)
		stream = appendFrame(stream, frame)
	}
	stream = appendHeader(stream, 0)
	for name, reader := range map[string]io.Reader{
		"at once":      bytes.NewReader(stream),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
		"end early":    iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r := newFrameReader(reader, limit)
		for i := range want {
			got, err := r.next()
			if err != nil || !bytes.Equal(got, want[i]) {
				t.Fatalf("%s: frame %d: got %d bytes, %v; want %d", name, i, len(got), err, len(want[i]))
			}
		}
		if _, err := r.next(); !errors.Is(err, errEndMark) {
			t.Errorf("%s: end mark: got %v", name, err)
		}
		if _, err := r.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: end of the stream: got %v", name, err)
		}
	}
}

func TestEveryTruncatedStreamIsGarbage(t *testing.T) {
	stream := appendFrame(nil, []byte("hello"))
	for n := 1; n < len(stream); n++ {
		if _, err := newFrameReader(bytes.NewReader(stream[:n]), 10).next(); !errors.Is(err, errGarbage) {
			t.Errorf("%d of %d bytes: got %v, want errGarbage", n, len(stream), err)
		}
	}
}

func TestLengthAboveTheLimitIsGarbage(t *testing.T) {
	for _, length := range []int{11, 1 << 16, 1<<32 - 1} {
		stream := append(appendHeader(nil, length), make([]byte, 100)...)
		if _, err := newFrameReader(bytes.NewReader(stream), 10).next(); !errors.Is(err, errGarbage) {
			t.Errorf("length %d, limit 10: got %v, want errGarbage", length, err)
		}
	}
}

func TestStreamErrorsAreKept(t *testing.T) {
	broken := errors.New("broken")
	for n := range 8 {
		stream := io.MultiReader(bytes.NewReader(appendFrame(nil, []byte("hello"))[:n]),
			iotest.ErrReader(broken))
		if _, err := newFrameReader(stream, 10).next(); !errors.Is(err, broken) {
			t.Errorf("error after %d bytes: got %v", n, err)
		}
	}
}

// TestDeclaredLengthAllocatesLittle reads the header of a frame of 16 MiB of
// which hardly anything arrives.
func TestDeclaredLengthAllocatesLittle(t *testing.T) {
	stream := append(appendHeader(nil, MaxCustomBytes), make([]byte, 10)...)
	const rounds = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		_, _ = newFrameReader(bytes.NewReader(stream), MaxCustomBytes).next()
	}
	runtime.ReadMemStats(&after)
	got, limit := (after.TotalAlloc-before.TotalAlloc)/rounds, uint64(4*chunkBytes)
	if got > limit {
		t.Errorf("%d bytes allocated for a frame that does not come, want at most %d", got, limit)
	}
}

func FuzzFrameReader(f *testing.F) {
	f.Add(appendFrame(nil, []byte("hello")))
	f.Add(appendHeader(nil, 0))
	f.Add(appendHeader(nil, 1<<31))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 64
		r := newFrameReader(bytes.NewReader(stream), limit)
		var again []byte
		for {
			frame, err := r.next()
			switch {
			case err == nil && (len(frame) == 0 || len(frame) > limit):
				t.Fatalf("frame of %d bytes, limit %d", len(frame), limit)
			case err == nil:
				again = appendFrame(again, frame)
				continue
			case errors.Is(err, errEndMark):
				again = appendHeader(again, 0)
				continue
			case errors.Is(err, io.EOF) && !bytes.Equal(again, stream):
				t.Fatalf("read %x, wrote %x", stream, again)
			}
			return
		}
	})
}
