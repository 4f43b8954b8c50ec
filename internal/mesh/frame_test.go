// SPDX-License-Identifier: Apache-2.0

package mesh

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
		"whole":        bytes.NewReader(stream),
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

// TestDeclaredLengthAllocatesLittle checks how much memory is allocated for a frame of 16 MiB after
// its header and first 10 bytes have arrived.
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
		t.Errorf("%d bytes allocated for a frame that does not arrive, want at most %d", got, limit)
	}
}

// FuzzFrameReader reads arbitrary streams, whole and in pieces. It checks that the reader returns
// the frames of the stream and only known errors, and that its memory is bounded by the bytes
// received.
func FuzzFrameReader(f *testing.F) {
	f.Add(appendFrame(nil, []byte("hello")), uint32(64), false)
	f.Add(appendHeader(appendFrame(nil, []byte("hello")), 0), uint32(5), true)
	f.Add(appendHeader(nil, 1<<31), uint32(MaxCustomBytes), false)
	f.Add(appendHeader(nil, 3*chunkBytes), uint32(MaxSystemBytes), false)
	f.Add(appendFrame(nil, make([]byte, 3*chunkBytes)), uint32(MaxSystemBytes), true)
	f.Fuzz(func(t *testing.T, stream []byte, limit uint32, pieces bool) {
		limit %= MaxCustomBytes + 1
		again, room, err := readAll(t, bytes.NewReader(stream), int(limit))
		if most := 2*len(stream) + chunkBytes; room > most {
			t.Fatalf("%d bytes of room for frames of a stream of %d", room, len(stream))
		}
		if errors.Is(err, io.EOF) && !bytes.Equal(again, stream) || !bytes.HasPrefix(stream, again) {
			t.Fatalf("read %x, wrote %x", stream, again)
		}
		if !pieces {
			return
		}
		for _, r := range []io.Reader{
			iotest.OneByteReader(bytes.NewReader(stream)), iotest.HalfReader(bytes.NewReader(stream)),
		} {
			slowly, _, slowErr := readAll(t, r, int(limit))
			if !bytes.Equal(slowly, again) || slowErr.Error() != err.Error() {
				t.Fatalf("in pieces: %x and %v; whole: %x and %v", slowly, slowErr, again, err)
			}
		}
	})
}

// readAll reads all frames. It returns them encoded again, the capacity of their memory, and the
// error at the end.
func readAll(t *testing.T, stream io.Reader, limit int) (again []byte, room int, err error) {
	t.Helper()
	r := newFrameReader(stream, limit)
	for {
		frame, err := r.next()
		switch {
		case err == nil && (len(frame) == 0 || len(frame) > limit):
			t.Fatalf("frame of %d bytes, limit %d", len(frame), limit)
		case err != nil && frame != nil:
			t.Fatalf("got a frame together with %v", err)
		case err == nil:
			room += cap(frame)
			again = appendFrame(again, frame)
		case errors.Is(err, errEndMark):
			again = appendHeader(again, 0)
		case errors.Is(err, io.EOF) || errors.Is(err, errGarbage):
			return again, room, err
		default:
			t.Fatalf("%v is not an error of this package", err)
		}
	}
}
