// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/athena-go/athena/transport"
)

// A lane carries frames. A frame is a header of headerBytes, followed by the payload.
//
//	type     1 byte
//	stream   4 bytes, big endian; zero for frames of the connection
//	length   3 bytes, big endian, of the payload
const (
	headerBytes = 8
	// maxPayload bounds the payload of a frame.
	maxPayload = 32 << 10
	// recordBytes is the largest payload of a TLS record.
	recordBytes = 16 << 10
	// sentPayload is the longest payload that this end sends: with its header, it fills two records.
	sentPayload = 2*recordBytes - headerBytes
)

// frameType is the first byte of a frame.
type frameType uint8

const (
	frameData     frameType = iota // bytes of a stream
	frameEnd                       // the sender has written everything on the stream
	frameReset                     // the sender stopped writing the stream early
	frameStop                      // the sender no longer reads the stream
	frameWindow                    // the peer may send this many more bytes: a 4-byte number
	frameRelease                   // the accepting end has released the stream
	frameDatagram                  // a datagram
	frameAlive                     // a keep-alive
	frameOpenLane                  // the accepting end needs the bulk lane
	frameClose                     // the connection is closed: an 8-byte code and the reason
	frameTypes
)

// errFrame reports bytes that no Athena node sends.
var errFrame = errors.New("tlsnet: invalid frame")

// appendHeader appends the header of a frame with a payload of n bytes.
func appendHeader(b []byte, t frameType, stream uint32, n int) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, byte(n>>16), byte(n>>8), byte(n))
}

// header is the decoded header of a frame.
type header struct {
	kind   frameType
	stream uint32
	length int
}

// parseHeader decodes a header and checks what can be checked without the state of the connection.
func parseHeader(b []byte) (header, error) {
	h := header{
		kind:   frameType(b[0]),
		stream: binary.BigEndian.Uint32(b[1:5]),
		length: int(b[5])<<16 | int(b[6])<<8 | int(b[7]),
	}
	low, high := 0, 0
	switch h.kind {
	case frameData:
		low, high = 1, maxPayload
	case frameDatagram:
		low, high = 0, transport.MaxPacketBytes
	case frameWindow:
		low, high = 4, 4
	case frameClose:
		low, high = 8, 8+maxReasonBytes
	}
	if h.kind >= frameTypes || h.length < low || h.length > high {
		return h, fmt.Errorf("%w: type %d, length %d", errFrame, h.kind, h.length)
	}
	return h, nil
}
