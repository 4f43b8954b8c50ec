// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Drop is a frame or an event that was dropped.
type Drop struct {
	From   member.Identity
	Reason string // one of the constants below
	Err    error  // nil for a late answer, which is not an error
	// Event is the name of the event; it is empty if the frame was not an event.
	Event string
	// SenderTold reports whether the sender waits for the outcome and receives Err.
	SenderTold bool
}

// Reasons of a Drop.
const (
	DropMalformed   = "malformed frame"
	DropUnknownKind = "unknown kind"
	DropNoHandler   = "no handler"
	DropBadEvent    = "malformed event"
	DropQueueFull   = "queue full"
	DropUnanswered  = "answer not sent"
	DropNotAwaited  = "answer not awaited"
	DropClosed      = "closed"
	DropTooMany     = "too many streams"
)

// dropFrame reports that a frame was dropped, and returns err.
func (m *Messenger) dropFrame(from member.Identity, reason string, err error) error {
	m.cfg.Dropped(Drop{From: from, Reason: reason, Err: err})
	return err
}

// dropUndecoded reports a frame that cannot be decoded. It returns err, or nil if the frame
// may be from a later version of this program.
func (m *Messenger) dropUndecoded(from member.Identity, err error) error {
	if errors.Is(err, wire.ErrUnknownKind) || errors.Is(err, wire.ErrVersion) {
		_ = m.dropFrame(from, DropUnknownKind, err)
		return nil
	}
	return m.dropFrame(from, DropMalformed, err)
}

// dropEvent reports that an event from another member did not reach a handler.
func (m *Messenger) dropEvent(from member.Identity, name string, senderTold bool, err error) {
	m.cfg.Dropped(Drop{
		From: from, Reason: dropReason(err), Err: err, Event: name, SenderTold: senderTold,
	})
}

// dropReason returns the reason why the Mux did not accept an event.
func dropReason(err error) string {
	switch {
	case errors.Is(err, receiver.ErrUnknown):
		return DropNoHandler
	case errors.Is(err, receiver.ErrMalformed):
		return DropBadEvent
	case errors.Is(err, receiver.ErrBusy):
		return DropQueueFull
	default:
		return DropClosed
	}
}
