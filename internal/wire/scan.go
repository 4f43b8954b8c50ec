// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	// MaxDepth bounds the nesting of arrays and maps.
	MaxDepth = 8
	// MaxValues bounds the values of one body, including arrays, maps and keys. A value of one byte
	// may be decoded into an element of any size, and the library doubles an array as it grows. A body
	// of 1 MiB took 320 MiB when it was decoded as a list of structs of 160 bytes. MaxValues elements
	// of up to 256 bytes take at most 64 MiB. An event of DefaultEventBytes whose values take eight
	// bytes each stays within the bound.
	MaxValues = DefaultEventBytes / 8
)

// class is the type of a MessagePack value, regardless of its width.
type class uint8

const (
	invalid class = iota
	null
	boolean
	unsigned // a non-negative integer
	negative // a negative integer
	float
	text
	blob
	array
	dictionary
	extension
)

var classNames = [...]string{
	"an invalid byte", "nil", "a boolean", "an unsigned integer", "a negative integer", "a float",
	"a string", "a binary", "an array", "a map", "an extension",
}

// forms lists the class and the width of a value by its first byte, 0xc0 to 0xdf. The width is the
// number of bytes after the first that hold the value or the length.
var forms = [32]struct {
	class class
	width uint8
}{
	{null, 0}, {invalid, 0}, {boolean, 0}, {boolean, 0},
	{blob, 1}, {blob, 2}, {blob, 4},
	{extension, 1}, {extension, 2}, {extension, 4},
	{float, 4}, {float, 8},
	{unsigned, 1}, {unsigned, 2}, {unsigned, 4}, {unsigned, 8},
	{negative, 1}, {negative, 2}, {negative, 4}, {negative, 8},
	{extension, 0}, {extension, 0}, {extension, 0}, {extension, 0}, {extension, 0},
	{text, 1}, {text, 2}, {text, 4},
	{array, 2}, {array, 4},
	{dictionary, 2}, {dictionary, 4},
}

// head reads the first bytes of the value at pos. It returns the class of the value, the value or
// its length, and the position after these bytes. A truncated value has class invalid. A negative
// integer is returned as an int64 converted to uint64.
func head(b []byte, pos int) (c class, n uint64, end int) {
	if pos >= len(b) {
		return invalid, 0, pos
	}
	first := b[pos]
	switch {
	case first < 0x80:
		return unsigned, uint64(first), pos + 1
	case first < 0x90:
		return dictionary, uint64(first & 0x0f), pos + 1
	case first < 0xa0:
		return array, uint64(first & 0x0f), pos + 1
	case first < 0xc0:
		return text, uint64(first & 0x1f), pos + 1
	case first >= 0xe0:
		return negative, uint64(int64(int8(first))), pos + 1
	}
	form := forms[first-0xc0]
	rest := b[pos+1:]
	if len(rest) < int(form.width) {
		return invalid, 0, pos
	}
	var shift uint // moves the sign bit of a signed integer to bit 63
	switch form.width {
	case 0:
		n = uint64(first & 1) // the value of a boolean
	case 1:
		n, shift = uint64(rest[0]), 56
	case 2:
		n, shift = uint64(binary.BigEndian.Uint16(rest)), 48
	case 4:
		n, shift = uint64(binary.BigEndian.Uint32(rest)), 32
	case 8:
		n = binary.BigEndian.Uint64(rest)
	}
	c = form.class
	if c == negative {
		signed := int64(n<<shift) >> shift
		if n = uint64(signed); signed >= 0 {
			c = unsigned
		}
	}
	return c, n, pos + 1 + int(form.width)
}

// Scan checks that b is exactly one MessagePack value. It may be at most MaxDepth deep and contain
// at most MaxValues values. No length may exceed b, and no extension types except timestamps are
// allowed. Bytes from the network must pass Scan before any package decodes them: decoders allocate
// whatever a length declares and recurse as deep as the values nest. Scan neither recurses nor
// allocates. An error wraps ErrMalformed, or ErrTooLarge if there are too many values.
func Scan(b []byte) error {
	end, err := skip(b, 0)
	if err != nil {
		return err
	}
	if end != len(b) {
		return trailing(b, end)
	}
	return nil
}

func trailing(b []byte, end int) error {
	return fmt.Errorf("%w: byte %d: %d bytes after the end", ErrMalformed, end, len(b)-end)
}

// skip returns the position after the value at pos.
func skip(b []byte, pos int) (int, error) {
	var left [MaxDepth]uint64 // values left to read in each open array or map
	depth := 0
	for values := 1; ; values++ {
		if values > MaxValues {
			return 0, fmt.Errorf("%w: byte %d: more than %d values, including field names: "+
				"send many small ones as one []byte", ErrTooLarge, pos, MaxValues)
		}
		c, n, end := head(b, pos)
		size := uint64(0) // the minimum number of bytes that must follow
		switch c {
		case invalid:
			return 0, refuse(b, pos, c)
		case extension:
			if end = timestampEnd(b, pos); end == 0 {
				return 0, refuse(b, pos, c)
			}
		case text, blob, array:
			size = n
		case dictionary:
			size = 2 * n
		}
		if size > uint64(len(b)-end) {
			return 0, fmt.Errorf("%w: byte %d: %s of length %d, but only %d bytes are left",
				ErrMalformed, pos, classNames[c], n, len(b)-end)
		}
		switch c {
		case text, blob:
			end += int(size)
		case array, dictionary:
			if depth == MaxDepth {
				return 0, fmt.Errorf("%w: byte %d: nested more than %d levels deep: "+
					"send the inner ones as one []byte", ErrMalformed, pos, MaxDepth)
			}
			if size > 0 {
				left[depth] = size
				depth++
				pos = end
				continue
			}
		}
		for depth > 0 {
			if left[depth-1]--; left[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			return end, nil
		}
		pos = end
	}
}

// timestampEnd returns the position after the timestamp at pos, or 0 if there is no timestamp. The
// timestamp (type -1, of 4, 8 or 12 bytes) is the only extension that every library supports, so an
// event can contain a time.Time.
func timestampEnd(b []byte, pos int) int {
	for _, form := range [...]struct {
		head string
		size int
	}{{"\xd6\xff", 4}, {"\xd7\xff", 8}, {"\xc7\x0c\xff", 12}} {
		end := pos + len(form.head) + form.size
		if end <= len(b) && string(b[pos:pos+len(form.head)]) == form.head {
			return end
		}
	}
	return 0
}

func refuse(b []byte, pos int, c class) error {
	switch {
	case c == extension:
		return fmt.Errorf("%w: byte %d: extension types are not allowed", ErrMalformed, pos)
	case pos < len(b) && b[pos] == 0xc1:
		return fmt.Errorf("%w: byte %d: 0xc1 is not the first byte of a value", ErrMalformed, pos)
	default:
		return fmt.Errorf("%w: byte %d: truncated", ErrMalformed, pos)
	}
}
