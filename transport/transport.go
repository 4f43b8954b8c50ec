// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
)

// Transport carries frames between one node and its peers, over one connection
// a pair. System and custom frames travel apart: neither delays the other.
// Frames of one kind from one peer arrive in the order sent, each at most once.
type Transport interface {
	// Start begins to accept connections and to hand what arrives to h. It is
	// called once, before anything else; it does not block.
	Start(h Handler) error
	// Notify sends a system frame. It never blocks: without a connection it
	// starts to dial and keeps a few frames, the oldest go first when there
	// are too many. The frame must not be changed afterwards.
	Notify(to member.Address, frame []byte)
	// Send sends a custom frame and returns once the connection took it. It
	// blocks while the peer is slow (backpressure) until ctx ends. An error
	// says that the frame was not sent.
	Send(ctx context.Context, to member.Address, frame []byte) error
	// Close ends every connection and waits until nothing is left running.
	// What Notify was given before is flushed, within a bound.
	Close() error
}

// Handler is the node above a Transport. Its methods are called from the
// transport's goroutines; those of one peer and kind one after the other.
type Handler interface {
	// Greet is the node's greet as of now, its Body a message.Greet.
	Greet() message.Message
	// Admit checks a peer's greet; an error closes the connection.
	Admit(peer message.Message) error
	// System takes a system frame. The frame is the handler's to keep.
	System(from member.Identity, frame []byte)
	// Custom takes a custom frame, which is the handler's to keep. While it
	// blocks the peer's custom frames wait, and in the end its senders.
	Custom(from member.Identity, frame []byte)
}

// Errors of Transport.
var (
	// ErrClosed says that the transport was closed.
	ErrClosed = errors.New("transport: closed")
	// ErrUnreachable says that no connection to the peer could be had in time.
	ErrUnreachable = errors.New("transport: peer cannot be reached")
)
