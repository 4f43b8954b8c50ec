// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/transportkinds"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// A lane answers system messages with a keep-alive, unless it sends another frame within ackDelay.
	ackDelay = 25 * time.Millisecond
	// A lane with nothing to send sends a keep-alive every keepAlivePeriod. A connection ends if one
	// of its lanes has received nothing at three consecutive checks. So it survives a pause or a
	// partition of less than idleTimeout. The values are those of package quicnet.
	keepAlivePeriod = 10 * time.Second
	silentChecks    = 3
	idleTimeout     = silentChecks * keepAlivePeriod
	// closeTimeout is how long the peer has to receive the close frame, and lastCloseTimeout how long
	// it has once the network closes.
	closeTimeout     = time.Second
	lastCloseTimeout = 250 * time.Millisecond
	// maxReasonBytes bounds the reason of a close frame.
	maxReasonBytes = 1 << 10
	// maxDatagrams bounds the datagrams that wait for ReceiveDatagram; further ones are lost.
	maxDatagrams = 32
)

// conn implements transport.Conn.
type conn struct {
	network *network
	id      connID
	dialed  string            // the address that was dialed; empty if the peer dialed
	peer    *x509.Certificate // certificate of the peer, if certificates name members
	binding []byte            // of the system lane
	lanes   [lanes]*lane
	kinds   [transport.Kinds]*stream

	mu         sync.Mutex
	err        error
	streams    map[uint32]*stream // bulk streams that have not ended
	unreleased map[uint32]bool    // opened by this end and not yet released by the peer
	accepted   int                // streams of the peer that this end has not released
	nextID     uint32             // number of this end's next bulk stream
	lastPeerID uint32             // number of the peer's last bulk stream
	laneAsked  bool               // the bulk lane was requested or is being dialed
	keepAlive  *time.Timer

	incoming  chan *stream // has room for all streams that the peer may open
	datagrams chan []byte
	over      chan struct{} // closed when the connection has ended
	ready     chan struct{} // closed when the peer has accepted the connection
	accept    sync.Once     // closes ready
}

var _ transport.Conn = (*conn)(nil)

// Bulk streams are numbered after the kinds. The dialing end uses even numbers, the other end odd
// ones.
const firstBulkID = (uint32(transport.Kinds) + 1) &^ 1

func (n *network) newConn(id connID, dialed string) *conn {
	c := &conn{
		network:    n,
		id:         id,
		dialed:     dialed,
		streams:    make(map[uint32]*stream),
		unreleased: make(map[uint32]bool),
		nextID:     firstBulkID,
		incoming:   make(chan *stream, transport.MaxStreams),
		datagrams:  make(chan []byte, maxDatagrams),
		over:       make(chan struct{}),
		ready:      make(chan struct{}),
	}
	c.lastPeerID = firstBulkID - 1
	if dialed == "" {
		c.nextID, c.lastPeerID = firstBulkID+1, firstBulkID-2
	}
	for i := range c.lanes {
		c.lanes[i] = newLane(c, i)
	}
	for k := range transport.Kinds {
		c.kinds[k] = newStream(c, c.laneOf(uint32(k)), uint32(k))
	}
	c.mu.Lock() // checkAlive uses the timer, perhaps before it is set here
	defer c.mu.Unlock()
	c.keepAlive = time.AfterFunc(keepAlivePeriod, c.checkAlive)
	return c
}

// laneOf returns the lane that carries a stream.
func (c *conn) laneOf(stream uint32) *lane {
	if stream == uint32(transport.System) {
		return c.lanes[systemLane]
	}
	return c.lanes[bulkLane]
}

// Stream implements transport.Conn.
func (c *conn) Stream(k transport.Kind) transport.FrameStream { return c.kinds[k] }

var errNumbers = errors.New("tlsnet: all stream numbers are used up")

// OpenStream implements transport.Conn.
func (c *conn) OpenStream() (transport.RawStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, c.err
	case len(c.unreleased) == transport.MaxStreams:
		return nil, transport.ErrTooManyStreams
	case c.nextID < firstBulkID: // after 2^31 streams
		c.network.spawn(func() { c.Close(transport.CodeClosed, errNumbers.Error()) })
		return nil, errNumbers
	}
	s := newStream(c, c.lanes[bulkLane], c.nextID)
	c.nextID += 2
	c.streams[s.id] = s
	c.unreleased[s.id] = true
	return s, nil
}

// AcceptStream implements transport.Conn.
func (c *conn) AcceptStream() (transport.RawStream, error) {
	select {
	case s := <-c.incoming:
		return s, nil
	case <-c.over:
		return nil, c.cause()
	}
}

// SendDatagram implements transport.Conn.
func (c *conn) SendDatagram(b []byte) error {
	_, err := c.lanes[bulkLane].push(frameDatagram, nil, b, true)
	return err
}

// ReceiveDatagram implements transport.Conn.
func (c *conn) ReceiveDatagram() ([]byte, error) {
	select {
	case b := <-c.datagrams:
		return b, nil
	case <-c.over:
		return nil, c.cause()
	}
}

// RTT implements transport.Conn.
func (c *conn) RTT() time.Duration { return c.lanes[systemLane].rtt() }

// Heard implements transport.Conn.
func (c *conn) Heard() uint64 {
	return c.lanes[systemLane].heard.Load() + c.lanes[bulkLane].heard.Load()
}

// Remote implements transport.Conn.
func (c *conn) Remote() member.Address {
	return transportkinds.AddressOf(c.lanes[systemLane].remote())
}

// ProvesRemote implements transport.Conn. The port of a dialer is random, and may by chance be that
// of a process that is down.
func (c *conn) ProvesRemote() bool { return false }

// Certificate implements transport.Conn.
func (c *conn) Certificate() *x509.Certificate { return c.peer }

// Binding implements transport.Conn.
func (c *conn) Binding() []byte { return c.binding }

// PortRefused implements transport.Conn.
func (c *conn) PortRefused(ctx context.Context, at member.Address) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	addr := cmp.Or(c.dialed, c.listens(ctx, at))
	if addr == "" {
		return false
	}
	t, err := c.network.dialTCP(ctx, addr)
	if err == nil {
		_ = t.Close() // nothing was sent
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// listens returns the address on which the dialing peer listens. This is the address of the member,
// if it belongs to the host from which the connection came. Otherwise, as behind a NAT, it is "".
func (c *conn) listens(ctx context.Context, at member.Address) string {
	from, ok := c.lanes[systemLane].remote().(*net.TCPAddr)
	if !ok {
		return ""
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, at.Host) // an IP address is returned as it is
	host := (&net.IPAddr{IP: from.IP, Zone: from.Zone}).String()
	if err != nil || !slices.Contains(hosts, host) {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(at.Port)))
}

// handle processes a frame other than data.
func (c *conn) handle(l *lane, h header, payload []byte) error {
	switch h.kind {
	case frameAlive:
		c.accept.Do(func() { close(c.ready) })
		return nil
	case frameOpenLane:
		if c.dialed == "" {
			return fmt.Errorf("%w: the dialing end asked for a lane", errFrame)
		}
		c.needLane()
		return nil
	case frameDatagram:
		select {
		case c.datagrams <- payload:
		default: // lost, because the receiver does not keep up
		}
		return nil
	case frameClose:
		c.fail(&transport.CloseError{
			Code:   transport.Code(binary.BigEndian.Uint64(payload)),
			Reason: safetext.PeerText(string(payload[8:])),
			Remote: true,
		})
		c.abort() // the peer waits for this, even if this end has closed the connection too
		return nil
	case frameRelease:
		return c.released(h.stream)
	}
	s, err := c.receiving(l, h.stream)
	if err != nil {
		return err
	}
	switch {
	case s == nil: // the stream has ended
		return nil
	case h.kind == frameWindow:
		return s.renew(payload)
	case h.kind == frameEnd:
		s.endRead()
	case h.kind == frameReset:
		s.failRead(transport.ErrStreamReset)
	case h.kind == frameStop:
		s.failWrite(transport.ErrStreamReset)
		l.stop(s)
	}
	c.forgetIfDone(s)
	return nil
}

// receiving returns the stream of a received frame, or nil if the stream has ended. The first frame
// of a bulk stream opens it at the accepting end.
func (c *conn) receiving(l *lane, id uint32) (*stream, error) {
	if l != c.laneOf(id) {
		return nil, fmt.Errorf("%w: stream %d is on the wrong lane %d", errFrame, id, l.id)
	}
	if id < uint32(transport.Kinds) {
		return c.kinds[id], nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[id]; s != nil {
		return s, nil
	}
	ours := (id%2 == 0) == (c.dialed != "")
	switch {
	case id < firstBulkID, ours && id >= c.nextID:
		return nil, fmt.Errorf("%w: unknown stream %d", errFrame, id)
	case ours, id <= c.lastPeerID:
		return nil, nil
	case c.err != nil:
		return nil, c.err
	}
	// Streams are numbered when they are opened, but their first frames may overtake each other. So a
	// frame also opens all streams with lower numbers.
	for c.lastPeerID < id {
		if c.accepted == transport.MaxStreams {
			return nil, fmt.Errorf("%w: more than %d bulk streams", errFrame, transport.MaxStreams)
		}
		c.lastPeerID += 2
		c.accepted++
		s := newStream(c, l, c.lastPeerID)
		c.streams[s.id] = s
		c.incoming <- s // accepted bounds them
	}
	return c.streams[id], nil
}

// releaseStream stops counting a stream of the peer towards MaxStreams.
func (c *conn) releaseStream(s *stream) {
	c.mu.Lock()
	theirs := (s.id%2 == 0) != (c.dialed != "")
	if !theirs || s.released || c.err != nil {
		c.mu.Unlock()
		return
	}
	s.released = true
	c.accepted--
	c.mu.Unlock()
	s.lane.pushControl(frameRelease, s.id, nil)
}

// released records that the peer has released a stream of this end.
func (c *conn) released(id uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unreleased[id] {
		return fmt.Errorf("%w: stream %d was released, but is not open", errFrame, id)
	}
	delete(c.unreleased, id)
	return nil
}

// forgetIfDone removes a bulk stream if both of its directions have ended.
func (c *conn) forgetIfDone(s *stream) {
	if s.id < uint32(transport.Kinds) || !s.done() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, s.id)
}

// closeGarbage ends the connection because the peer sent bytes that no node sends.
func (c *conn) closeGarbage(err error) { c.Close(transport.CodeGarbage, err.Error()) }

// Close implements transport.Conn.
func (c *conn) Close(code transport.Code, reason string) {
	reason = safetext.PeerText(reason)
	if len(reason) > maxReasonBytes {
		reason = reason[:maxReasonBytes]
	}
	if !c.end(&transport.CloseError{Code: code, Reason: reason}) {
		return
	}
	frame := appendHeader(nil, frameClose, 0, 8+len(reason))
	frame = binary.BigEndian.AppendUint64(frame, uint64(code))
	frame = append(frame, reason...)
	// Close the bulk lane last, because the peer takes the end of that lane for a lost connection.
	goodbye := func() {
		c.lanes[systemLane].sayGoodbye(frame)
		c.lanes[bulkLane].abort()
	}
	if !c.network.spawn(goodbye) {
		c.abort()
	}
}

// fail ends the connection without notifying the peer.
func (c *conn) fail(err error) {
	if c.end(err) {
		c.abort()
	}
}

func (c *conn) abort() {
	for _, l := range c.lanes {
		l.abort()
	}
}

// end fails all streams. It returns false if the connection has already ended.
func (c *conn) end(err error) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.err = err
	streams := c.streams
	c.streams = nil
	c.keepAlive.Stop()
	c.mu.Unlock()
	for _, s := range c.kinds {
		s.failRead(err)
		s.failWrite(err)
	}
	for _, s := range streams {
		s.failRead(err)
		s.failWrite(err)
	}
	close(c.over)
	c.network.forget(c)
	for _, l := range c.lanes {
		l.end(err)
	}
	return true
}

// cause returns why the connection has ended.
func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// checkAlive sends keep-alives, and ends the connection if one of its lanes receives nothing: a
// firewall may drop the state of a single lane.
func (c *conn) checkAlive() {
	c.mu.Lock()
	if c.err == nil {
		c.keepAlive.Reset(keepAlivePeriod)
	}
	c.mu.Unlock()
	for _, l := range c.lanes {
		if l.isSilent() {
			c.fail(fmt.Errorf("%w for %v", transport.ErrNoAnswer, idleTimeout))
			return
		}
		l.keepAlive()
	}
}
