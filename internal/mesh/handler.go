// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// Handler is the node above a Mesh. The goroutines of the Mesh call its methods until
// Close returns. Each of System, Custom and Answered gets the frames of one peer one after
// the other; all other calls may be concurrent.
type Handler interface {
	// Greet returns the node's current greet, with a message.Greet as Body. The Mesh
	// sets To and Active. The address and the timings never change.
	Greet() message.Message
	// Admit checks a peer's greet after CheckGreet has accepted it. An error closes the
	// connection, and the peer gets its text.
	Admit(peer message.Message) error
	// Needs reports whether a peer is a member or a seed: there is always room for
	// those, however many others connect. It must not call the Mesh.
	Needs(peer member.Address) bool
	// System takes a system frame and may keep it. An error means that the frame is
	// garbage, and closes the connection with CodeGarbage.
	System(from member.Identity, frame []byte) error
	// Custom takes a custom frame like System, but must not keep it. While it blocks,
	// the peer's custom frames wait, and finally its senders.
	Custom(from member.Identity, frame []byte) error
	// Stream serves a bulk stream that the peer opened, in a goroutine of its own. The
	// stream is closed when Stream returns; until then it counts towards MaxStreams.
	Stream(from member.Identity, head []byte, s BulkStream)
	// Datagram takes a datagram and may keep it. Calls for one connection are
	// sequential. While it blocks, further datagrams are dropped.
	Datagram(from member.Identity, frame []byte)
	// Answered takes an answer frame like Custom. It must not block.
	Answered(from member.Identity, frame []byte) error
	// Lost reports that a connection to the peer ended, so that custom and answer
	// frames that it had taken may not have arrived. It must not block. It is not
	// called for a connection that was left in order for another one: that loses
	// nothing.
	Lost(peer member.Identity)
}

// Errors of a Mesh, besides those of package transport.
var (
	// ErrClosed means that the Mesh was closed.
	ErrClosed = errors.New("transport: closed")
	// ErrUnreachable means that there was no connection to the peer in time.
	ErrUnreachable = errors.New("transport: peer cannot be reached")
	// ErrTooLarge means that a frame is empty or exceeds the limit of its kind.
	ErrTooLarge = errors.New("transport: frame is empty or too large")
	// ErrStreamCut means that the connection of a stream ended before the stream: it
	// was lost, replaced or left, or a node shuts down. It wraps the reason.
	ErrStreamCut = errors.New("transport: the connection of the stream ended")
)
