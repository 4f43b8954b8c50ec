// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/message"
)

const (
	// Version is the version of the format, which every frame contains.
	Version = 2
	// MaxFrameBytes bounds a system frame. No message that Encode accepts exceeds it. The largest
	// message is a vote with two states, each with member.MaxMembers members with the longest names
	// and labels, and full tables of records.
	MaxFrameBytes = message.MaxBytes
	// MinKeepAliveBytes is the least length of a keep-alive and of its ack. A stateless reset of QUIC
	// reveals that the peer has restarted, but QUIC sends no reset in answer to a packet of 42 bytes
	// or less.
	MinKeepAliveBytes = 64
)

const (
	magic       = 0xae
	headerBytes = 3
	// kindEvent marks a custom event in the frame header.
	kindEvent message.Kind = 0xff
)

var (
	// ErrMalformed means that a frame is damaged or breaks a rule of the format.
	ErrMalformed = errors.New("wire: malformed frame")
	// ErrVersion means that a frame has an unknown Version.
	ErrVersion = errors.New("wire: unknown format version")
	// ErrUnknownKind means that a frame, or a value to encode, has an unknown or unexpected
	// kind.
	ErrUnknownKind = errors.New("wire: unknown frame kind")
	// ErrTooLarge means that a frame exceeds its limit, or would exceed it.
	ErrTooLarge = errors.New("wire: frame too large")
)

// Encode returns the frame of a message, which Decode accepts. An error names the part of m
// that is out of range.
func Encode(m message.Message) ([]byte, error) { return Append(nil, m) }

// Append appends the frame of a message to dst, which may be nil. After an error it returns
// dst. See Encode.
func Append(dst []byte, m message.Message) ([]byte, error) {
	if m.Body == nil {
		return dst, fmt.Errorf("%w: a message without a body", ErrUnknownKind)
	}
	c := codec{writing: true, kind: m.Body.Kind()}
	c.b = append(dst, magic, Version, byte(c.kind))
	outer := c.enter()
	c.header(&m)
	body := c.enter()
	c.writeBody(m.Body)
	c.leave(body)
	if n := len(c.b) - len(dst); n < MinKeepAliveBytes && isKeepAlive(c.kind) {
		var zeros [MinKeepAliveBytes]byte
		padding := zeros[:max(0, MinKeepAliveBytes-n-2)] // 2: the header of padding
		c.view(&padding)
	}
	c.leave(outer)
	if c.err != nil {
		return dst, c.err
	}
	return c.b, nil
}

// Decode decodes the frame of a message and does not retain frame. Its errors wrap the
// errors of this package.
func Decode(frame []byte) (message.Message, error) {
	var m message.Message
	kind, err := checkHeader(frame, MaxFrameBytes)
	if err != nil {
		return m, err
	}
	if kind == 0 || kind >= message.Kinds {
		return m, fmt.Errorf("%w: %s", ErrUnknownKind, kindName(kind))
	}
	if err := scanBody(kind, frame); err != nil {
		return m, err
	}
	c := codec{kind: kind, b: frame, pos: headerBytes, array: scope{fields: 1}}
	outer := c.enter()
	c.header(&m)
	body := c.enter()
	m.Body = c.readBody(kind)
	c.leave(body)
	if c.array.fields > 0 {
		c.skipPadding()
	}
	c.leave(outer)
	if c.err != nil {
		return message.Message{}, c.err
	}
	return m, nil
}

// checkHeader checks the length and the header of a frame and returns its kind.
func checkHeader(frame []byte, limit int) (message.Kind, error) {
	switch {
	case len(frame) > 0 && frame[0] != magic:
		return 0, fmt.Errorf("%w: it begins with %#02x, want %#02x", ErrMalformed, frame[0], magic)
	case len(frame) <= headerBytes:
		return 0, fmt.Errorf("%w: %d bytes are too short for a frame", ErrMalformed, len(frame))
	case frame[1] != Version:
		return 0, fmt.Errorf("%w %d: this program supports only %d", ErrVersion, frame[1], Version)
	case len(frame) > limit:
		return 0, tooLarge(message.Kind(frame[2]), len(frame), limit)
	}
	return message.Kind(frame[2]), nil
}

// scanBody applies Scan to the body of a frame.
func scanBody(kind message.Kind, frame []byte) error {
	end, err := skip(frame, headerBytes)
	if err == nil && end != len(frame) {
		err = trailing(frame, end)
	}
	if err != nil {
		return fmt.Errorf("%w (%s)", err, kindName(kind))
	}
	return nil
}

func tooLarge(kind message.Kind, n, limit int) error {
	return fmt.Errorf("%w: %s of %d bytes, the limit is %d", ErrTooLarge, kindName(kind), n, limit)
}

func isKeepAlive(k message.Kind) bool {
	return k == message.KindLeaderKeepAlive || k == message.KindLeaderKeepAliveAck ||
		k == message.KindSeedKeepAlive || k == message.KindSeedKeepAliveAck
}

func kindName(k message.Kind) string {
	switch k {
	case kindEvent:
		return "custom event"
	case kindCall:
		return "call"
	case kindAnswer:
		return "answer"
	case kindCancel:
		return "cancel"
	default:
		return k.String()
	}
}

// writeBody appends the body. It fails if the type of the body is not one of package message, even
// if its Kind is known.
func (c *codec) writeBody(body message.Body) {
	switch b := body.(type) {
	case message.Greet:
		c.greet(&b)
	case message.LeaderQuery:
		c.leaderQuery(&b)
	case message.LeaderResponse:
		c.leaderResponse(&b)
	case message.JoinClusterRequest:
		c.joinClusterRequest(&b)
	case message.JoinClusterResponse:
		c.joinClusterResponse(&b)
	case message.MemberStatusUpdate:
		c.memberStatusUpdate(&b)
	case message.ClusterAlignment:
		c.clusterAlignment(&b)
	case message.LeaderKeepAlive:
		c.leaderKeepAlive(&b)
	case message.LeaderKeepAliveAck:
		c.leaderKeepAliveAck(&b)
	case message.SeedKeepAlive, message.SeedKeepAliveAck: // no fields
	case message.LeaderRelieve:
		c.leaderRelieve(&b)
	case message.ReJoinCluster:
		c.reJoinCluster(&b)
	case message.LeaderStatusQuery:
		c.leaderStatusQuery(&b)
	case message.LeaderStatusQueryResponse:
		c.leaderStatusQueryResponse(&b)
	case message.Proposal:
		c.proposal(&b)
	case message.Vote:
		c.vote(&b)
	case message.LeaderElected:
		c.leaderElected(&b)
	case message.MemberLeave:
		c.memberLeave(&b)
	case message.RecordRequest:
		c.recordRequest(&b)
	case message.RecordResponse:
		c.recordResponse(&b)
	case message.RecordUpdate:
		c.recordUpdate(&b)
	case message.MemberTraits:
		c.memberTraits(&b)
	case message.RunEnded:
		c.runEnded(&b)
	case message.Relayed:
		c.relayed(&b)
	default:
		c.err = fmt.Errorf("%w: %T", ErrUnknownKind, body)
	}
}

// readBody reads the body of a message of the given kind. With a table of functions instead of the
// switch, the codec would escape and cost an allocation.
func (c *codec) readBody(kind message.Kind) message.Body {
	switch kind {
	case message.KindGreet:
		return read(c, (*codec).greet)
	case message.KindLeaderQuery:
		return read(c, (*codec).leaderQuery)
	case message.KindLeaderResponse:
		return read(c, (*codec).leaderResponse)
	case message.KindJoinClusterRequest:
		return read(c, (*codec).joinClusterRequest)
	case message.KindJoinClusterResponse:
		return read(c, (*codec).joinClusterResponse)
	case message.KindMemberStatusUpdate:
		return read(c, (*codec).memberStatusUpdate)
	case message.KindClusterAlignment:
		return read(c, (*codec).clusterAlignment)
	case message.KindLeaderKeepAlive:
		return read(c, (*codec).leaderKeepAlive)
	case message.KindLeaderKeepAliveAck:
		return read(c, (*codec).leaderKeepAliveAck)
	case message.KindSeedKeepAlive:
		return message.SeedKeepAlive{}
	case message.KindSeedKeepAliveAck:
		return message.SeedKeepAliveAck{}
	case message.KindLeaderRelieve:
		return read(c, (*codec).leaderRelieve)
	case message.KindReJoinCluster:
		return read(c, (*codec).reJoinCluster)
	case message.KindLeaderStatusQuery:
		return read(c, (*codec).leaderStatusQuery)
	case message.KindLeaderStatusQueryResponse:
		return read(c, (*codec).leaderStatusQueryResponse)
	case message.KindProposal:
		return read(c, (*codec).proposal)
	case message.KindVote:
		return read(c, (*codec).vote)
	case message.KindLeaderElected:
		return read(c, (*codec).leaderElected)
	case message.KindMemberLeave:
		return read(c, (*codec).memberLeave)
	case message.KindRecordRequest:
		return read(c, (*codec).recordRequest)
	case message.KindRecordResponse:
		return read(c, (*codec).recordResponse)
	case message.KindRecordUpdate:
		return read(c, (*codec).recordUpdate)
	case message.KindMemberTraits:
		return read(c, (*codec).memberTraits)
	case message.KindRunEnded:
		return read(c, (*codec).runEnded)
	case message.KindRelayed:
		return read(c, (*codec).relayed)
	default:
		panic("wire: Decode did not refuse " + kind.String())
	}
}

func read[T message.Body](c *codec, fields func(*codec, *T)) message.Body {
	var b T
	fields(c, &b)
	return b
}
