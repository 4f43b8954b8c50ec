// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/athena-go/athena/transport"
)

// hostile is a member that sends arbitrary frames, with the node that it attacks.
type hostile struct {
	lanes  [lanes]tlsConn
	victim *conn
}

func attack(t *testing.T) *hostile {
	t.Helper()
	a, _ := open(t, nil)
	b, at := open(t, nil)
	h := &hostile{}
	id := connID{1, 2, 3}
	for lane := range byte(lanes) {
		c, err := a.handshake(t.Context(), at.String(), id, lane)
		if err != nil {
			t.Fatalf("handshake of lane %d: %v", lane, err)
		}
		t.Cleanup(func() { _ = c.socket.Close() }) // the victim may have closed it
		h.lanes[lane] = c
		if lane == systemLane {
			accepted, err := b.Accept()
			if err != nil {
				t.Fatalf("Accept: %v", err)
			}
			h.victim = accepted.(*conn)
		}
	}
	return h
}

func (h *hostile) send(t *testing.T, lane int, kind frameType, stream uint32, payload []byte) {
	t.Helper()
	b := append(appendHeader(nil, kind, stream, len(payload)), payload...)
	if _, err := h.lanes[lane].Write(b); err != nil {
		t.Logf("Write: %v", err) // the victim may have closed the connection
	}
}

// TestHostileFrames sends frames that no node sends. Each must end the connection, and nothing
// else.
func TestHostileFrames(t *testing.T) {
	window := binary.BigEndian.AppendUint32(nil, maxCredit)
	for _, test := range []struct {
		name string
		do   func(h *hostile)
	}{
		{"unknown type", func(h *hostile) { h.send(t, systemLane, frameTypes, 0, nil) }},
		{"empty data", func(h *hostile) { h.send(t, systemLane, frameData, 0, nil) }},
		{"long data", func(h *hostile) {
			h.send(t, systemLane, frameData, 0, make([]byte, maxPayload+1))
		}},
		{"beyond the window", func(h *hostile) {
			h.send(t, systemLane, frameData, 0, make([]byte, maxPayload))
			h.send(t, systemLane, frameData, 0, make([]byte, 1))
		}},
		{"data after the end", func(h *hostile) {
			h.send(t, systemLane, frameEnd, 0, nil)
			h.send(t, systemLane, frameData, 0, make([]byte, 1))
		}},
		{"events on the system lane", func(h *hostile) {
			h.send(t, systemLane, frameData, uint32(transport.Custom), make([]byte, 1))
		}},
		{"system messages on the bulk lane", func(h *hostile) {
			h.send(t, bulkLane, frameData, uint32(transport.System), make([]byte, 1))
		}},
		{"stream between the kinds and the bulk streams", func(h *hostile) {
			h.send(t, bulkLane, frameData, firstBulkID-1, make([]byte, 1))
		}},
		{"stream of the victim that is not open", func(h *hostile) {
			h.send(t, bulkLane, frameData, firstBulkID+1, make([]byte, 1))
		}},
		{"too many streams", func(h *hostile) {
			for i := range uint32(transport.MaxStreams + 1) {
				h.send(t, bulkLane, frameData, firstBulkID+2*i, make([]byte, 1))
			}
		}},
		{"release of nothing", func(h *hostile) { h.send(t, bulkLane, frameRelease, 4, nil) }},
		{"boundless window", func(h *hostile) {
			h.send(t, systemLane, frameWindow, 0, window)
			h.send(t, systemLane, frameWindow, 0, window)
		}},
		{"short window", func(h *hostile) { h.send(t, systemLane, frameWindow, 0, window[:3]) }},
		{"long datagram", func(h *hostile) {
			h.send(t, bulkLane, frameDatagram, 0, make([]byte, transport.MaxPacketBytes+1))
		}},
		{"short close", func(h *hostile) { h.send(t, systemLane, frameClose, 0, nil) }},
		{"lane of the dialer asked for by it", func(h *hostile) {
			h.send(t, systemLane, frameOpenLane, 0, nil)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := attack(t)
			test.do(h)
			<-h.victim.over
			closed, ok := errors.AsType[*transport.CloseError](h.victim.cause())
			if !ok || closed.Code != transport.CodeGarbage {
				t.Errorf("the connection ended with %v, want CodeGarbage", h.victim.cause())
			}
		})
	}
}

// TestStreamsChurn opens and resets streams without reading any answer, and checks that the memory
// of the victim stays bounded.
func TestStreamsChurn(t *testing.T) {
	h := attack(t)
	go func() {
		for {
			s, err := h.victim.AcceptStream()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, s) // to its reset
			s.Cancel()
			s.Release()
		}
	}()
	for i := range uint32(200_000) {
		id := firstBulkID + 2*i
		b := appendHeader(nil, frameReset, id, 0)
		if _, err := h.lanes[bulkLane].Write(b); err != nil {
			break
		}
		h.victim.mu.Lock()
		kept := len(h.victim.streams)
		h.victim.mu.Unlock()
		if kept > transport.MaxStreams {
			t.Fatalf("%d streams are kept", kept)
		}
		l := h.victim.lanes[bulkLane]
		l.mu.Lock()
		pending := len(l.pending)
		l.mu.Unlock()
		if pending > 5*maxPending {
			t.Fatalf("%d bytes are pending", pending)
		}
	}
	h.victim.Close(transport.CodeClosed, "enough")
}

// blockWriter starts a Write on a stream of the victim. The Write waits for room on the lane.
func (h *hostile) blockWriter(t *testing.T) (s transport.RawStream, ended chan error) {
	t.Helper()
	s, err := h.victim.OpenStream()
	if err != nil {
		t.Fatalf("OpenStream: %v", err)
	}
	s.(*stream).addCredit(maxCredit / 2)
	l := h.victim.lanes[bulkLane]
	<-l.attached
	l.mu.Lock()
	l.writer = pushWriter // pretend to be the writer, and write nothing
	l.mu.Unlock()
	ended = make(chan error, 1)
	go func() {
		_, err := s.Write(make([]byte, 8*maxPending))
		ended <- err
	}()
	for pending := 0; pending <= maxPending; runtime.Gosched() {
		l.mu.Lock()
		pending = len(l.pending)
		l.mu.Unlock()
	}
	return s, ended
}

// TestAWriteEndsWithItsStream checks that a Write that waits for the lane returns when either end
// closes the stream.
func TestAWriteEndsWithItsStream(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(h *hostile, s transport.RawStream)
		want error
	}{
		{"Cancel", func(_ *hostile, s transport.RawStream) { s.Cancel() }, transport.ErrStreamClosed},
		{"CloseWrite", func(_ *hostile, s transport.RawStream) { _ = s.CloseWrite() },
			transport.ErrStreamClosed},
		{"Cancel of the peer", func(h *hostile, s transport.RawStream) {
			h.send(t, bulkLane, frameStop, s.(*stream).id, nil)
		}, transport.ErrStreamReset},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := attack(t)
			s, ended := h.blockWriter(t)
			test.end(h, s)
			select {
			case err := <-ended:
				if !errors.Is(err, test.want) {
					t.Errorf("Write: got %v, want %v", err, test.want)
				}
			case <-time.After(5 * time.Second):
				t.Error("Write waits on")
			}
			h.victim.Close(transport.CodeClosed, "enough")
		})
	}
}

// TestNothingPilesUpBelowTLS writes to a member that does not read. TLS does that by itself, for
// example when the peer requests new keys. The unwritten bytes must be bounded.
func TestNothingPilesUpBelowTLS(t *testing.T) {
	h := attack(t)
	l := h.victim.lanes[bulkLane]
	<-l.attached
	for range 20_000 {
		if _, err := l.tls.socket.Write(make([]byte, 1<<10)); err != nil {
			break
		}
	}
	l.tls.socket.mu.Lock()
	if kept := len(l.tls.socket.rest); kept > maxRest {
		t.Errorf("%d bytes are kept", kept)
	}
	l.tls.socket.mu.Unlock()
	<-h.victim.over
}

// TestEveryMessageIsAnswered sends a system message followed by another frame, and then only a part
// of a message, as a slow network would. It checks that each is answered with a keep-alive.
func TestEveryMessageIsAnswered(t *testing.T) {
	h := attack(t)
	l := h.lanes[systemLane]
	if err := l.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, headerBytes)
	if _, err := io.ReadFull(l, b); err != nil { // the frame that accepts the connection
		t.Fatalf("Read: %v", err)
	}
	message := append(appendHeader(nil, frameData, 0, 1), 'x')
	if _, err := l.Write(appendHeader(message, frameAlive, 0, 0)); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if _, err := io.ReadFull(l, b); err != nil || frameType(b[0]) != frameAlive {
		t.Errorf("got a frame of type %d, %v, want a sign of life", b[0], err)
	}
	heard := h.victim.Heard()
	if _, err := l.Write(append(appendHeader(nil, frameData, 0, 1000), 'x')); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if _, err := io.ReadFull(l, b); err != nil || frameType(b[0]) != frameAlive {
		t.Errorf("got a frame of type %d, %v, want a sign of life", b[0], err)
	}
	part := h.victim.Heard()
	if _, err := l.Write([]byte{'x'}); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if _, err := io.ReadFull(l, b); err != nil || part <= heard || h.victim.Heard() <= part {
		t.Errorf("heard %d, %d, %d, %v: want it to grow", heard, part, h.victim.Heard(), err)
	}
}

// FuzzHeader parses arbitrary headers.
func FuzzHeader(f *testing.F) {
	f.Add(appendHeader(nil, frameData, 1, 1))
	f.Add(appendHeader(nil, frameClose, 0, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerBytes {
			return
		}
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		again := appendHeader(nil, h.kind, h.stream, h.length)
		if string(again) != string(b[:headerBytes]) {
			t.Errorf("%x became %x", b[:headerBytes], again)
		}
	})
}
