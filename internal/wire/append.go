// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"
)

func appendUint(b []byte, n uint64) []byte {
	switch {
	case n < 0x80:
		return append(b, byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
	}
}

// appendInt writes n in the shortest form, or in eight bytes if it is negative. Only readings of
// clocks can be negative, which is rare.
func appendInt(b []byte, n int64) []byte {
	if n >= 0 {
		return appendUint(b, uint64(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
}

// appendLength appends the head of a string or binary of n bytes.
func appendLength(b []byte, c class, n int) []byte {
	first := byte(0xc4) // binary with a length of one byte
	if c == text {
		if n < 0x20 {
			return append(b, 0xa0|byte(n))
		}
		first = 0xd9
	}
	switch {
	case n <= math.MaxUint8:
		return append(b, first, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, first+1), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(b, first+2), uint32(n))
	}
}
