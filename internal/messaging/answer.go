// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// newCall converts a call of the given kind for the receiver.
func (m *Messenger) newCall(from member.Address, k transport.Kind, c wire.Call) *receiver.Call {
	return &receiver.Call{
		ID:      c.ID,
		Request: c.Request,
		Timeout: c.Timeout,
		Answer: func(value any, ran bool, err error) {
			if err != nil && (!ran || errors.Is(err, receiver.ErrDeclined)) {
				m.refuseCall(from, k, c, err)
				return
			}
			if err != nil || !c.Request {
				m.sendAnswer(from, answerTo(c, ran, err), false)
				return
			}
			payload := getBuffer()
			defer payload.release()
			payload.b, err = m.mux.EncodeAnswer(payload.b, value)
			a := wire.Answer{ID: c.ID, Payload: payload.b}
			limit := MaxEventBytes
			if from.IsObserver() {
				limit = mesh.MaxObserverBytes
			}
			if err == nil && len(payload.b) > limit {
				err = fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(payload.b), limit)
			}
			if err != nil {
				a = wire.Answer{ID: c.ID, Outcome: wire.OutcomeUnsaid, Text: err.Error()}
			}
			// Flush unless another answer will probably follow soon.
			m.sendAnswer(from, a, m.mux.IsQuiet())
		},
	}
}

// answerTo returns an answer without a value. ran reports whether a handler ran.
func answerTo(c wire.Call, ran bool, err error) wire.Answer {
	if err == nil {
		return wire.Answer{ID: c.ID}
	}
	return wire.Answer{ID: c.ID, Outcome: outcomeOf(ran, err), Text: err.Error()}
}

// outcomeOf returns the outcome for err. If ran is true, err is the error of a handler, otherwise
// the reason why no handler ran.
func outcomeOf(ran bool, err error) wire.Outcome {
	_, moved := errors.AsType[*leader.NotLeaderError](err)
	switch {
	case ran:
		return wire.OutcomeFailed
	case moved:
		return wire.OutcomeNotLeader
	case errors.Is(err, receiver.ErrUnknown):
		return wire.OutcomeUnknown
	case errors.Is(err, receiver.ErrMalformed):
		return wire.OutcomeMalformed
	case errors.Is(err, receiver.ErrBusy):
		return wire.OutcomeBusy
	default:
		return wire.OutcomeNotRun
	}
}

// sendAnswer sends an answer to the caller. If flush is true, it sends the answer immediately,
// without waiting for others to batch.
func (m *Messenger) sendAnswer(to member.Address, a wire.Answer, flush bool) {
	if to == m.self {
		m.pending.complete(to, a)
		return
	}
	frame := getBuffer()
	defer frame.release()
	var err error
	if frame.b, err = wire.AppendAnswer(frame.b, a, MaxEventBytes); err != nil {
		a = wire.Answer{ID: a.ID, Outcome: wire.OutcomeUnsaid, Text: err.Error()}
		frame.b, err = wire.AppendAnswer(frame.b, a, MaxEventBytes)
	}
	if err == nil {
		mode := mesh.SendMode{Flush: flush}
		err = m.destinationOf(to).Send(m.answering, transport.Answer, frame.b, mode)
	}
	if err != nil {
		// Nothing more to do: the caller notices the loss of the connection, or has stopped waiting.
		_ = m.dropFrame(member.Identity{Address: to}, DropUnanswered, err)
	}
}

// refuseCall answers a call that reaches no handler. A request among the answers is refused without
// waiting for room: what reads the answers of two members would wait for each other. The pending
// calls of the member bound the refusals.
func (m *Messenger) refuseCall(to member.Address, k transport.Kind, c wire.Call, cause error) {
	a := answerTo(c, false, cause)
	if k != transport.Answer || to == m.self || to.IsObserver() {
		m.sendAnswer(to, a, false)
		return
	}
	frame, err := wire.AppendAnswer(nil, a, MaxEventBytes)
	urgent := mesh.SendMode{Urgent: true}
	if err != nil || !m.destinationOf(to).TrySend(transport.Answer, frame, urgent) {
		_ = m.dropFrame(member.Identity{Address: to}, DropUnanswered, err)
	}
}

// completeCall completes the call that an answer belongs to.
func (m *Messenger) completeCall(from member.Identity, frame []byte) error {
	a, err := wire.DecodeAnswer(frame, MaxEventBytes)
	if err != nil {
		return m.dropUndecoded(from, err)
	}
	if a.ID == 0 {
		return m.noteStuck(from, a)
	}
	if !m.pending.complete(from.Address, a) {
		_ = m.dropFrame(from, DropNotAwaited, nil)
	}
	return nil
}
