// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// Handler is the node that uses a Mesh. The goroutines of the Mesh call its methods until Close
// returns. For each peer, calls of System are sequential, and calls of Custom for one kind are
// sequential. All other calls may be concurrent.
type Handler interface {
	// Greet returns the node's current greeting, whose Body is a message.Greet. The Mesh sets
	// To and Active. The address and the timings never change.
	Greet() message.Message
	// Greeted reports the greeting of a peer, not an observer, to which there is a connection now. It
	// is called before the frames of the connection are delivered, and must not block.
	Greeted(peer message.Message)
	// Needs reports whether a peer is a member or a seed. There is always room for such
	// peers, regardless of how many others connect. Needs must not call the Mesh.
	Needs(peer member.Address) bool
	// StoreOf returns the store of the member at an address, or zero if there is none. It must not
	// call the Mesh.
	StoreOf(peer member.Address) member.StoreID
	// Ask sends a message that a peer answers if its process is running. The Mesh calls it while
	// another process claims the address of the peer. It must not block.
	Ask(peer member.Address, claimant member.StoreID)
	// System handles a system frame and may keep it. An error means that the frame is
	// garbage, and the Mesh closes the connection with CodeGarbage.
	System(from member.Identity, frame []byte) error
	// Custom handles a frame of any other kind like System, but must not keep it. While it blocks, the
	// peer's further frames of that kind wait, and eventually the peer's Send blocks. It must not
	// block for transport.Answer.
	Custom(k transport.Kind, from member.Identity, frame []byte) error
	// Stream serves a bulk stream that the peer opened, in a separate goroutine. The stream
	// is closed when Stream returns; until then it counts towards MaxStreams.
	Stream(from member.Identity, head []byte, s BulkStream)
	// Datagram handles a datagram and may keep it. Calls for one connection are sequential.
	// While it blocks, further datagrams are dropped.
	Datagram(from member.Identity, frame []byte)
	// Lost reports that a connection to the peer ended, and that frames other than those of System
	// sent on it may not have arrived. It must not block. It is not called if the connection was left
	// gracefully for another connection, because then nothing is lost.
	Lost(peer member.Identity)
}

// Errors of a Mesh, in addition to those of package transport.
var (
	// ErrClosed means that the Mesh was closed.
	ErrClosed = errors.New("transport: closed")
	// ErrNoRoom means that the peer accepts no further frames of a kind for now.
	ErrNoRoom = errors.New("transport: no room")
	// ErrUnreachable means that no connection to the peer was made in time.
	ErrUnreachable = errors.New("transport: peer cannot be reached")
	// ErrTooLarge means that a frame is empty or exceeds the limit of its kind.
	ErrTooLarge = errors.New("transport: frame is empty or too large")
	// ErrStreamCut means that the connection ended before the stream. The connection was lost,
	// replaced or left, or a node shut down. The error wraps the reason.
	ErrStreamCut = errors.New("transport: the connection of the stream ended")
	// ErrUnknownOutcome means that the peer may have received the head of a stream that could not be
	// opened.
	ErrUnknownOutcome = errors.New("transport: the peer may have received the stream")
)
