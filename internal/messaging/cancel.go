// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"fmt"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// cancelCall cancels the handler of a call whose caller has stopped waiting. It does not block. The
// frames are urgent: the handler may have no deadline. The accepted requests bound their number.
//
// The cancel of a call that was not among the answers is sent twice. In the flow of its call it
// follows the call, but waits while a queue of the member is full, perhaps of handlers that wait
// for their cancels. Among the answers it waits for no handler, but may overtake its request.
func (m *Messenger) cancelCall(to member.Address, k transport.Kind, id uint64) {
	if to == m.self {
		m.mux.Cancel(to, id)
		return
	}
	frame, d := wire.AppendCancel(nil, id), m.destinationOf(to)
	if k != transport.Answer {
		d.SendUrgent(k, frame)
	}
	d.SendUrgent(transport.Answer, frame)
}

// cancelHandler cancels the handler that a cancel from another member names.
func (m *Messenger) cancelHandler(from member.Identity, frame []byte) error {
	id, err := wire.DecodeCancel(frame)
	if err != nil {
		return m.dropFrame(from, DropMalformed, err)
	}
	m.mux.Cancel(from.Address, id)
	return nil
}

// cancelRequests cancels the pending requests when the node shuts down, while its connections still
// work. A handler may send its answer before it receives the cancel.
func (m *Messenger) cancelRequests() {
	for id, c := range m.pending.close() {
		m.cancelCall(c.to, c.kind, id)
		c.settle(wire.Answer{}, fmt.Errorf("%w: %s: %w", ErrUnknownOutcome, c.to, m.cfg.Cause()))
	}
}
