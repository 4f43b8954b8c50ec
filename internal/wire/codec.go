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

// codec reads or writes one frame, field by field. Each method takes a pointer to a field, and
// either reads into the field or writes it to the frame. So one function describes a struct in both
// directions. Writing never changes a field, because other goroutines may read it. The first error
// is kept in err, and later calls do nothing.
type codec struct {
	writing bool
	kind    message.Kind
	b       []byte // the frame; writing appends to it
	pos     int    // when reading: position of the next value
	array   scope
	err     error
}

// scope is an array that is being read or written.
type scope struct {
	fields int // written so far, or still to be read
	start  int // when writing: position of the array's header
}

// enter begins a struct or list. The caller passes the result to leave.
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

// leave ends an array. It skips unknown fields.
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

// hasAddedField reports whether to write or to read a field that was added to an array later.
// Earlier versions do not write such a field.
func (c *codec) hasAddedField() bool { return c.writing || c.array.fields > 0 }

// next reads the head of the next field, which must be of the given class, and returns its value or
// length.
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

// take reads n bytes. Scan has checked that the frame contains them.
func (c *codec) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	from := c.pos
	c.pos += int(n)
	return c.b[from:c.pos]
}

// fail sets the error unless one is already set.
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

// count encodes or decodes a version, a revision, a round or an incarnation. Writing allows larger
// numbers than reading, so that a node can always write the successor of a number it has read.
func (c *codec) count(v *uint64) {
	c.uint64(v)
	if *v > 2*member.MaxCount || !c.writing && *v > member.MaxCount {
		c.fail("the count %d is too large", *v)
	}
}

// within encodes or decodes an unsigned integer of a narrower type. It checks that the
// integer is from lo to hi.
func within[T ~uint8 | ~uint16 | ~int](c *codec, v *T, lo, hi T) {
	n := uint64(*v)
	c.uint64(&n)
	if n < uint64(lo) || n > uint64(hi) {
		c.fail("%d is out of range: want %d to %d", n, uint64(lo), uint64(hi))
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
		c.fail("%d does not fit into an int64", n)
		return
	}
	*v = int64(n)
}

// duration encodes or decodes a duration in nanoseconds, which must not be negative.
func (c *codec) duration(v *time.Duration) {
	n := int64(*v)
	c.int64(&n)
	if n < 0 {
		c.fail("negative duration %v", time.Duration(n))
	} else if !c.writing {
		*v = time.Duration(n)
	}
}

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

// name encodes or decodes a text that appears in logs and on terminals. It refuses characters that
// could forge a log line or control a terminal, as the configuration does.
func (c *codec) name(v *string, limit int) {
	c.text(v, limit)
	if !member.IsPrintable(*v) {
		c.fail("the name %s has unprintable characters", safetext.QuotePeerText(*v))
	}
}

// view encodes or decodes a binary. When reading, it sets *v to a part of the frame, or leaves it
// nil if the binary is empty.
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

// id encodes or decodes the random ID of a store or a cluster.
func (c *codec) id(of string, v *[16]byte) { c.fixed(of, v[:]) }

// fixed encodes or decodes a binary of a fixed length.
func (c *codec) fixed(of string, v []byte) {
	if c.writing {
		c.array.fields++
		c.b = append(appendLength(c.b, blob, len(v)), v...)
		return
	}
	n := c.next(blob)
	if n != uint64(len(v)) {
		c.fail("a %s of %d bytes, want %d", of, n, len(v))
		return
	}
	copy(v, c.take(n))
}

// blob encodes or decodes a binary no longer than the limit. When reading, it makes a copy of
// exactly that size (bytes.Clone would allocate eight bytes for a single byte). If the binary is
// empty, it leaves *v nil.
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

// skipPadding skips the third element of a body, which may be any binary.
func (c *codec) skipPadding() { c.take(c.next(blob)) }
