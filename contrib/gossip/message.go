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

// MaxNameBytes is the maximum length of the name of a member, which must be printable.
const MaxNameBytes = 128

const (
	// format is the first byte of a packet. Packets of other formats are dropped.
	format = 1
	// headBytes is the length of a message before its names: kind, age in ms, run, seq, term.
	headBytes = 1 + 4 + 3*8
	// relayed is a flag in the byte of the kind. It marks a relayed message.
	relayed = 1 << 7
	// ageAt is the offset of the age.
	ageAt = 1
	// packetBytes is the maximum size of a packet, for networks with an MTU of 1,500. The
	// longest message fits.
	packetBytes = 1200
)

var errPacket = errors.New("gossip: not a packet of this format")

// groupMessage is a message of a group. Its Age includes the time in queues.
type groupMessage struct {
	group   string
	relayed bool // sent by a relay to one other member; other messages are forwarded to all
	lowest.Message
}

// bytes returns the encoded message.
func (l groupMessage) bytes() []byte {
	b := make([]byte, 0, headBytes+2+len(l.group)+len(l.Member))
	kind := byte(l.Kind)
	if l.relayed {
		kind |= relayed
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, encodeAge(l.Age))
	b = binary.BigEndian.AppendUint64(b, l.Run)
	b = binary.BigEndian.AppendUint64(b, l.Seq)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	return appendName(appendName(b, l.group), l.Member)
}

// parseMessage decodes the message at the start of b. It does not retain b.
func parseMessage(b []byte) (l groupMessage, rest []byte, err error) {
	if len(b) < headBytes {
		return groupMessage{}, nil, errPacket
	}
	l = groupMessage{relayed: b[0]&relayed != 0, Message: lowest.Message{
		Kind: lowest.Kind(b[0] &^ relayed),
		Age:  time.Duration(binary.BigEndian.Uint32(b[ageAt:])) * time.Millisecond,
		Run:  binary.BigEndian.Uint64(b[5:]),
		Seq:  binary.BigEndian.Uint64(b[13:]),
		Term: binary.BigEndian.Uint64(b[21:]),
	}}
	if l.group, b, err = cutName(b[headBytes:], election.MaxGroupBytes); err != nil {
		return groupMessage{}, nil, err
	}
	if l.Member, b, err = cutName(b, MaxNameBytes); err != nil {
		return groupMessage{}, nil, err
	}
	switch l.Kind {
	case lowest.Declaration:
		return l, b, nil
	case lowest.Proposal, lowest.Resignation: // only declarations are relayed
		if !l.relayed {
			return l, b, nil
		}
	}
	return groupMessage{}, nil, errPacket
}

// packMessages returns a packet of encoded messages.
func packMessages(sender string, messages ...[]byte) []byte {
	return append(appendName([]byte{format}, sender), slices.Concat(messages...)...)
}

// unpackMessages decodes a packet. It returns an error unless the whole packet is valid.
func unpackMessages(b []byte) (sender string, all []groupMessage, err error) {
	if len(b) == 0 || len(b) > packetBytes || b[0] != format {
		return "", nil, errPacket
	}
	if sender, b, err = cutName(b[1:], MaxNameBytes); err != nil {
		return "", nil, err
	}
	for len(b) > 0 {
		var l groupMessage
		if l, b, err = parseMessage(b); err != nil {
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

// encodeAge encodes an age, rounded up so that a message never becomes younger.
func encodeAge(d time.Duration) uint32 {
	ms := (max(0, d) + time.Millisecond - 1) / time.Millisecond
	return uint32(min(ms, math.MaxUint32))
}
