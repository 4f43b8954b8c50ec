// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// The frame kinds of calls: an event whose sender waits for the outcome, its answer, and
// its cancellation.
const (
	kindCall   message.Kind = 0xfe
	kindAnswer message.Kind = 0xfd
	kindCancel message.Kind = 0xfc
)

// MaxAnswerText bounds the error text of an answer, in bytes.
const MaxAnswerText = 1024

// Call marks an event whose sender waits for the outcome. The zero Call marks an event whose sender
// does not wait.
type Call struct {
	ID      uint64        // chosen by the sender, above 0, and repeated in the answer
	Request bool          // the sender wants a value
	Leader  bool          // only the quorate leader may handle it
	Timeout time.Duration // how much longer the sender waits; 0 means no limit
	Depth   uint64        // number of handlers that led to the call; see receiver.Depth
}

// Outcome is the outcome of a call.
type Outcome uint8

// The outcomes. The numbers are part of the protocol.
const (
	OutcomeDone      Outcome = iota // handled; the payload answers a request
	OutcomeFailed                   // the handler returned an error, which is in the text
	OutcomeUnknown                  // no handler for the name, or its handler returns no value
	OutcomeMalformed                // the payload is not a valid event of its type
	OutcomeBusy                     // the queue of the type is full
	OutcomeNotLeader                // the call is for the leader, but this node does not lead
	OutcomeNotRun                   // no handler ran: the node is closing, or the timeout has passed
	OutcomeUnsaid                   // handled, but the answer is too large or cannot be encoded
	Outcomes                        // counts the outcomes
)

// Answer is the answer to a call.
type Answer struct {
	ID      uint64
	Outcome Outcome
	Text    string // error text for people; may contain any character
	Payload []byte // nil if empty
}

// AppendAnswer appends the frame of an answer, no longer than the limit, to dst. It truncates a
// long text and removes invalid UTF-8.
func AppendAnswer(dst []byte, a Answer, limit int) ([]byte, error) {
	a.Text = strings.ToValidUTF8(a.Text[:min(len(a.Text), MaxAnswerText)], "")
	if len(a.Payload) > limit {
		return dst, tooLarge(kindAnswer, len(a.Payload), limit) // checked before copying
	}
	c := codec{writing: true, kind: kindAnswer, b: append(dst, magic, Version, byte(kindAnswer))}
	c.answer(&a)
	return c.finish(dst, limit)
}

// DecodeAnswer decodes the frame of an answer, no longer than the limit. The payload is a slice of
// frame.
func DecodeAnswer(frame []byte, limit int) (a Answer, err error) {
	c, err := readCustom(frame, limit, kindAnswer)
	if err != nil {
		return a, err
	}
	if c.answer(&a); c.err != nil {
		return Answer{}, c.err
	}
	return a, nil
}

// AppendCancel appends the frame that cancels a call to dst.
func AppendCancel(dst []byte, id uint64) []byte {
	c := codec{writing: true, kind: kindCancel, b: append(dst, magic, Version, byte(kindCancel))}
	c.cancel(&id)
	return c.b // any id can be encoded
}

// DecodeCancel decodes the frame that cancels a call. For any other kind of frame it
// returns ErrUnknownKind.
func DecodeCancel(frame []byte) (id uint64, err error) {
	c, err := readCustom(frame, MaxEventBytes, kindCancel)
	if err != nil {
		return 0, err
	}
	c.cancel(&id)
	return id, c.err
}

// IsCancel reports whether a frame is of the kind that DecodeCancel reads.
func IsCancel(frame []byte) bool {
	return len(frame) > headerBytes && message.Kind(frame[2]) == kindCancel
}

// IsCall reports whether a frame is an event whose sender waits for the outcome.
func IsCall(frame []byte) bool {
	return len(frame) > headerBytes && message.Kind(frame[2]) == kindCall
}

// finish returns dst with the frame appended, or dst and the error.
func (c *codec) finish(dst []byte, limit int) ([]byte, error) {
	if n := len(c.b) - len(dst); c.err == nil && n > limit {
		c.err = tooLarge(c.kind, n, limit)
	}
	if c.err != nil {
		return dst, c.err
	}
	return c.b, nil
}

// readCustom checks a frame of the given kind and returns a codec for its body.
func readCustom(frame []byte, limit int, want message.Kind) (codec, error) {
	kind, err := checkHeader(frame, limit)
	if err != nil {
		return codec{}, err
	}
	if kind != want {
		return codec{}, fmt.Errorf("%w: %s, want %s", ErrUnknownKind, kindName(kind), kindName(want))
	}
	if err := scanBody(kind, frame); err != nil {
		return codec{}, err
	}
	return codec{kind: kind, b: frame, pos: headerBytes, array: scope{fields: 1}}, nil
}

func (c *codec) call(v *Call) {
	outer := c.enter()
	if c.uint64(&v.ID); v.ID == 0 {
		c.fail("a call without an id")
	}
	c.bool(&v.Request)
	c.bool(&v.Leader)
	c.duration(&v.Timeout)
	if c.hasAddedField() {
		c.uint64(&v.Depth)
	}
	c.leave(outer)
}

func (c *codec) answer(v *Answer) {
	outer := c.enter()
	c.uint64(&v.ID)
	within(c, &v.Outcome, 0, Outcomes-1)
	c.text(&v.Text, MaxAnswerText)
	c.view(&v.Payload)
	c.leave(outer)
}

func (c *codec) cancel(id *uint64) {
	outer := c.enter()
	c.uint64(id)
	c.leave(outer)
}
