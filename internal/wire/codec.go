// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// codec reads or writes one frame, field by field. Its methods take a pointer
// to the field: writing they only read through it, reading they only write, so
// that one function describes a struct for both. The first fault stays in err
// and makes every later call do nothing.
type codec struct {
	writing bool
	kind    message.Kind
	b       []byte // the frame; appended to when writing
	pos     int    // reading: of the next value
	array   scope
	err     error
}

// scope is an array that is being read or written.
type scope struct {
	fields int // written so far, or left to read
	start  int // writing: where the array's own header is
}

// enter begins a struct or list; its end is leave with what enter returned.
func (c *codec) enter() (outer scope) {
	if c.writing {
		c.array.fields++
		outer, c.array = c.array, scope{start: len(c.b)}
		c.b = append(c.b, 0xdc, 0, 0) // leave fills in the number of fields
		return outer
	}
	n := c.next(array)
	outer, c.array = c.array, scope{fields: int(n)}
	return outer
}

// leave ends an array. Fields that this version does not know are skipped.
func (c *codec) leave(outer scope) {
	if c.writing {
		binary.BigEndian.PutUint16(c.b[c.array.start+1:], uint16(c.array.fields))
		c.array = outer
		return
	}
	for ; c.array.fields > 0 && c.err == nil; c.array.fields-- {
		c.pos, c.err = skip(c.b, c.pos)
	}
	c.array = outer
}

// next reads the head of the next field, which must be of class want.
func (c *codec) next(want class) uint64 {
	if c.err != nil {
		return 0
	}
	if c.array.fields == 0 {
		c.fail("a field is missing")
		return 0
	}
	c.array.fields--
	got, n, end := head(c.b, c.pos)
	if got != want {
		c.fail("want %s, got %s", classNames[want], classNames[got])
		return 0
	}
	c.pos = end
	return n
}

// take reads n bytes, which Scan has found to be there.
func (c *codec) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	from := c.pos
	c.pos += int(n)
	return c.b[from:c.pos]
}

// fail keeps the first fault.
func (c *codec) fail(format string, args ...any) {
	if c.err != nil {
		return
	}
	at := c.pos
	if c.writing {
		at = len(c.b)
	}
	c.err = fmt.Errorf("%w: %s, byte %d: %s",
		ErrMalformed, kindName(c.kind), at, fmt.Sprintf(format, args...))
}

func (c *codec) bool(v *bool) {
	if !c.writing {
		*v = c.next(boolean) == 1
		return
	}
	c.array.fields++
	if *v {
		c.b = append(c.b, 0xc3)
	} else {
		c.b = append(c.b, 0xc2)
	}
}

func (c *codec) uint64(v *uint64) {
	if c.writing {
		c.array.fields++
		c.b = appendUint(c.b, *v)
		return
	}
	*v = c.next(unsigned)
}

// count is a version, a revision, a round or an incarnation. What is read is
// bounded more narrowly than what is written, so that the successor of a number
// that came from a peer can always be said.
func (c *codec) count(v *uint64) {
	c.uint64(v)
	if *v > 2*member.MaxCount || !c.writing && *v > member.MaxCount {
		c.fail("a count of %d", *v)
	}
}

// within is an unsigned integer of a narrower type, from lo to hi.
func within[T ~uint8 | ~uint16 | ~int](c *codec, v *T, lo, hi T) {
	n := uint64(*v)
	c.uint64(&n)
	if n < uint64(lo) || n > uint64(hi) {
		c.fail("%d is not within %d to %d", n, uint64(lo), uint64(hi))
	} else if !c.writing {
		*v = T(n)
	}
}

func (c *codec) int64(v *int64) {
	if c.writing {
		c.array.fields++
		c.b = appendInt(c.b, *v)
		return
	}
	want := unsigned
	if got, _, _ := head(c.b, c.pos); got == negative {
		want = negative
	}
	n := c.next(want)
	if want == unsigned && n > math.MaxInt64 {
		c.fail("%d is above the largest int64", n)
		return
	}
	*v = int64(n)
}

// duration is written as nanoseconds and never negative.
func (c *codec) duration(v *time.Duration) {
	n := int64(*v)
	c.int64(&n)
	if n < 0 {
		c.fail("negative duration %v", time.Duration(n))
		return
	}
	*v = time.Duration(n)
}

// text is a string of at most limit bytes.
func (c *codec) text(v *string, limit int) {
	if c.writing {
		c.array.fields++
		c.b = append(appendLength(c.b, text, len(*v)), *v...)
	} else {
		n := c.next(text)
		if n > uint64(limit) {
			c.fail("a string of %d bytes, the limit is %d", n, limit)
			return
		}
		*v = string(c.take(n))
	}
	if len(*v) > limit {
		c.fail("a string of %d bytes, the limit is %d", len(*v), limit)
	} else if !utf8.ValidString(*v) {
		c.fail("a string that is not UTF-8")
	}
}

// name is a text that people read, in logs and on terminals: what could forge a
// line of a log or steer a terminal is refused, as it is in a configuration.
func (c *codec) name(v *string, limit int) {
	c.text(v, limit)
	if !member.IsPrintable(*v) {
		c.fail("the name %s, which has characters that are not printable", safetext.QuotePeerText(*v))
	}
}

// view is a binary; an empty one is read as nil. What is read is part of the frame.
func (c *codec) view(v *[]byte) {
	if c.writing {
		c.array.fields++
		c.b = append(appendLength(c.b, blob, len(*v)), *v...)
		return
	}
	if b := c.take(c.next(blob)); len(b) > 0 {
		*v = b[:len(b):len(b)]
	}
}

// id is the random id of a store or of a cluster.
func (c *codec) id(of string, v *[16]byte) {
	if c.writing {
		c.array.fields++
		c.b = append(appendLength(c.b, blob, len(v)), v[:]...)
		return
	}
	n := c.next(blob)
	if n != uint64(len(v)) {
		c.fail("a %s id of %d bytes, want %d", of, n, len(v))
		return
	}
	copy(v[:], c.take(n))
}

// blob is a binary of at most limit bytes; an empty one is read as nil. What is read is a
// copy, with no byte more: bytes.Clone would take eight for one.
func (c *codec) blob(v *[]byte, limit int) {
	c.view(v)
	if len(*v) > limit {
		c.fail("a binary of %d bytes, the limit is %d", len(*v), limit)
		return
	}
	if !c.writing && len(*v) > 0 {
		*v = append(make([]byte, 0, len(*v)), *v...)
	}
}

// skipPadding takes the third element of a body, any binary.
func (c *codec) skipPadding() { c.take(c.next(blob)) }
