// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// Handler is the node above a Mesh. Its methods are called from goroutines of the Mesh,
// until Close returns: System and Custom of one peer one after the other, all others
// concurrently.
type Handler interface {
	// Greet is the node's greet as of now, its Body a message.Greet. The Mesh
	// fills in To and Active. Address and timings never change.
	Greet() message.Message
	// Admit checks a peer's greet, after CheckGreet found nothing in it; an
	// error closes the connection and the peer learns its text.
	Admit(peer message.Message) error
	// Needs reports whether a peer is a member or a seed: there is always room
	// for those, however many others come. It must not call the Mesh.
	Needs(peer member.Address) bool
	// System takes a system frame, which is the handler's to keep. An error
	// says that it is garbage, and closes the connection with CodeGarbage.
	System(from member.Identity, frame []byte) error
	// Custom takes a custom frame, as System does, but the frame is the handler's
	// only until it returns. While it blocks the peer's custom frames wait, and in
	// the end its senders.
	Custom(from member.Identity, frame []byte) error
	// Stream takes a bulk stream that the peer opened, in a goroutine of its own.
	// The stream is closed when it returns; until then it is one of MaxStreams.
	Stream(from member.Identity, head []byte, s BulkStream)
	// Datagram takes a datagram, which is the handler's to keep, one after the
	// other of a connection. While it blocks others are dropped.
	Datagram(from member.Identity, frame []byte)
	// Answered takes an answer frame, as Custom does. It must not block.
	Answered(from member.Identity, frame []byte) error
	// Lost says that a connection to the peer is over, so that custom and answer
	// frames which it took may not have arrived. It must not block. A connection
	// that was left in order for another one loses nothing, and is not told of.
	Lost(peer member.Identity)
}

// Errors of a Mesh, besides those of package transport.
var (
	// ErrClosed reports that the Mesh was closed.
	ErrClosed = errors.New("transport: closed")
	// ErrUnreachable reports that there was no connection to the peer in time.
	ErrUnreachable = errors.New("transport: peer cannot be reached")
	// ErrTooLarge reports that a frame is empty or longer than its kind may be.
	ErrTooLarge = errors.New("transport: frame is empty or too large")
	// ErrStreamCut reports that the connection of a stream ended before it: it was
	// lost, replaced or left, or one of the nodes shuts down. It wraps the reason.
	ErrStreamCut = errors.New("transport: the connection of the stream ended")
)
