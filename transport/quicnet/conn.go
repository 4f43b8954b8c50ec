// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/transport"
)

// noCommonALPN is TLS's alert no_application_protocol, as QUIC numbers alerts.
const noCommonALPN = 0x100 + 120

// streamClosed is the code with which a bulk stream ends that was closed; there is
// no other.
const streamClosed quic.StreamErrorCode = 0

// conn is one QUIC connection. Each side opens a stream for each kind of frames,
// in the order of the kinds. Bulk streams are bidirectional.
type conn struct {
	quic    *quic.Conn
	kernel  bool // packets go over a socket of the kernel
	named   bool // the certificate of the peer names it
	streams [transport.Kinds]stream

	// accepting is held by who accepts a stream, which is that of the kind next. It
	// is a channel, and no mutex, since that may take for ever.
	accepting chan struct{}
	next      transport.Kind
	accepted  [transport.Kinds]chan *quic.ReceiveStream // with room for the one
}

var _ transport.Conn = (*conn)(nil)

// newConn opens the streams of a connection whose handshake is done.
func (n *network) newConn(q *quic.Conn) (*conn, error) {
	c := &conn{quic: q, named: n.named, kernel: n.kernel, accepting: make(chan struct{}, 1)}
	for k := range transport.Kinds {
		c.accepted[k] = make(chan *quic.ReceiveStream, 1)
		send, err := q.OpenUniStream()
		if err != nil {
			err = translate(err)
			c.Close(transport.CodeRefused, "a stream for each kind of frames is needed")
			return nil, fmt.Errorf("quicnet: open stream: %w", err)
		}
		if k == transport.System {
			send.SetPriority(urgent, true)
		}
		c.streams[k] = stream{conn: c, kind: k, send: send}
	}
	return c, nil
}

// Stream implements transport.Conn.
func (c *conn) Stream(k transport.Kind) transport.FrameStream { return &c.streams[k] }

// OpenStream implements transport.Conn.
func (c *conn) OpenStream() (transport.RawStream, error) {
	s, err := c.quic.OpenStream()
	if _, full := errors.AsType[*quic.StreamLimitReachedError](err); full {
		return nil, transport.ErrTooManyStreams
	}
	if err != nil {
		return nil, translate(err)
	}
	return &bulk{quic: s}, nil
}

// AcceptStream implements transport.Conn.
func (c *conn) AcceptStream() (transport.RawStream, error) {
	// It returns when the connection is closed.
	s, err := c.quic.AcceptStream(context.Background())
	if err != nil {
		return nil, translate(err)
	}
	return &bulk{quic: s}, nil
}

// SendDatagram implements transport.Conn.
func (c *conn) SendDatagram(b []byte) error { return translate(c.quic.SendDatagram(b)) }

// ReceiveDatagram implements transport.Conn.
func (c *conn) ReceiveDatagram() ([]byte, error) {
	// It returns when the connection is closed.
	b, err := c.quic.ReceiveDatagram(context.Background())
	return b, translate(err)
}

// Close implements transport.Conn.
func (c *conn) Close(code transport.Code, reason string) {
	// It always returns nil.
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(code), safetext.PeerText(reason))
}

// RTT implements transport.Conn.
func (c *conn) RTT() time.Duration { return c.quic.ConnectionStats().SmoothedRTT }

// Heard implements transport.Conn.
func (c *conn) Heard() uint64 { return c.quic.ConnectionStats().PacketsReceived }

// Certificate implements transport.Conn.
func (c *conn) Certificate() *x509.Certificate {
	if !c.named {
		return nil
	}
	return c.quic.ConnectionState().TLS.PeerCertificates[0] // verified: there is one
}

// accept returns the peer's stream of a kind. QUIC gives streams out in the order in
// which the peer opened them, to whoever asks. It returns when the connection is
// closed.
func (c *conn) accept(k transport.Kind) (*quic.ReceiveStream, error) {
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

// acceptNext accepts one stream, unless that of kind k is there.
func (c *conn) acceptNext(k transport.Kind) error {
	if len(c.accepted[k]) > 0 {
		return nil
	}
	receive, err := c.quic.AcceptUniStream(context.Background())
	if err != nil {
		return translate(err)
	}
	c.accepted[c.next] <- receive
	c.next++
	return nil
}

// stream is a stream of ours to write and one of the peer's to read.
type stream struct {
	conn    *conn
	kind    transport.Kind
	send    *quic.SendStream
	receive *quic.ReceiveStream // nil until the first Read
}

func (s *stream) Read(p []byte) (int, error) {
	if s.receive == nil {
		receive, err := s.conn.accept(s.kind)
		if err != nil {
			return 0, err
		}
		s.receive = receive
	}
	n, err := s.receive.Read(p)
	return n, translate(err)
}

// maxTryBytes bounds what QUIC is given at once without waiting: it copies that,
// and keeps it until it is sent.
const maxTryBytes = 4 << 10

func (s *stream) TryWrite(p []byte) (bool, error) {
	if len(p) > maxTryBytes {
		return false, nil
	}
	err := s.send.TryWriteAll(p)
	if errors.Is(err, quic.ErrWouldBlock) {
		return false, nil
	}
	return err == nil, translate(err)
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.send.Write(p)
	return n, translate(err)
}

func (s *stream) CloseWrite() error { return translate(s.send.Close()) }

// bulk is a bulk stream. It has the same priority as custom frames: the packets go
// to all of them in turns.
type bulk struct {
	quic     *quic.Stream
	finished atomic.Bool // CloseWrite was called
}

func (b *bulk) Read(p []byte) (int, error) {
	n, err := b.quic.Read(p)
	return n, translate(err)
}

func (b *bulk) Write(p []byte) (int, error) {
	n, err := b.quic.Write(p)
	return n, translate(err)
}

func (b *bulk) CloseWrite() error {
	if b.finished.Load() {
		return nil
	}
	if err := context.Cause(b.quic.Context()); err != nil {
		return translate(err)
	}
	b.finished.Store(true)
	return translate(b.quic.Close())
}

// Cancel implements transport.RawStream.
func (b *bulk) Cancel() {
	if !b.finished.Load() {
		b.quic.CancelWrite(streamClosed)
	}
	b.quic.CancelRead(streamClosed)
}

// Release implements transport.RawStream.
func (b *bulk) Release() { b.quic.ReleaseStreamCredit() }

// unfit says whose certificate did not fit, and why where this node knows it.
func unfit(fault *quic.TransportError) string {
	if fault.Remote {
		return "the other node refused that of this one"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](fault); ok {
		return "that of the other node comes from another authority: " +
			"another secret, cluster name or file of authorities"
	}
	if wrong, ok := errors.AsType[x509.CertificateInvalidError](fault); ok {
		return invalid(wrong)
	}
	return safetext.PeerText(fault.Error())
}

// invalid says what is wrong with a certificate; crypto/x509 would say what time it is,
// and each time something else.
func invalid(wrong x509.CertificateInvalidError) string {
	whose := "that of the other node"
	if wrong.Cert.IsCA {
		whose = "an authority above that of the other node"
	}
	if wrong.Reason != x509.Expired {
		return whose + ": " + safetext.PeerText(wrong.Error())
	}
	return fmt.Sprintf("%s is good from %s until %s, which is not now: renew it, or correct the "+
		"clocks", whose, wrong.Cert.NotBefore.UTC().Format(time.RFC3339),
		wrong.Cert.NotAfter.UTC().Format(time.RFC3339))
}

// translate makes errors of QUIC those that a Mesh knows, and says what to do
// about certificates.
func translate(err error) error {
	if closed, ok := errors.AsType[*quic.ApplicationError](err); ok {
		return &transport.CloseError{
			Code:   transport.Code(closed.ErrorCode),
			Reason: safetext.PeerText(closed.ErrorMessage),
			Remote: closed.Remote,
		}
	}
	if reset, ok := errors.AsType[*quic.StreamError](err); ok && reset.Remote {
		return transport.ErrStreamReset
	} else if ok || errors.Is(err, quic.ErrStreamClosed) {
		return transport.ErrStreamClosed
	}
	fault, ok := errors.AsType[*quic.TransportError](err)
	if ok && fault.Remote {
		own := *fault
		own.ErrorMessage = safetext.PeerText(fault.ErrorMessage)
		fault, err = &own, &own
	}
	switch {
	case ok && fault.ErrorCode == noCommonALPN:
		return fmt.Errorf("%w: %w", transport.ErrNotNode, err)
	case ok && fault.ErrorCode.IsCryptoError():
		return &transport.CertificateError{Why: unfit(fault)}
	}
	// The deadlines of QUIC itself, of the handshake and later.
	_, unborn := errors.AsType[*quic.HandshakeTimeoutError](err)
	if _, idle := errors.AsType[*quic.IdleTimeoutError](err); idle || unborn {
		return fmt.Errorf("%w: %w", transport.ErrNoAnswer, err)
	}
	return err
}
