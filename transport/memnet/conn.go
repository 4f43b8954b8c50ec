// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// bindingBytes is the length of a random channel binding.
const bindingBytes = 32

// conn is one end of a connection.
type conn struct {
	node  *endpoint
	peer  member.Address
	other *conn
	// parting is the error to pass to the peer once the link is healed. The network's mutex
	// guards it.
	parting error
	// heard counts arrivals from the peer, and also reads by the peer, because a real network
	// acknowledges them.
	heard   atomic.Uint64
	streams [transport.Kinds]stream
	bulks   *bulks
	side    int // index of this end in bulks
	binding []byte
	// in and out carry new streams and datagrams between the ends.
	in, out *arrivals
}

var _ transport.Conn = (*conn)(nil)

func newPair(from, to *endpoint) (ours, theirs *conn) {
	ours = &conn{node: from, peer: to.addr}
	theirs = &conn{node: to, peer: from.addr}
	ours.other, theirs.other = theirs, ours
	ours.binding = make([]byte, bindingBytes)
	_, _ = rand.Read(ours.binding) // never fails
	theirs.binding = ours.binding
	for k := range transport.Kinds {
		there, back := newPipe(&ours.heard, &theirs.heard), newPipe(&theirs.heard, &ours.heard)
		ours.streams[k] = stream{in: back, out: there}
		theirs.streams[k] = stream{in: there, out: back}
	}
	ours.bulks, theirs.side = &bulks{}, 1
	theirs.bulks = ours.bulks
	there, back := newArrivals(), newArrivals()
	ours.in, ours.out, theirs.in, theirs.out = back, there, there, back
	return ours, theirs
}

func (c *conn) Stream(k transport.Kind) transport.FrameStream { return &c.streams[k] }

func (c *conn) Close(code transport.Code, reason string) {
	c.node.net.disconnect(c, &transport.CloseError{Code: code, Reason: reason},
		&transport.CloseError{Code: code, Reason: reason, Remote: true})
}

// RTT implements transport.Conn. It returns 0: the round-trip time is not known.
func (c *conn) RTT() time.Duration { return 0 }

func (c *conn) Heard() uint64 { return c.heard.Load() }

// PortRefused implements transport.Conn. This network does not need it: when a node is killed, its
// connections are reset.
func (c *conn) PortRefused(context.Context, member.Address) bool { return false }

// Remote implements transport.Conn.
func (c *conn) Remote() member.Address { return c.peer }

// ProvesRemote implements transport.Conn. A node dials from its address.
func (c *conn) ProvesRemote() bool { return true }

// Certificate implements transport.Conn.
func (c *conn) Certificate() *x509.Certificate { return nil }

// Binding implements transport.Conn.
func (c *conn) Binding() []byte { return c.binding }

// link returns the direction in which this end sends.
func (c *conn) link() link { return link{c.node.addr, c.peer} }

func (c *conn) fail(err error) {
	for k := range c.streams {
		c.streams[k].in.failRead(err)
		c.streams[k].out.failWrite(err)
	}
	c.in.fail(err)
	c.bulks.fail(c.side, err)
}

// hold starts or stops holding back everything written at this end.
func (c *conn) hold(cut bool) {
	for k := range c.streams {
		c.streams[k].out.hold(cut)
	}
	c.out.hold(cut)
	c.bulks.hold(c.side, cut)
}

// stream is one end of a stream.
type stream struct{ in, out *pipe }

func (s *stream) Read(p []byte) (int, error)      { return s.in.read(p) }
func (s *stream) Write(p []byte) (int, error)     { return s.out.write(p) }
func (s *stream) TryWrite(p []byte) (bool, error) { return s.out.tryWrite(p) }
func (s *stream) CloseWrite() error               { return s.out.closeWrite() }
