// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/transport"
)

// TestFullWindowsStopNobody lets the windows of all bulk streams grow to their limit and fills
// them, and then stops reading. It checks that the node still receives system and custom frames,
// many times more bytes than the rest of the connection's window holds.
func TestFullWindowsStopNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		var unread atomic.Int64
		chunk := make([]byte, 8<<10)
		write := func(s mesh.BulkStream) {
			for {
				n, err := s.Write(chunk)
				if unread.Add(int64(n)); err != nil {
					return
				}
			}
		}
		quit, full := make(chan struct{}), make(chan struct{}, 1)
		t.Cleanup(func() { close(quit) }) // this runs before the nodes are closed
		read := func(s mesh.BulkStream) {
			fillGrown(s, &unread)
			full <- struct{}{}
			<-quit
		}
		a.serve = func(_ []byte, s mesh.BulkStream) { write(s) }
		b.serve = func(_ []byte, s mesh.BulkStream) { read(s) }
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		for i := range 2 * transport.MaxStreams {
			before, from, to := unread.Load(), a, addrB
			use := write
			if i%2 == 1 {
				from, to, use = b, addrA, read
			}
			s, err := from.OpenStream(t.Context(), to, nil)
			if err != nil {
				t.Fatalf("OpenStream: %v", err)
			}
			go use(s)
			next(t, full, "full window")
			// The writer may hold one more packet.
			got := unread.Load() - before
			if got < maxStreamWindow*9/10 || got > maxStreamWindow+packetBytes {
				t.Errorf("%d bytes of stream %d wait for a reader, want about %d", got, i, maxStreamWindow)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 * (connectionWindow - streamsWindow) / mesh.MaxSystemBytes {
			a.Notify(addrB, make([]byte, mesh.MaxSystemBytes))
			if err := a.Send(ctx, addrB, make([]byte, 1<<20)); err != nil {
				t.Fatalf("Send: %v", err)
			}
			next(t, b.frames[transport.System], "system frame beside full windows")
			next(t, b.frames[transport.Custom], "custom frame beside full windows")
		}
	})
}

// fillGrown reads until the window of a stream has grown, and stops when the window is full. QUIC
// lets the writer continue only after a quarter of the window was read. A reader that stops at any
// other point therefore leaves up to a quarter of the window empty. So fillGrown keeps reading in
// small steps until the writer has just continued. unread counts the unread bytes of all streams.
func fillGrown(s mesh.BulkStream, unread *atomic.Int64) {
	const (
		growBytes = 1 << 20
		stepBytes = 1 << 10
	)
	read := func(bytes int64) (left int64) {
		n, _ := io.CopyN(io.Discard, s, bytes) // the caller notices missing bytes
		return unread.Add(-n)
	}
	settle := func() int64 { // waits until no more bytes arrive
		time.Sleep(50 * delay)
		synctest.Wait()
		return unread.Load()
	}
	read(growBytes)
	settle()
	for range maxStreamWindow / stepBytes {
		if left := read(stepBytes); settle() > left {
			return
		}
	}
}

// TestDatagramsLeaveRoom floods a lossy path with datagrams, faster than QUIC can send them. Two of
// them fill a packet. Other frames must still arrive, although QUIC puts datagrams into packets
// first.
func TestDatagramsLeaveRoom(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		w.SetPath(addrA, addrB, simnet.Path{Loss: 0.05})
		var slowest time.Duration
		for range 200 {
			start := time.Now()
			a.Notify(addrB, make([]byte, 200))
			for len(b.frames[transport.System]) == 0 && time.Since(start) < time.Minute {
				for range 100 {
					if err := a.SendDatagram(addrB, make([]byte, 580)); err != nil {
						t.Fatalf("SendDatagram: %v", err)
					}
				}
				time.Sleep(100 * time.Microsecond)
			}
			next(t, b.frames[transport.System], "heartbeat")
			slowest = max(slowest, time.Since(start))
		}
		if limit := 20 * time.Millisecond; slowest > limit {
			t.Errorf("the slowest of 200 heartbeats took %v, want at most %v", slowest, limit)
		}
		if a.Stats().Dropped[mesh.DropBusy.String()] == 0 {
			t.Error("no datagram was too many: the test proves nothing")
		}
	})
}
