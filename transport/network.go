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
	// MaxStreams bounds the bulk streams that each side of a connection may have open.
	MaxStreams = 16
	// MaxPacketBytes bounds the bytes of a datagram. A QUIC packet of 1200 bytes has room for a
	// datagram of this size, for acknowledgements and for part of a system frame. The rest of the room
	// matters because QUIC puts datagrams into a packet first.
	MaxPacketBytes = 962
)

// Config is what a node passes to the function that opens its network.
type Config struct {
	// Size is the size of the cluster, N. It bounds the resources of hosts that are not
	// admitted yet.
	Size int
	// Addr is where the node listens, host:port.
	Addr string
	// TLS makes the TLS configuration of the node from its secret or its certificate files.
	// named reports whether certificates name members; if so, Conn.Certificate must not
	// return nil. A network that does not use TLS need not call it.
	TLS func() (config *tls.Config, named bool, err error)
	// HandshakeFailed, if not nil, is called when another host dialed this node and the
	// handshake failed. from is the source address of the packets. The node counts and logs
	// the failure if err wraps ErrCertificate, is a *ConfigMismatchError, or is the
	// *CloseError with which the dialer refused this node. HandshakeFailed does not block
	// and may be called from any goroutine.
	HandshakeFailed func(from member.Address, err error)
	// Warn, if not nil, logs a fault that does not stop the network, such as small
	// buffers. It does not block.
	Warn func(err error)
}

// Network makes the connections of one node. It carries bytes and knows nothing about greetings,
// frames or peers. Its methods may be called concurrently.
type Network interface {
	// Dial connects to the node at an address. It gives up when ctx is done.
	Dial(ctx context.Context, to member.Address) (Conn, error)
	// Accept blocks until another node has dialed. An error means that the network was
	// closed or has failed, and it is not used again.
	Accept() (Conn, error)
	// Close frees the address. The node closes its connections before it calls Close.
	Close() error
}

// Conn is one connection between two nodes. Its methods may be called concurrently. After the peer
// has closed it, its streams return a *CloseError. Streams and datagrams that arrive before the
// first AcceptStream or ReceiveDatagram are queued, within limits.
type Conn interface {
	// Stream returns the stream of a kind. Read returns the bytes that the peer writes to its stream
	// of that kind. The node reads the custom stream only after the first bytes of the system stream
	// have arrived.
	Stream(k Kind) FrameStream
	// OpenStream opens a bulk stream. The peer accepts it when the first byte arrives.
	// OpenStream does not block: it returns ErrTooManyStreams if this end has opened MaxStreams
	// streams that the peer has not released.
	OpenStream() (RawStream, error)
	// AcceptStream blocks until the peer opens a bulk stream or the connection ends.
	AcceptStream() (RawStream, error)
	// SendDatagram sends up to MaxPacketBytes, which may be lost. It may block while the
	// network is busy. The caller must not change the bytes afterwards.
	SendDatagram(b []byte) error
	// ReceiveDatagram blocks until a datagram arrives or the connection ends. A few datagrams are
	// queued between calls; further ones are lost.
	ReceiveDatagram() ([]byte, error)
	// Close ends the connection immediately; bytes in flight are lost. Only the first call
	// has an effect, and the peer receives its code and reason.
	Close(code Code, reason string)
	// RTT returns the round-trip time, or 0 if it is not known.
	RTT() time.Duration
	// Heard returns a number that grows whenever anything arrives from the peer, even an
	// acknowledgement sent by its network.
	Heard() uint64
	// Remote returns the address from which the packets of the peer arrive, for logs and limits. It
	// may differ from the address of the node, and is zero if it is not known.
	Remote() member.Address
	// ProvesRemote reports whether a Dial of Remote would reach the peer: the network has verified
	// that the peer receives packets there, and a dial leaves from the address and port at which the
	// peer's packets arrive. If each dial has its own port, another process may listen at Remote.
	ProvesRemote() bool
	// Certificate returns the verified certificate of the peer. It returns nil if the
	// certificates of this network do not name members; a peer may then greet from any
	// address.
	Certificate() *x509.Certificate
	// Binding returns the channel binding of the connection: bytes that are equal at both of its ends,
	// and different for every other connection (RFC 9266, tls-exporter). A peer signs them to prove
	// which store it has. The caller must not change them.
	Binding() []byte
	// PortRefused asks the peer's host whether it refuses packets to at, the member's address. A
	// refusal proves that the process is gone. The connection may have ended. PortRefused blocks
	// for at most a second, and returns earlier if ctx is done. It returns false if the host does
	// not answer or the network does not support this.
	PortRefused(ctx context.Context, at member.Address) bool
}

// FrameStream is one stream of frames. One goroutine reads and one writes; both stop when the
// connection is closed, if not earlier.
type FrameStream interface {
	io.ReadWriter
	// TryWrite writes all of p. If it would have to wait, it writes nothing and returns
	// false. It is not called concurrently with Write.
	TryWrite(p []byte) (bool, error)
	// CloseWrite ends the direction to the peer, which reads io.EOF after all the bytes written
	// before.
	CloseWrite() error
}

// RawStream is a bulk stream of a connection. It can be read and written concurrently. Its
// methods return ErrStreamClosed after this end has called Cancel or CloseWrite, and
// ErrStreamReset after the peer has called Cancel.
type RawStream interface {
	io.ReadWriter
	// CloseWrite ends the direction to the peer, which reads io.EOF after all the bytes written
	// before.
	CloseWrite() error
	// Cancel ends both directions immediately. It may be called concurrently with all other
	// methods.
	Cancel()
	// Release ends the use of a stream that the peer opened: it no longer counts towards MaxStreams.
	Release()
}

// Kind is a class of frames. Frames of different kinds do not wait for each other.
type Kind uint8

// The kinds of frames.
const (
	System  Kind = iota // messages between nodes
	Custom              // events of the application
	Answer              // outcomes, cancels, and requests that never wait at the receiver
	Request             // other requests
	Nested              // events that handlers send
	Kinds               // counts the kinds
)

var kindNames = [Kinds]string{"system", "custom", "answer", "request", "nested"}

// String returns the name of the kind in metrics.
func (k Kind) String() string { return nameOf(kindNames[:], k) }
