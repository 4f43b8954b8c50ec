// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"time"

	"github.com/athena-go/athena/member"
)

// Limits of a connection.
const (
	// MaxStreams bounds the open bulk streams that each side of a connection has opened.
	MaxStreams = 16
	// MaxPacketBytes bounds a SendDatagram. A packet of QUIC, 1200 bytes, has room for it
	// and for acknowledgements and a part of a system frame: QUIC puts datagrams in first.
	MaxPacketBytes = 962
)

// Config is what a node passes to the function that opens its network.
type Config struct {
	// Size is the size of the cluster, N. It bounds what hosts may occupy before they are
	// admitted.
	Size int
	// Addr is where the node listens, host:port.
	Addr string
	// TLS makes the TLS configuration of the node from its secret or its certificate files.
	// named reports whether certificates name members: then Conn.Certificate is not nil. A
	// network that does not use TLS need not call it.
	TLS func() (config *tls.Config, named bool, err error)
	// HandshakeFailed, if not nil, is called when another host dialed this node and the
	// handshake failed. from is the address the packets came from. The node counts and
	// logs it if err wraps ErrCertificate, or is the *CloseError with which the dialer
	// refused this node. It does not block, and may be called from any goroutine.
	HandshakeFailed func(from member.Address, err error)
	// Warn, if not nil, logs a fault that does not stop the network, such as small
	// buffers. It does not block.
	Warn func(err error)
}

// Network makes the connections of one node. It handles bytes, not greets, frames or peers.
// Its methods may be called concurrently.
type Network interface {
	// Dial connects to the node at an address, and gives up when ctx ends.
	Dial(ctx context.Context, to member.Address) (Conn, error)
	// Accept blocks until another node has dialed. After an error, from Close or a fault,
	// the network is not used again.
	Accept() (Conn, error)
	// Close frees the address. The node closes its connections first.
	Close() error
}

// Conn is one connection between two nodes. Its methods may be called concurrently. An
// error of its streams after the peer closed it is a *CloseError. Streams and datagrams
// that arrive before the first AcceptStream and ReceiveDatagram wait, within limits.
type Conn interface {
	// Stream returns the stream of a kind: Read returns what the peer wrote on its own.
	// The custom stream is read only after the first bytes of the system stream.
	Stream(k Kind) FrameStream
	// OpenStream opens a bulk stream. The peer accepts it when the first byte arrives. It
	// does not block: the error is ErrTooManyStreams while the peer has MaxStreams streams
	// of this end that it has not released.
	OpenStream() (RawStream, error)
	// AcceptStream blocks for the next bulk stream that the peer opened, until the
	// connection ends.
	AcceptStream() (RawStream, error)
	// SendDatagram sends up to MaxPacketBytes, which may be lost. It may block while the
	// network does not take them. The bytes must not be changed.
	SendDatagram(b []byte) error
	// ReceiveDatagram blocks for the next datagram, until the connection ends. While it is
	// not called a few datagrams wait, and more are lost.
	ReceiveDatagram() ([]byte, error)
	// Close ends the connection immediately; bytes in flight are lost. Only the first call
	// has an effect, and the peer receives its code and reason.
	Close(code Code, reason string)
	// RTT returns the round-trip time, 0 if it is not known.
	RTT() time.Duration
	// Heard returns a number that grows whenever anything comes from the peer, even an
	// acknowledgement by its network.
	Heard() uint64
	// Certificate returns the verified certificate of the peer, or nil if the certificates
	// of this network do not name members: then a peer may greet from any address.
	Certificate() *x509.Certificate
	// PortRefused asks the host of the peer whether it refuses the port, which proves that
	// the process is gone. It blocks for a second at most, and no longer than ctx. It
	// returns false if the host does not answer, or if the network cannot ask.
	PortRefused(ctx context.Context) bool
}

// FrameStream is one stream of frames. One goroutine writes and one reads, both until the
// connection is closed at the latest.
type FrameStream interface {
	io.ReadWriter
	// TryWrite writes all of p, or returns false and writes nothing if it would have to
	// wait. It is not called concurrently with Write.
	TryWrite(p []byte) (bool, error)
	// CloseWrite announces that nothing more is written: the peer reads io.EOF after what
	// was written before.
	CloseWrite() error
}

// RawStream is a bulk stream of a connection. It can be read and written concurrently. An
// error after Cancel or CloseWrite of this end is ErrStreamClosed, after Cancel of the peer
// it is ErrStreamReset.
type RawStream interface {
	io.ReadWriter
	// CloseWrite announces that nothing more is written: the peer reads io.EOF after what
	// was written before.
	CloseWrite() error
	// Cancel ends both directions immediately. It may be called concurrently with every
	// other method.
	Cancel()
	// Release stops counting a stream that the peer opened towards MaxStreams.
	Release()
}

// Kind separates frames that must not wait for each other.
type Kind uint8

// The kinds of frames.
const (
	System Kind = iota // messages between nodes
	Custom             // events of the application
	Answer             // outcomes of events
	Kinds              // counts the kinds
)

var kindNames = [Kinds]string{"system", "custom", "answer"}

// String returns the name of the kind as metrics write it.
func (k Kind) String() string { return nameOf(kindNames[:], k) }
