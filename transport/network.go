// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"time"

	"github.com/athena-go/athena/member"
)

// Network makes the connections of a Mesh. It knows nothing of greets, frames
// or peers. Its methods may be called side by side.
type Network interface {
	// Dial connects to the node at an address, and gives up when ctx ends.
	Dial(ctx context.Context, to member.Address) (Conn, error)
	// Accept blocks for the next connection that another node dialed. An error
	// says that the network is over, by Close or by a fault.
	Accept() (Conn, error)
	// Close frees the address. The Mesh has closed every connection before.
	Close() error
}

// Conn is one connection between two nodes. Its methods may be called side by
// side. An error of its streams after the peer closed it is a *CloseError. What
// comes before the first AcceptStream and ReceiveDatagram waits, within limits.
type Conn interface {
	// Stream is the stream of a kind: Read is what the peer wrote on its own.
	// The custom stream is read only after the first bytes of the system stream.
	Stream(k Kind) FrameStream
	// OpenStream opens a bulk stream, which the peer learns of by the first byte on
	// it. It does not block: the error is ErrTooManyStreams where the peer has
	// MaxStreams of this end's that it has not released.
	OpenStream() (RawStream, error)
	// AcceptStream blocks for the next bulk stream that the peer opened, until the
	// connection ends.
	AcceptStream() (RawStream, error)
	// SendDatagram sends up to maxPacketBytes, which may be lost. It may block for
	// as long as the network does not take them. The bytes must not be changed.
	SendDatagram(b []byte) error
	// ReceiveDatagram blocks for the next datagram, until the connection ends.
	// While it is not called a few wait, and more are lost.
	ReceiveDatagram() ([]byte, error)
	// Close ends the connection at once; what is under way is lost. The first
	// call counts, and the peer learns its code and reason.
	Close(code Code, reason string)
	// Stats reads the state of the connection.
	Stats() ConnStats
	// Certificate is the one that the peer has shown, verified; nil where those of
	// the network name nobody, so that a peer is who it says.
	Certificate() *x509.Certificate
}

// Stream is one stream of a connection. Read and Write block, until Close of
// the connection at the latest. One goroutine writes and one reads.
type Stream interface {
	io.Reader
	io.Writer
	// CloseWrite says that nothing more is written: the peer reads io.EOF
	// after what was written before.
	CloseWrite() error
}

// FrameStream is a stream of frames.
type FrameStream interface {
	Stream
	// TryWrite writes all of p, or nothing where it would have to wait: then it is
	// false. It is not called beside Write.
	TryWrite(p []byte) (bool, error)
}

// RawStream is a bulk stream of a connection, below a BulkStream. Reading stays
// possible beside writing.
type RawStream interface {
	// An error after this end's Cancel or CloseWrite is ErrStreamClosed, after the
	// peer's Cancel it is ErrStreamReset.
	Stream
	// Cancel is Close of BulkStream. It may be called beside anything.
	Cancel()
	// Release says that a stream which the peer opened, and which is over, does not
	// count any more.
	Release()
}

// ConnStats is the state of a connection.
type ConnStats struct {
	// RTT is the round-trip time, 0 where it is not known.
	RTT time.Duration
	// Heard grows whenever anything comes from the peer, be it only that the
	// network has delivered something to it.
	Heard uint64
}

// Code says why a connection was closed. The numbers are part of the protocol.
type Code uint64

// The codes.
const (
	CodeClosed     Code = iota // the node goes, or it has nothing more to say
	CodeRefused                // the greet was not accepted; the reason says why
	CodeDuplicate              // another connection of the pair stays
	CodeReplaced               // a later connection of the peer took its place
	CodeEarlierRun             // a later run of the node has a connection
	CodeBusy                   // too many peers or greets under way
	CodeGarbage                // what came was no frame
	CodeTimeout                // the peer did not greet, read or leave in time
	CodeLeft                   // each end has handed over all that the other one wrote
	codes
)

var codeNames = [codes]string{
	"closed", "refused", "duplicate", "replaced", "earlier run", "busy", "garbage", "timeout",
	"left",
}

// String is the name of the code as logs write it.
func (c Code) String() string { return nameOf(codeNames[:], c) }

// CloseError says that a connection was closed, and by whom.
type CloseError struct {
	Code   Code
	Reason string // one line for people
	Remote bool   // the peer closed it
}

// Error makes the reason printable: that of a peer may hold anything.
func (e *CloseError) Error() string {
	who := "connection closed"
	if e.Remote {
		who = "the peer closed the connection"
	}
	return fmt.Sprintf("transport: %s (%s): %s", who, e.Code, member.PeerText(e.Reason))
}

// Refusal reports whether the peer does not want to talk to this node, so that
// to dial again soon is in vain.
func (e *CloseError) Refusal() bool {
	return e.Remote && (e.Code == CodeRefused || e.Code == CodeEarlierRun || e.Code == CodeBusy)
}

func nameOf[T ~uint8 | ~uint64](names []string, v T) string {
	if uint64(v) < uint64(len(names)) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}
