// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"fmt"
	"sync"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// maxCancels bounds the number of waiting cancels, and separately the number of cancels being sent.
const maxCancels = 1024

// cancel is the frame that cancels a call, for a member whose connection was not ready.
type cancel struct {
	to    member.Address
	frame []byte
}

// cancelCall cancels the handler of a call whose caller has stopped waiting. It does not block. The
// frame is urgent: the handler may have no deadline. The accepted requests bound these frames.
func (m *Messenger) cancelCall(to member.Address, id uint64) {
	if to == m.self {
		m.mux.Cancel(to, id)
		return
	}
	c := cancel{to, wire.AppendCancel(nil, id)}
	if m.destinationOf(to).TrySend(c.frame, true) {
		return
	}
	select {
	case m.cancels <- c:
	default: // the deadline or the loss of the connection cancels the handler
	}
}

// cancelRequests cancels the pending requests when the node shuts down, while its connections still
// work. A handler may send its answer before it receives the cancel.
func (m *Messenger) cancelRequests() {
	for id, c := range m.pending.close() {
		m.cancelCall(c.to, id)
		c.settle(wire.Answer{}, fmt.Errorf("%w: %s: %w", ErrUnknownOutcome, c.to, m.cfg.Cause()))
	}
}

// SendCancels sends the cancels that cancelCall could not send without waiting, until the node
// shuts down. A member that reads nothing does not delay the cancels for other members.
func (m *Messenger) SendCancels() {
	var sends sync.WaitGroup
	defer sends.Wait()
	slots := make(chan struct{}, maxCancels)
	for {
		select {
		case c := <-m.cancels:
			slots <- struct{}{}
			sends.Go(func() {
				ctx, stop := context.WithTimeout(context.Background(), m.cfg.HeartbeatTimeout)
				defer stop()
				_ = m.net.Send(ctx, c.to, c.frame) // a lost cancel is harmless, as in cancelCall
				<-slots
			})
		case <-m.cfg.Quit:
			return
		}
	}
}
