// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/transporttest"
)

// TestFullWindowsStopNobody fills the windows of all bulk streams, which have grown
// to their limit, at a node that has stopped to read: it goes on to hear system and
// custom frames, many times what the window of the connection leaves for them.
func TestFullWindowsStopNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const growBytes = 8 << 20 // read of each stream before
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		var unread atomic.Int64
		chunk := make([]byte, 8<<10)
		write := func(s transport.BulkStream) {
			for {
				n, err := s.Write(chunk)
				if unread.Add(int64(n)); err != nil {
					return
				}
			}
		}
		quit, grown := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(quit) }) // before the nodes are closed
		read := func(s transport.BulkStream) {
			n, _ := io.CopyN(io.Discard, s, growBytes) // what is missing is found below
			unread.Add(-n)
			grown <- struct{}{}
			<-quit
		}
		a.serve = func(_ []byte, s transport.BulkStream) { write(s) }
		b.serve = func(_ []byte, s transport.BulkStream) { read(s) }
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		for range transport.MaxStreams {
			ours, err := a.OpenStream(t.Context(), addrB, nil)
			if err != nil {
				t.Fatalf("OpenStream: %v", err)
			}
			go write(ours)
			<-grown
			theirs, err := b.OpenStream(t.Context(), addrA, nil)
			if err != nil {
				t.Fatalf("OpenStream: %v", err)
			}
			go read(theirs)
			<-grown
		}
		time.Sleep(time.Minute) // until nothing more goes
		synctest.Wait()
		const full = 2 * transport.MaxStreams * maxStreamWindow
		if got := unread.Load(); got < full*9/10 || got > full*11/10 {
			t.Errorf("%d bytes wait for a reader, want about %d", got, full)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 * connectionWindow / transport.MaxSystemBytes {
			a.Notify(addrB, make([]byte, transport.MaxSystemBytes))
			if err := a.Send(ctx, addrB, make([]byte, transport.MaxSystemBytes)); err != nil {
				t.Fatalf("Send: %v", err)
			}
			next(t, b.frames[transport.System], "system frame beside full windows")
			next(t, b.frames[transport.Custom], "custom frame beside full windows")
		}
	})
}

// TestDatagramsLeaveRoom floods a path that loses packets, so that QUIC sends fewer
// than there are, with datagrams of which two fill a packet. QUIC puts them in first.
func TestDatagramsLeaveRoom(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		w.SetPath(addrA, addrB, transporttest.Path{Loss: 0.05})
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
		if a.Stats().Dropped[transport.DropBusy] == 0 {
			t.Error("no datagram was too many: the test shows nothing")
		}
	})
}
