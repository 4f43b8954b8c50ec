// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/member"
)

// MaxNameBytes bounds the name of a member, of printable characters.
const MaxNameBytes = 128

const (
	// format is the first byte of a packet of letters. Another one is dropped.
	format = 1
	// headBytes of a letter are before the names: kind, age in ms, run, seq, term.
	headBytes = 1 + 4 + 3*8
	// told is a bit beside the kind.
	told = 1 << 7
	// ageAt is where the age is.
	ageAt = 1
	// packetBytes bounds a packet, for networks that carry 1,500 with all that is around
	// it. The longest letter fits.
	packetBytes = 1200
)

var errPacket = errors.New("gossip: no packet of this format")

// letter is a message of a group as it travels. Its Age counts the time on the way.
type letter struct {
	group string
	told  bool // to this member alone, by one that heard it; else it is sent on to all
	lowest.Message
}

// bytes is the letter as it travels.
func (l letter) bytes() []byte {
	b := make([]byte, 0, headBytes+2+len(l.group)+len(l.Member))
	kind := byte(l.Kind)
	if l.told {
		kind |= told
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, milliseconds(l.Age))
	b = binary.BigEndian.AppendUint64(b, l.Run)
	b = binary.BigEndian.AppendUint64(b, l.Seq)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	return appendName(appendName(b, l.group), l.Member)
}

// parse reads the letter at the start of b, and copies what it keeps.
func parse(b []byte) (l letter, rest []byte, err error) {
	if len(b) < headBytes {
		return letter{}, nil, errPacket
	}
	l = letter{told: b[0]&told != 0, Message: lowest.Message{
		Kind: lowest.Kind(b[0] &^ told),
		Age:  time.Duration(binary.BigEndian.Uint32(b[ageAt:])) * time.Millisecond,
		Run:  binary.BigEndian.Uint64(b[5:]),
		Seq:  binary.BigEndian.Uint64(b[13:]),
		Term: binary.BigEndian.Uint64(b[21:]),
	}}
	if l.group, b, err = cutName(b[headBytes:], election.MaxGroupBytes); err != nil {
		return letter{}, nil, err
	}
	if l.Member, b, err = cutName(b, MaxNameBytes); err != nil {
		return letter{}, nil, err
	}
	switch l.Kind {
	case lowest.Declaration:
		return l, b, nil
	case lowest.Proposal, lowest.Resignation: // only who leads is told
		if !l.told {
			return l, b, nil
		}
	}
	return letter{}, nil, errPacket
}

// pack is some letters as they travel, and who sends them.
func pack(sender string, letters ...[]byte) []byte {
	return append(appendName([]byte{format}, sender), slices.Concat(letters...)...)
}

// unpack reads a packet. All of it is sound, or there is an error.
func unpack(b []byte) (sender string, all []letter, err error) {
	if len(b) == 0 || len(b) > packetBytes || b[0] != format {
		return "", nil, errPacket
	}
	if sender, b, err = cutName(b[1:], MaxNameBytes); err != nil {
		return "", nil, err
	}
	for len(b) > 0 {
		var l letter
		if l, b, err = parse(b); err != nil {
			return "", nil, err
		}
		all = append(all, l)
	}
	return sender, all, nil
}

func appendName(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

func cutName(b []byte, most int) (s string, rest []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, errPacket
	}
	s, rest = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
	if !isName(s, most) {
		return "", nil, errPacket
	}
	return s, rest, nil
}

func isName(s string, most int) bool {
	return s != "" && len(s) <= most && member.IsPrintable(s)
}

// milliseconds is a duration as it travels, rounded up: nothing gets younger on the way.
func milliseconds(d time.Duration) uint32 {
	ms := (max(0, d) + time.Millisecond - 1) / time.Millisecond
	return uint32(min(ms, math.MaxUint32))
}
