// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/transportkinds"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// urgent is the priority of system frames; lower numbers are sent first. Custom frames and
// bulk streams have QUIC's default priority, 3, and take turns.
const urgent = 0

// streamClosed is the only code with which a bulk stream is closed.
const streamClosed quic.StreamErrorCode = 0

// finishTime is how long a dialer waits before it refuses the peer: until the last packet of the
// handshake has been sent, a close carries no reason (RFC 9000, section 10.2.3).
const finishTime = 10 * time.Millisecond

// conn is a QUIC connection. Each side opens a stream for each kind of frames, in the
// order of the kinds. Bulk streams are bidirectional.
type conn struct {
	quic    *quic.Conn
	path    *path
	kernel  bool // see Config.Kernel
	named   bool // see Config.Named
	single  bool // whether the socket listens on one IP address only
	binding []byte
	refuse  time.Time // not before: see finishTime; zero if the peer dialed
	streams [transport.Kinds]stream

	// accepting is held while the stream of kind next is accepted. It is a channel rather
	// than a mutex, because accepting may block indefinitely.
	accepting chan struct{}
	next      transport.Kind
	accepted  [transport.Kinds]chan *quic.ReceiveStream // buffered
}

var _ transport.Conn = (*conn)(nil)

// newConn opens the streams of a connection whose handshake is complete. It refuses no peer before
// the time refuse.
func (n *network) newConn(q *quic.Conn, refuse time.Time) (*conn, error) {
	c := &conn{
		quic: q, named: n.named, kernel: n.kernel, refuse: refuse, accepting: make(chan struct{}, 1),
	}
	local, _ := n.packets.LocalAddr().(*net.UDPAddr)
	c.single = local != nil && !local.IP.IsUnspecified()
	var err error
	if c.binding, err = transportkinds.Binding(q.ConnectionState().TLS); err != nil {
		c.Close(transport.CodeRefused, "no channel binding")
		return nil, err
	}
	c.path = n.newPath(q, c.failPath)
	for k := range transport.Kinds {
		c.accepted[k] = make(chan *quic.ReceiveStream, 1)
		send, err := q.OpenUniStream()
		if err != nil {
			err = translateError(err)
			c.Close(transport.CodeRefused, "each kind of frame needs its own stream")
			return nil, fmt.Errorf("quicnet: open stream: %w", err)
		}
		if k == transport.System {
			send.SetPriority(urgent, true)
		}
		c.streams[k] = stream{conn: c, kind: k, send: send}
	}
	return c, nil
}

func (c *conn) Stream(k transport.Kind) transport.FrameStream { return &c.streams[k] }

func (c *conn) OpenStream() (transport.RawStream, error) {
	s, err := c.quic.OpenStream()
	if _, full := errors.AsType[*quic.StreamLimitReachedError](err); full {
		return nil, transport.ErrTooManyStreams
	}
	if err != nil {
		return nil, translateError(err)
	}
	return &bulk{quic: s, path: c.path}, nil
}

func (c *conn) AcceptStream() (transport.RawStream, error) {
	s, err := c.quic.AcceptStream(context.Background())
	if err != nil {
		return nil, translateError(err)
	}
	return &bulk{quic: s, path: c.path}, nil
}

func (c *conn) SendDatagram(b []byte) error { return translateError(c.quic.SendDatagram(b)) }

func (c *conn) ReceiveDatagram() ([]byte, error) {
	b, err := c.quic.ReceiveDatagram(context.Background())
	return b, translateError(err)
}

func (c *conn) Close(code transport.Code, reason string) {
	if code == transport.CodeRefused {
		time.Sleep(time.Until(c.refuse))
	}
	// It always returns nil.
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(code), safetext.PeerText(reason))
}

func (c *conn) RTT() time.Duration { return c.quic.ConnectionStats().SmoothedRTT }

func (c *conn) Heard() uint64 { return c.quic.ConnectionStats().PacketsReceived }

func (c *conn) Remote() member.Address { return transportkinds.AddressOf(c.quic.RemoteAddr()) }

// ProvesRemote implements transport.Conn. A socket that listens on all addresses answers from the
// one at which a packet arrived, but the system chooses the one from which it dials. A NAT or a
// firewall of the peer may know only the first.
func (c *conn) ProvesRemote() bool { return c.single }

func (c *conn) Certificate() *x509.Certificate {
	if !c.named {
		return nil
	}
	return c.quic.ConnectionState().TLS.PeerCertificates[0] // verified by the handshake
}

func (c *conn) Binding() []byte { return c.binding }

// acceptKind returns the peer's stream of a kind. QUIC returns the streams in the order in
// which the peer opened them, whichever goroutine asks. When the connection is
// closed, acceptKind returns an error.
func (c *conn) acceptKind(k transport.Kind) (*quic.ReceiveStream, error) {
	for {
		select {
		case receive := <-c.accepted[k]:
			return receive, nil
		case c.accepting <- struct{}{}:
			err := c.acceptNext(k)
			<-c.accepting
			if err != nil {
				return nil, err
			}
		}
	}
}

// acceptNext accepts the stream of kind c.next and keeps it for its reader. It accepts none if that
// of kind k has arrived: another reader may have accepted it before this one held c.accepting, and
// no further stream may come. The caller must hold c.accepting.
func (c *conn) acceptNext(k transport.Kind) error {
	if len(c.accepted[k]) > 0 {
		return nil
	}
	receive, err := c.quic.AcceptUniStream(context.Background())
	if err != nil {
		return translateError(err)
	}
	c.accepted[c.next] <- receive
	c.next++
	return nil
}

// stream pairs a stream that this node writes with one that the peer writes.
type stream struct {
	conn    *conn
	kind    transport.Kind
	send    *quic.SendStream
	receive *quic.ReceiveStream // nil until the first Read
}

func (s *stream) Read(p []byte) (int, error) {
	if s.receive == nil {
		receive, err := s.conn.acceptKind(s.kind)
		if err != nil {
			return 0, err
		}
		s.receive = receive
	}
	n, err := s.receive.Read(p)
	return n, translateError(err)
}

// maxTryBytes bounds a TryWrite: QUIC copies the bytes and keeps them until they are sent.
const maxTryBytes = 4 << 10

func (s *stream) TryWrite(p []byte) (bool, error) {
	if len(p) > maxTryBytes {
		return false, nil
	}
	s.conn.path.beginWrite(len(p))
	err := s.send.TryWriteAll(p)
	s.conn.path.endWrite(len(p))
	if errors.Is(err, quic.ErrWouldBlock) {
		return false, nil
	}
	return err == nil, translateError(err)
}

func (s *stream) Write(p []byte) (int, error) {
	s.conn.path.beginWrite(len(p))
	n, err := s.send.Write(p)
	s.conn.path.endWrite(len(p))
	return n, translateError(err)
}

func (s *stream) CloseWrite() error { return translateError(s.send.Close()) }

// bulk is a bulk stream.
type bulk struct {
	quic     *quic.Stream
	path     *path
	finished atomic.Bool // CloseWrite was called
}

func (b *bulk) Read(p []byte) (int, error) {
	n, err := b.quic.Read(p)
	return n, translateError(err)
}

func (b *bulk) Write(p []byte) (int, error) {
	b.path.beginWrite(len(p))
	n, err := b.quic.Write(p)
	b.path.endWrite(len(p))
	return n, translateError(err)
}

func (b *bulk) CloseWrite() error {
	if b.finished.Load() {
		return nil
	}
	if err := context.Cause(b.quic.Context()); err != nil {
		return translateError(err)
	}
	b.finished.Store(true)
	return translateError(b.quic.Close())
}

func (b *bulk) Cancel() {
	if !b.finished.Load() {
		b.quic.CancelWrite(streamClosed)
	}
	b.quic.CancelRead(streamClosed)
}

func (b *bulk) Release() { b.quic.ReleaseStreamCredit() }
