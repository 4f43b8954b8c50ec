// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// callOf is a call as the receiver gets it.
func (n *Node) callOf(from member.Address, c wire.Call) *receiver.Call {
	return &receiver.Call{
		ID:      c.ID,
		Request: c.Request,
		Timeout: c.Timeout,
		Answer: func(value any, ran bool, err error) {
			if err != nil || !c.Request {
				n.answer(from, answerOf(c, ran, err))
				return
			}
			payload := getBuffer()
			defer payload.release()
			payload.b, err = n.mux.EncodeAnswer(payload.b, value)
			a := wire.Answer{ID: c.ID, Payload: payload.b}
			if err == nil && len(payload.b) > MaxEventBytes {
				err = fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(payload.b), MaxEventBytes)
			}
			if err != nil {
				a = wire.Answer{ID: c.ID, Outcome: wire.OutcomeUnsaid, Text: err.Error()}
			}
			n.answerNow(from, a, n.mux.IsQuiet())
		},
	}
}

// answerOf says what became of a call that no value is the answer to.
func answerOf(c wire.Call, ran bool, err error) wire.Answer {
	if err == nil {
		return wire.Answer{ID: c.ID}
	}
	return wire.Answer{ID: c.ID, Outcome: outcomeOf(ran, err), Text: err.Error()}
}

func outcomeOf(ran bool, err error) wire.Outcome {
	_, moved := errors.AsType[*NotLeaderError](err)
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

// answer sends an answer to who awaits it.
func (n *Node) answer(to member.Address, a wire.Answer) { n.answerNow(to, a, false) }

// answerNow is answer, at once when no other answer is about to come.
func (n *Node) answerNow(to member.Address, a wire.Answer, now bool) {
	if to == n.cfg.self {
		n.awaited.settle(to, a)
		return
	}
	frame := getBuffer()
	defer frame.release()
	var err error
	if frame.b, err = wire.AppendAnswer(frame.b, a, MaxEventBytes); err != nil {
		a = wire.Answer{ID: a.ID, Outcome: wire.OutcomeUnsaid, Text: err.Error()}
		frame.b, err = wire.AppendAnswer(frame.b, a, MaxEventBytes)
	}
	switch {
	case err != nil:
	case now:
		err = n.net.SendNow(n.answering, transport.Answer, to, frame.b)
	default:
		err = n.net.Answer(n.answering, to, frame.b)
	}
	if err != nil {
		// Who awaits it learns that the connection is lost, or has stopped waiting.
		_ = n.drop(member.Identity{Address: to}, dropUnanswered, err)
	}
}

// Answered takes an answer to a call of this node (transport.Handler).
func (n inbound) Answered(from member.Identity, frame []byte) error {
	a, err := wire.DecodeAnswer(frame, MaxEventBytes)
	switch {
	case errors.Is(err, wire.ErrUnknownKind), errors.Is(err, wire.ErrVersion):
		_ = n.drop(from, dropUnknownKind, err)
	case err != nil:
		return n.drop(from, dropMalformed, err)
	case !n.awaited.settle(from.Address, a):
		n.meter.drop(dropNotAwaited)
	}
	return nil
}

// Lost says that what was on its way to a peer may not have arrived, and that its
// own calls get no answers any more (transport.Handler).
func (n inbound) Lost(peer member.Identity) {
	err := fmt.Errorf("%w: the connection to %s was lost", ErrUnknownOutcome, peer.Address)
	n.awaited.lose(peer.Address, err)
	n.mux.CancelAll(peer.Address, errAskerLost)
}

// errAskerLost is the cause of the context of a request whose answer cannot arrive.
var errAskerLost = errors.New("cluster: the connection to the asking member was lost")
