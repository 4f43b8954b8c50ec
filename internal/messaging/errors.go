// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// Errors of messages. Package cluster exports and documents them under the same names. Errors that
// also concern records or leaders are defined in those packages.
var (
	// ErrClosed means that the node was closed.
	ErrClosed = leader.ErrClosed
	// ErrNotActive means that a member is not active in the view of this node.
	ErrNotActive = record.ErrNotActive
	// ErrTooLarge means that an event exceeds a limit.
	ErrTooLarge = errors.New("cluster: event is too large")
	// ErrUnknownType means that a value cannot be encoded or has no handler.
	ErrUnknownType = errors.New("cluster: event cannot be sent or handled")
	// ErrBusy means that a limit on operations in flight was reached.
	ErrBusy = errors.New("cluster: busy: too many operations in flight")
	// ErrNotDelivered means that no handler has received the event, and none will.
	ErrNotDelivered = errors.New("cluster: not delivered")
	// ErrBadAnswer means that a handler ran, but its answer is lost.
	ErrBadAnswer = errors.New("cluster: the answer was lost")
	// ErrUnknownOutcome means that a handler may have run.
	ErrUnknownOutcome = errors.New("cluster: unknown outcome")
)

// Errors of streams. Each wraps the error of package transport with the same name.
var (
	// ErrStreamClosed means that this node has closed the stream, or its direction to the other
	// member.
	ErrStreamClosed = errors.New("cluster: stream is closed")
	// ErrStreamReset means that the other member closed the stream before its end.
	ErrStreamReset = errors.New("cluster: stream was closed by the other member")
	// ErrStreamCut means that the connection ended before the stream.
	ErrStreamCut = errors.New("cluster: stream was cut off")
)

// remoteError is an error that another member reported, as an error that this program defines.
type remoteError struct {
	text string // as the member sent it
	is   error
}

func (e remoteError) Error() string { return safetext.PeerText(e.text) }
func (e remoteError) Unwrap() error { return e.is }
