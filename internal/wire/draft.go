// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/athena-go/athena/member"
)

// Draft is the frame of an event in the making: its payload is encoded where it
// stays. The zero Draft is ready, and one that was used is ready again; its memory
// is kept. The frame is of the Draft until the next Begin.
type Draft struct {
	frame   []byte
	head    int // where the payload's own head is
	payload int // where the payload is
	end     int // and where it ends
}

// Begin returns what the payload is to be appended to.
func (d *Draft) Begin(name string) ([]byte, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%w: an event without a name", ErrMalformed)
	case len(name) > MaxEventName:
		return nil, fmt.Errorf("%w: an event with a name of %d bytes, the limit is %d",
			ErrMalformed, len(name), MaxEventName)
	case !member.IsPrintable(name):
		return nil, fmt.Errorf("%w: an event with the name %q, which has characters that are not "+
			"printable", ErrMalformed, name)
	}
	// The next payload is mostly about as long as the one before.
	width := blobHeadBytes(d.end - d.payload)
	b := append(d.frame[:0], magic, Version, byte(kindEvent), 0xdc, 0, 3)
	b = append(appendLength(b, text, len(name)), name...)
	d.head = len(b)
	d.payload = d.head + width
	var room [5]byte
	return append(b, room[:width]...), nil
}

// End completes the frame. b is what Begin returned, with the payload. A frame of
// more than limit bytes is ErrTooLarge.
func (d *Draft) End(b []byte, metadata map[string]string, limit int) error {
	n := len(b) - d.payload
	if n > limit {
		return tooLarge(kindEvent, n, limit)
	}
	if at := d.head + blobHeadBytes(n); at != d.payload {
		if at > d.payload {
			var room [4]byte
			b = append(b, room[:at-d.payload]...)
		}
		copy(b[at:], b[d.payload:d.payload+n])
		b = b[:at+n]
		d.payload = at
	}
	appendLength(b[:d.head:d.payload], blob, n)
	d.end = len(b)
	if len(metadata) == 0 {
		d.frame = append(b, noMetadata...)
	} else {
		c := codec{writing: true, kind: kindEvent, b: b}
		c.writeMetadata(metadata)
		if c.err != nil {
			return c.err
		}
		d.frame = c.b
	}
	if len(d.frame) > limit {
		return tooLarge(kindEvent, len(d.frame), limit)
	}
	return nil
}

// Frame is the frame of the event.
func (d *Draft) Frame() []byte { return d.frame }

// Payload is the payload of the event, a part of the frame.
func (d *Draft) Payload() []byte { return d.frame[d.payload:d.end:d.end] }

// Cap is how much memory the Draft keeps.
func (d *Draft) Cap() int { return cap(d.frame) }

// AppendCall appends to dst the frame of the event with a call, of at most limit
// bytes.
func (d *Draft) AppendCall(dst []byte, v Call, limit int) ([]byte, error) {
	c := codec{writing: true, kind: kindCall, b: append(dst, d.frame...)}
	at := len(dst)
	c.b[at+2] = byte(kindCall)
	binary.BigEndian.PutUint16(c.b[at+4:], 4)
	c.call(&v)
	return c.finish(dst, limit)
}

// blobHeadBytes is the length of the head that appendLength writes.
func blobHeadBytes(n int) int {
	switch {
	case n <= math.MaxUint8:
		return 2
	case n <= math.MaxUint16:
		return 3
	default:
		return 5
	}
}
