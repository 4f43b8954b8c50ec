// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

var errDatagramCall = errors.New("cluster: a datagram must not ask for an outcome")

// sendBestEffort sends an event to one member, or drops it if sending would block.
func (m *Messenger) sendBestEffort(ctx context.Context, to member.Address, e *outgoing) error {
	if err := m.ctxErr(ctx); err != nil {
		return err
	}
	c := m.contactOf(to)
	if c == nil || c.Status == member.Removed {
		return fmt.Errorf("%w: %s is not a member", ErrNotActive, to)
	}
	if to != m.self {
		return sendError(m.net.SendDatagram(to, e.Frame()))
	}
	err := m.deliverEvent(m.canceled, e.delivery(c.Member))
	if errors.Is(err, receiver.ErrBusy) {
		_ = m.dropFrame(c.Identity, DropQueueFull, err)
		return nil // another member would also drop it without an error
	}
	return err
}

// Datagram passes an event to its handlers, or drops it if their queue is full (mesh.Handler).
func (m *Messenger) Datagram(from member.Identity, frame []byte) {
	e, err := wire.DecodeEvent(frame, MaxBestEffortBytes)
	if err == nil && (e.Call.ID != 0 || from.Address.IsObserver()) {
		err = errDatagramCall
	}
	if err != nil {
		_ = m.dropUndecoded(from, err)
		return
	}
	if err := m.deliverEvent(m.canceled, newDelivery(from, m.contactOf(from.Address), e)); err != nil {
		m.dropEvent(from, e.Name, false, err)
	}
}
