// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// MaxStreams bounds the open streams to one member: those that this node opened and
// that are not over at both ends.
const MaxStreams = transport.MaxStreams

// Errors of streams. Each wraps that of package transport with the same name.
var (
	// ErrStreamClosed means that this node has closed the stream, or this direction.
	ErrStreamClosed = messaging.ErrStreamClosed
	// ErrStreamReset means that the other member closed the stream before its end: its
	// handler returned before it had read all, or failed, or the opener called Close
	// without CloseWrite. A Write may fail so while a Read still returns what the handler
	// has written, such as the reason.
	ErrStreamReset = messaging.ErrStreamReset
	// ErrStreamCut means that the connection of a stream ended before it. It is unknown
	// how much of it the other member has read.
	ErrStreamCut = messaging.ErrStreamCut
)

// OpenStream opens a stream of bytes, in both directions, to the handler that an active
// member, which may be this node, has for this name: receiver.HandleStream. Of the
// options only WithMetadata applies. OpenStream waits for a connection as Send does, and
// for nothing else; ctx bounds the opening alone, not the stream. Streams delay neither
// events nor heartbeats, and a stream that is not read delays only its own writer.
//
// An error means that there is no stream: ErrNotActive, ErrNotDelivered, ErrTooLarge,
// ErrClosed, and ErrBusy while MaxStreams streams to the member are open. With
// ErrNotDelivered a handler may still have been called, with a stream that is closed.
//
// Whether the member takes the stream is known later: the first Read, and a Write that
// fails for it, return ErrUnknownType if the member has no handler for the name, ErrBusy
// if too many run there, ErrNotDelivered if it closes. If the member is this node,
// OpenStream itself returns the first two.
//
// Read and Write fail with ErrStreamReset, ErrStreamCut or ErrStreamClosed, and with
// Node.Err if this node ended. To learn that the handler took all, call CloseWrite, then
// read until io.EOF: that arrives when the handler has returned nil, or has called
// CloseWrite itself. The caller must call Close in the end.
func (n *Node) OpenStream(
	ctx context.Context, to member.Address, name string, opts ...SendOption,
) (receiver.Stream, error) {
	return n.messages.OpenStream(ctx, to, name, newSendOptions(opts).Options)
}
