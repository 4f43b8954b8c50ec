// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/athena-go/athena/transport"
)

// TestBacklog fills and reads a backlog in pieces of random size, and also reads while memory is
// reserved. No bytes may be lost or reordered, and read bytes must not hold memory.
func TestBacklog(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var b backlog
		var in, out []byte
		read := func() {
			for range r.IntN(4) {
				if !b.empty() {
					p := make([]byte, 1+r.IntN(recordBytes))
					out = append(out, p[:b.read(p)]...)
				}
			}
		}
		for range 200 {
			room := b.reserveSpace(1 + r.IntN(1<<r.IntN(16)))
			n := r.IntN(len(room) + 1)
			for i := range n {
				room[i] = byte(r.Uint32())
			}
			read()
			in = append(in, room[:n]...)
			b.commitBytes(n)
			read()
			unread := len(in) - len(out)
			if held := len(b.chunks); held > unread/recordBytes+2 || b.empty() != (unread == 0) {
				t.Fatalf("seed %d: %d chunks hold %d unread bytes", seed, held, unread)
			}
		}
		for !b.empty() {
			p := make([]byte, recordBytes)
			out = append(out, p[:b.read(p)]...)
		}
		if !bytes.Equal(in, out) || len(b.chunks) > 0 {
			t.Fatalf("seed %d: other bytes were read, or %d chunks are left", seed, len(b.chunks))
		}
	}
}

// TestWindowsGrow reads the beginning of a stream that its peer fills, and then nothing more. The
// window must grow to its limit, and the stream must hold no more memory than one window.
func TestWindowsGrow(t *testing.T) {
	const alreadyRead = 4 * maxFrameWindow
	a, b := connected(t)
	bulk, err := a.OpenStream()
	if err != nil {
		t.Fatalf("OpenStream: %v", err)
	}
	if _, err := bulk.Write([]byte{1}); err != nil {
		t.Fatalf("Write: %v", err)
	}
	accepted, err := b.AcceptStream()
	if err != nil {
		t.Fatalf("AcceptStream: %v", err)
	}
	for _, test := range []struct {
		name     string
		from, to io.ReadWriter
		limit    int
	}{
		{"frames", a.Stream(transport.Custom), b.Stream(transport.Custom), maxFrameWindow},
		{"bulk", bulk, accepted, maxStreamWindow},
	} {
		go func() {
			for piece := make([]byte, 100_000); ; {
				if _, err := test.from.Write(piece); err != nil {
					return // the network has closed
				}
			}
		}()
		s := test.to.(*stream)
		if _, err := io.CopyN(io.Discard, s, alreadyRead); err != nil {
			t.Fatalf("%s: Read: %v", test.name, err)
		}
		late := time.AfterFunc(10*time.Second, func() { s.failRead(errLost) })
		s.mu.Lock()
		for s.remaining > 0 && s.readErr == nil {
			s.changed.Wait()
		}
		window, held, err := s.window, len(s.received.chunks), s.readErr
		unread := window - s.used
		s.mu.Unlock()
		late.Stop()
		if err != nil || window != test.limit || held > unread/recordBytes+2 {
			t.Errorf("%s: a window of %d bytes, want %d; %d chunks hold %d bytes, %v", test.name, window,
				test.limit, held, unread, err)
		}
	}
}
