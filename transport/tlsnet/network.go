// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/internal/handshakes"
	"github.com/athena-go/athena/internal/transportkinds"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// handshakeTimeout bounds the TLS handshake and the preamble that follows it.
const handshakeTimeout = 5 * time.Second

// connID identifies the lanes of a connection. The dialer chooses it at random, and only the two
// ends learn it, so no other peer can add a lane.
type connID [16]byte

// connEnd is one end of a connection. A node that dials itself, by mistake, has both ends.
type connEnd struct {
	id     connID
	dialed bool
}

func endOf(c *conn) connEnd { return connEnd{c.id, c.dialed != ""} }

// tlsConn is a TLS connection and its socket.
type tlsConn struct {
	*tls.Conn
	socket *socket
}

var errNoTLS = errors.New("tlsnet: Config.TLS is required")

// Open listens on TCP at cfg.Addr, for cluster.WithTransport. It fails with
// transport.ErrAddressInUse if another process listens there.
func Open(cfg transport.Config) (transport.Network, error) {
	l, err := net.Listen("tcp", cfg.Addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("tlsnet: listen on %s: %w: "+
			"stop the other process or choose another port", cfg.Addr, transport.ErrAddressInUse)
	case err != nil:
		return nil, fmt.Errorf("tlsnet: listen on %s: %w", cfg.Addr, err)
	}
	d := net.Dialer{LocalAddr: dialSource(l.Addr())}
	n, err := newNetwork(cfg, l, func(ctx context.Context, addr string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", addr)
	})
	if err != nil {
		return nil, err
	}
	n.finder = transportkinds.NewFinder(transportkinds.TLS, n.dialTLS)
	return n, nil
}

// dialSource returns the address from which a node dials that listens on l: that of l, as with one
// socket of QUIC, so that peers and firewalls see the advertised address on a host with several. It
// returns nil for a node that listens on all addresses.
func dialSource(l net.Addr) net.Addr {
	at, ok := l.(*net.TCPAddr)
	if !ok || at.IP.IsUnspecified() {
		return nil
	}
	return &net.TCPAddr{IP: at.IP, Zone: at.Zone}
}

// New is like Open, but listens on l and connects by the function dial, for example to simulate or
// disturb a network. The network closes l, and so does New if it fails.
func New(
	cfg transport.Config, l net.Listener,
	dial func(ctx context.Context, addr string) (net.Conn, error),
) (transport.Network, error) {
	n, err := newNetwork(cfg, l, dial)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// network implements transport.Network.
type network struct {
	cfg      transport.Config
	dialTLS  *tls.Config
	serveTLS *tls.Config
	finder   *transportkinds.Finder // nil if the network is simulated
	named    bool
	listener net.Listener
	dialTCP  func(ctx context.Context, addr string) (net.Conn, error)
	gate     *handshakes.Gate
	accepted chan *conn

	ctx    context.Context // done when the network closes
	cancel context.CancelFunc
	last   context.Context // done lastCloseTimeout after ctx
	work   sync.WaitGroup

	mu      sync.Mutex
	closing bool // no more connections are added
	closed  bool // no more goroutines are added
	conns   map[connEnd]*conn
}

var _ transport.Network = (*network)(nil)

func newNetwork(
	cfg transport.Config, l net.Listener,
	dial func(ctx context.Context, addr string) (net.Conn, error),
) (*network, error) {
	if cfg.TLS == nil {
		return nil, errors.Join(errNoTLS, l.Close())
	}
	own, named, err := cfg.TLS()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	own = own.Clone()
	own.DynamicRecordSizingDisabled = true // small first records help only browsers
	dialTLS, serveTLS := transportkinds.TLS.Configure(own)
	n := &network{
		cfg:      cfg,
		dialTLS:  dialTLS,
		serveTLS: serveTLS,
		named:    named,
		listener: l,
		dialTCP:  dial,
		gate:     handshakes.NewGate(handshakes.Limit(cfg.Size)),
		accepted: make(chan *conn),
		conns:    make(map[connEnd]*conn),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	last, hurry := context.WithCancel(context.Background())
	n.last = last
	context.AfterFunc(n.ctx, func() { time.AfterFunc(lastCloseTimeout, hurry) })
	n.work.Go(n.listen)
	return n, nil
}

// spawn runs f in a goroutine that Close waits for. It returns false if the network is closed.
func (n *network) spawn(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.work.Go(f)
	return true
}

// Dial implements transport.Network.
func (n *network) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	var id connID
	_, _ = rand.Read(id[:]) // it never fails
	t, err := n.handshake(ctx, to.String(), id, systemLane)
	if err != nil {
		return nil, fmt.Errorf("tlsnet: dial %s: %w", to, err)
	}
	c := n.newConn(id, t.socket.RemoteAddr().String())
	if !n.start(c, t) {
		return nil, net.ErrClosed
	}
	select {
	case <-c.ready:
		return c, nil
	case <-c.over:
		// A peer that closed the connection had accepted it before.
		if _, closed := errors.AsType[*transport.CloseError](c.cause()); closed {
			return c, nil
		}
		return nil, fmt.Errorf("tlsnet: dial %s: %w", to, c.cause())
	case <-ctx.Done():
		c.fail(context.Cause(ctx))
		return nil, fmt.Errorf("tlsnet: dial %s: %w", to, context.Cause(ctx))
	}
}

// handshake connects a lane to an address.
func (n *network) handshake(
	ctx context.Context, addr string, id connID, lane byte,
) (t tlsConn, err error) {
	raw, err := n.dialTCP(ctx, addr)
	if err = n.finder.Explain(addr, translate(err)); err != nil {
		return t, err
	}
	s := &socket{Conn: raw}
	t = tlsConn{tls.Client(s, n.dialTLS), s}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	err = t.HandshakeContext(ctx)
	if err == nil {
		_, err = t.Write(append([]byte{lane}, id[:]...))
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close() // the first error matters more
		return t, translate(err)
	}
	return t, nil
}

// start registers a connection and attaches its system lane. It returns false if the network is
// closing.
func (n *network) start(c *conn, t tlsConn) bool {
	state := t.ConnectionState()
	if n.named {
		c.peer = state.PeerCertificates[0] // a verified peer has one
	}
	binding, err := transportkinds.Binding(state)
	if err != nil {
		_ = t.socket.Close() // nothing was sent on it
		c.fail(err)
		return false
	}
	c.binding = binding
	n.mu.Lock() // hold it until work counts the goroutines of the lane
	fits := !n.closing && n.conns[endOf(c)] == nil
	if fits {
		n.conns[endOf(c)] = c
		c.lanes[systemLane].attach(t) // it is new
	}
	n.mu.Unlock()
	if !fits {
		_ = t.socket.Close() // nothing was sent on it
		c.fail(net.ErrClosed)
	}
	return fits
}

func (n *network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns[endOf(c)] == c {
		delete(n.conns, endOf(c))
	}
}

// Accept implements transport.Network.
func (n *network) Accept() (transport.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.ctx.Done():
		return nil, net.ErrClosed
	}
}

// acceptPause is how long listen waits after an error, such as too many open files.
const acceptPause = 50 * time.Millisecond

// listen accepts TCP connections until the network closes.
func (n *network) listen() {
	for {
		raw, err := n.listener.Accept()
		if err != nil {
			if n.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				n.cancel()
				return
			}
			time.Sleep(acceptPause)
			continue
		}
		leave, ok := n.gate.Enter(raw.RemoteAddr())
		if !ok || !n.spawn(func() { n.serve(raw, leave) }) {
			_ = raw.Close() // it is refused
		}
	}
}

// serve performs the handshake on an accepted TCP connection.
func (n *network) serve(raw net.Conn, leave func()) {
	defer leave()
	ctx, cancel := context.WithTimeout(n.ctx, handshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	s := &socket{Conn: raw}
	t := tlsConn{tls.Server(s, n.serveTLS), s}
	var preamble [1 + len(connID{})]byte
	err := t.HandshakeContext(ctx)
	if err == nil {
		err = transportkinds.TLS.Check(t.ConnectionState())
	}
	if err == nil {
		_, err = io.ReadFull(t, preamble[:])
	}
	if !stop() || err != nil {
		_ = raw.Close() // the error of the handshake matters more
		n.reportFailed(raw.RemoteAddr(), err)
		return
	}
	id := connID(preamble[1:])
	if preamble[0] == bulkLane {
		n.attachBulk(id, t)
		return
	}
	if preamble[0] != systemLane {
		_ = raw.Close() // the peer is not a node
		return
	}
	c := n.newConn(id, "")
	if !n.start(c, t) {
		return
	}
	c.lanes[systemLane].pushControl(frameAlive, 0, nil)
	select {
	case n.accepted <- c:
	case <-n.ctx.Done():
	case <-c.over:
		n.reportFailed(raw.RemoteAddr(), c.cause())
	}
}

// attachBulk adds the bulk lane to a connection that was accepted earlier.
func (n *network) attachBulk(id connID, t tlsConn) {
	n.mu.Lock()
	c := n.conns[connEnd{id, false}]
	n.mu.Unlock()
	if c == nil || !c.samePeer(t) || !c.lanes[bulkLane].attach(t) {
		n.closeUnused(t.socket) // the connection has ended, or the peer is not its node
	}
}

// closeUnused closes a bulk lane whose connection has ended. The peer takes the end of a lane for a
// lost connection, so it first gets time to learn the real reason on the system lane.
func (n *network) closeUnused(s *socket) { n.closeAfter(s, func() error { return nil }) }

// reportFailed reports that a handshake of another host failed.
func (n *network) reportFailed(from net.Addr, err error) {
	addr := transportkinds.AddressOf(from)
	if err != nil && !addr.IsZero() && n.cfg.HandshakeFailed != nil {
		n.cfg.HandshakeFailed(addr, translate(err))
	}
}

// Close implements transport.Network.
func (n *network) Close() error {
	n.finder.Close()
	n.cancel()
	err := n.listener.Close()
	n.mu.Lock()
	n.closing = true
	conns := make([]*conn, 0, len(n.conns))
	for _, c := range n.conns {
		conns = append(conns, c)
	}
	n.mu.Unlock()
	for _, c := range conns {
		c.Close(transport.CodeClosed, "the network is closing")
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.work.Wait()
	return err
}
