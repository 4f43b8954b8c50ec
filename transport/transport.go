// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// Transport carries frames between one node and its peers, over one connection
// a pair. The kinds of frames and each bulk stream travel apart: none waits for
// another to be read. Frames of one kind from one peer arrive in the order sent,
// each at most once. A frame must not be empty.
type Transport interface {
	// Start begins to accept connections and to hand what arrives to h. It is
	// called once, before anything else; it does not block.
	Start(h Handler) error
	// Notify sends a system frame. It never blocks: without a connection it
	// starts to dial and keeps a few frames, the oldest go first when there
	// are too many. The frame must not be changed afterwards.
	Notify(to member.Address, frame []byte)
	// Send sends a custom frame and returns once the connection took it; the
	// frame is the caller's again. It blocks while the peer is slow
	// (backpressure) until ctx ends, and while there is no connection for
	// SendTimeout at most. An error says that the frame was not sent: it wraps
	// ErrClosed, ErrTooLarge, ErrUnreachable or the cause of ctx.
	Send(ctx context.Context, to member.Address, frame []byte) error
	// Answer is Send for frames that the peer's handler takes without waiting for
	// anything, however slow it is with custom ones: without them two nodes that
	// answer each other could hold each other up for ever.
	Answer(ctx context.Context, to member.Address, frame []byte) error
	// TrySend is Send for a frame that is taken at once or not at all; false for the
	// latter, whatever the reason.
	TrySend(to member.Address, frame []byte) bool
	// SendNow is Send, or Answer for that kind, for a frame that somebody waits for
	// and that comes alone: it is written at once, and not gathered with others.
	SendNow(ctx context.Context, k Kind, to member.Address, frame []byte) error
	// OpenStream opens a bulk stream to a peer, whose handler gets the head first.
	// It waits for a connection as Send does, SendTimeout in all at most. Where it
	// returns an error the peer's handler may have been called all the same, with
	// a stream that is closed. The error wraps ErrTooManyStreams, at once, while
	// MaxStreams streams to the peer are open; ErrStreamCut; or one of those of Send.
	OpenStream(ctx context.Context, to member.Address, head []byte) (BulkStream, error)
	// SendDatagram sends a frame of at most MaxDatagramBytes that may be lost, and
	// may come before what was sent earlier; it comes once at most. It never
	// blocks: without a connection, which it starts to dial, or where the network is
	// slow, frames are dropped and counted. The error is for what is certain:
	// ErrTooLarge or ErrClosed. The frame is the caller's again.
	SendDatagram(to member.Address, frame []byte) error
	// Close ends every connection, and its streams, and waits until nothing is
	// left running.
	// What Notify and Send were given before is flushed, within CloseTimeout.
	// The methods of the handler must come to an end for Close to return.
	Close() error
}

// Handler is the node above a Transport. Its methods are called from the
// transport's goroutines, until Close returns; System and Custom of one peer
// one after the other, all else side by side.
type Handler interface {
	// Greet is the node's greet as of now, its Body a message.Greet. The
	// transport fills in To and Active. Address and timings never change.
	Greet() message.Message
	// Admit checks a peer's greet, after CheckGreet found nothing in it; an
	// error closes the connection and the peer learns its text.
	Admit(peer message.Message) error
	// Needs reports whether a peer is a member or a seed: there is always room
	// for those, however many others come. It must not call the Transport.
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

// Kind tells frames that travel apart.
type Kind uint8

// The kinds of frames.
const (
	System Kind = iota // messages between nodes
	Custom             // events of the application
	Answer             // what becomes of some of these
	Kinds              // counts the kinds
)

var kindNames = [Kinds]string{"system", "custom", "answer"}

// String is the name of the kind as metrics write it.
func (k Kind) String() string { return nameOf(kindNames[:], k) }

// Errors of Transport.
var (
	// ErrClosed says that the transport was closed.
	ErrClosed = errors.New("transport: closed")
	// ErrUnreachable says that no connection to the peer could be had in time.
	ErrUnreachable = errors.New("transport: peer cannot be reached")
	// ErrTooLarge says that a frame is empty or longer than its kind may be.
	ErrTooLarge = errors.New("transport: frame is empty or too large")
	// ErrAddressInUse says that another process has the address to listen on.
	ErrAddressInUse = errors.New("transport: address already in use")
	// ErrNoAnswer says that nothing came back from where a peer should be.
	ErrNoAnswer = errors.New("transport: no answer")
	// ErrUnknownHost says that the name of a peer's host could not be resolved.
	ErrUnknownHost = errors.New("transport: unknown host")
	// ErrCertificate says that one of two nodes does not accept the certificate
	// of the other.
	ErrCertificate = errors.New("transport: certificate not accepted: " +
		"give every node the same secret and the same cluster name, " +
		"or certificates of one authority, and check its clock")
	// ErrNotNode says that what answers is another program than a node.
	ErrNotNode = errors.New("transport: what answers there is no node of Athena")
)
