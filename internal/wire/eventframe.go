// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/athena-go/athena/member"
)

// Draft builds the frame of an event, encoding the payload directly into it. The zero Draft
// is ready to use. A Draft can be reused and keeps its memory; a frame is valid until the
// next Begin.
type Draft struct {
	frame   []byte
	name    string // in frame; the next event often has the same
	head    int    // position of the payload's head
	payload int    // position of the payload
	end     int    // position after the payload
}

// Begin returns the slice to which the caller appends the payload.
func (d *Draft) Begin(name string) ([]byte, error) {
	if name != d.name || name == "" {
		if err := d.writeName(name); err != nil {
			return nil, err
		}
	}
	// Assume that the payload is about as long as the previous payload.
	width := blobHeadBytes(d.end - d.payload)
	d.payload = d.head + width
	var room [5]byte
	return append(d.frame[:d.head], room[:width]...), nil
}

// writeName checks a name and writes everything that precedes the payload's head.
func (d *Draft) writeName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: an event without a name", ErrMalformed)
	case len(name) > MaxEventName:
		return fmt.Errorf("%w: an event with a name of %d bytes, the limit is %d",
			ErrMalformed, len(name), MaxEventName)
	case !member.IsPrintable(name):
		return fmt.Errorf("%w: an event with unprintable characters in its name %q",
			ErrMalformed, name)
	}
	b := append(d.frame[:0], magic, Version, byte(kindEvent), 0xdc, 0, 3)
	d.frame = append(appendLength(b, text, len(name)), name...)
	d.name, d.head = name, len(d.frame)
	return nil
}

// End completes the frame. b is the slice from Begin with the payload appended. If the frame would
// exceed the limit, End returns ErrTooLarge.
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

// Frame returns the frame of the event.
func (d *Draft) Frame() []byte { return d.frame }

// Payload returns the payload of the event, a part of the frame.
func (d *Draft) Payload() []byte { return d.frame[d.payload:d.end:d.end] }

// Cap returns the number of bytes of memory that the Draft holds.
func (d *Draft) Cap() int { return cap(d.frame) }

// AppendCall appends the event to dst as the frame of a call, no longer than the limit.
func (d *Draft) AppendCall(dst []byte, v Call, limit int) ([]byte, error) {
	c := codec{writing: true, kind: kindCall, b: append(dst, d.frame...)}
	at := len(dst)
	c.b[at+2] = byte(kindCall)
	binary.BigEndian.PutUint16(c.b[at+4:], 4)
	c.call(&v)
	return c.finish(dst, limit)
}

// blobHeadBytes returns the length of the head that appendLength writes.
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
