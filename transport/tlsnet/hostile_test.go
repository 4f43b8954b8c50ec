// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/athena-go/athena/transport"
)

// hostile is a member that sends what it likes on a lane, and the node that it attacks.
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

// TestHostileFrames sends frames that no node sends: each ends the connection, and nothing
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

// TestStreamsChurn opens and resets streams without reading a byte of what the victim sends
// back: what the victim keeps stays bounded.
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

// FuzzHeader parses any header.
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
