// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// maxWaiting bounds the connections to a node that it has not accepted yet.
const maxWaiting = 64

// errReset is the error of a connection whose other end was killed.
var errReset = errors.New("memnet: connection reset")

// Network is a set of nodes that can reach each other. Its methods may be called
// concurrently.
type Network struct {
	mu    sync.Mutex
	nodes map[member.Address]*endpoint
	conns map[*conn]struct{} // ends whose close has not yet reached the peer
	cut   map[link]struct{}
	// healed is closed and replaced when a link is healed.
	healed chan struct{}
}

// link is one direction between two nodes.
type link struct{ from, to member.Address }

// New returns a network without nodes.
func New() *Network {
	return &Network{
		nodes:  make(map[member.Address]*endpoint),
		conns:  make(map[*conn]struct{}),
		cut:    make(map[link]struct{}),
		healed: make(chan struct{}),
	}
}

// Listen opens the network of the node at an address, for cluster.WithTransport. It fails
// with transport.ErrAddressInUse if another node has the address.
func (n *Network) Listen(at member.Address) (transport.Network, error) {
	e, err := n.listen(at)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (n *Network) listen(at member.Address) (*endpoint, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.nodes[at]; ok {
		return nil, fmt.Errorf("memnet: listen on %s: %w", at, transport.ErrAddressInUse)
	}
	e := &endpoint{
		net:     n,
		addr:    at,
		waiting: make(chan *conn, maxWaiting),
		closed:  make(chan struct{}),
	}
	n.nodes[at] = e
	return e, nil
}

// Cut drops everything that one node sends to another, without an error. Bytes sent on a
// connection, and the close of a connection, arrive when the link is healed, as if they
// were retransmitted.
func (n *Network) Cut(from, to member.Address) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[link{from, to}] = struct{}{}
	for c := range n.conns {
		if c.link() == (link{from, to}) {
			c.hold(true)
		}
	}
}

// Heal undoes Cut.
func (n *Network) Heal(from, to member.Address) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, link{from, to})
	for c := range n.conns {
		if c.link() != (link{from, to}) {
			continue
		}
		c.hold(false)
		if c.parting != nil {
			delete(n.conns, c)
			c.other.fail(c.parting)
		}
	}
	close(n.healed)
	n.healed = make(chan struct{})
}

// disconnect breaks a connection. This end gets the error ours immediately; the other end gets the
// error theirs once it can be reached.
func (n *Network) disconnect(c *conn, ours, theirs error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.fail(ours)
	if _, ok := n.conns[c]; !ok || c.parting != nil {
		return // already broken by an earlier call
	}
	if _, cut := n.cut[c.link()]; cut {
		c.parting = theirs
		return
	}
	delete(n.conns, c)
	c.other.fail(theirs)
}

// Kill ends a node as if its process were killed: its address becomes free, and the
// connections of its peers are reset.
func (n *Network) Kill(at member.Address) {
	n.mu.Lock()
	e, ok := n.nodes[at]
	n.mu.Unlock()
	if ok {
		e.shut(errReset)
	}
}

// dial connects two nodes. It waits while a direction between them is cut.
func (n *Network) dial(ctx context.Context, from *endpoint, to member.Address) (*conn, error) {
	for {
		ours, healed, err := n.tryDial(from, to)
		if ours != nil || err != nil {
			return ours, err
		}
		select {
		case <-healed:
		case <-from.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("memnet: dial %s: %w", to, context.Cause(ctx))
		}
	}
}

func (n *Network) tryDial(from *endpoint, to member.Address) (*conn, <-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, forth := n.cut[link{from.addr, to}]
	_, back := n.cut[link{to, from.addr}]
	if forth || back {
		return nil, n.healed, nil
	}
	e, ok := n.nodes[to]
	if !ok {
		return nil, nil, fmt.Errorf("memnet: dial %s: no node listens there", to)
	}
	if from.dead {
		return nil, nil, net.ErrClosed
	}
	ours, theirs := newPair(from, e)
	select {
	case e.waiting <- theirs:
	default:
		return nil, nil, fmt.Errorf("memnet: dial %s: too many connections wait to be accepted", to)
	}
	n.conns[ours], n.conns[theirs] = struct{}{}, struct{}{}
	return ours, nil, nil
}

// endpoint is the network of one node.
type endpoint struct {
	net     *Network
	addr    member.Address
	waiting chan *conn
	closed  chan struct{}

	dead bool // guarded by the network's mutex
}

var _ transport.Network = (*endpoint)(nil)

func (e *endpoint) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	c, err := e.net.dial(ctx, e, to)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (e *endpoint) Accept() (transport.Conn, error) {
	select {
	case c := <-e.waiting:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

func (e *endpoint) Close() error {
	e.shut(&transport.CloseError{
		Code: transport.CodeClosed, Reason: "the node is shutting down", Remote: true,
	})
	return nil
}

// shut frees the address and breaks the node's connections. The peers get err.
func (e *endpoint) shut(err error) {
	e.net.mu.Lock()
	if e.dead {
		e.net.mu.Unlock()
		return
	}
	e.dead = true
	delete(e.net.nodes, e.addr)
	conns := maps.Clone(e.net.conns)
	e.net.mu.Unlock()
	for c := range conns {
		if c.node == e {
			e.net.disconnect(c, net.ErrClosed, err)
		}
	}
	close(e.closed) // must come last: once Accept has failed, the node sends nothing more
}
