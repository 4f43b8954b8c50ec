// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/transport"
)

// The lanes of a connection.
const (
	systemLane = iota
	bulkLane
	lanes
)

// maxPending bounds the pending bytes of a busy lane. Writers wait while more is pending, so a
// lane holds at most maxPending and maxTurn of each stream.
const maxPending = 128 << 10

// writer identifies the goroutine that writes the pending frames of a lane.
type writer uint8

const (
	noWriter   writer = iota
	pushWriter        // the goroutine that found the lane idle
	loopWriter        // writeLoop, which was woken
)

// lane is one of the TCP connections between two nodes. Any goroutine may append frames to pending.
// If it finds the lane idle, it also writes them, which saves waking another goroutine. Otherwise,
// or if the kernel has no room, writeLoop writes them.
type lane struct {
	conn *conn
	id   int

	mu       sync.Mutex
	room     sync.Cond // signaled when pending shrinks, or when a stream or the lane ends
	tls      tlsConn   // zero until the lane is connected
	pending  []byte
	spare    []byte
	writer   writer
	err      error
	lastSent time.Time
	checked  uint64 // value of heard at the last check
	silent   int    // consecutive checks that found nothing new in heard
	ackDue   bool   // the peer waits for a keep-alive

	header   [headerBytes]byte // for readLoop
	heard    atomic.Uint64     // counts frames from the peer, and the pieces of data frames
	unread   []*stream         // have received something since the last wakeReaders; for readLoop
	attached chan struct{}     // closed when the lane has its connection
	wake     chan struct{}     // wakes writeLoop
	written  chan struct{}     // closed when writeLoop has returned
	ack      *time.Timer
}

func newLane(c *conn, id int) *lane {
	l := &lane{
		conn: c, id: id,
		attached: make(chan struct{}), wake: make(chan struct{}, 1), written: make(chan struct{}),
	}
	l.room.L = &l.mu
	l.ack = time.AfterFunc(time.Hour, l.sendAck)
	l.ack.Stop()
	return l
}

// attach gives the lane its TCP connection and starts to read and write. It returns false if the
// lane already has a connection or has failed.
func (l *lane) attach(t tlsConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn != nil || l.err != nil {
		return false
	}
	t.socket.startDirect()
	t.socket.beforeRead = l.wakeReaders
	l.tls = t
	close(l.attached)
	l.conn.network.work.Go(l.writeLoop)
	l.conn.network.work.Go(l.readLoop)
	l.handOver()
	return true
}

// push sends a frame, which belongs to stream s unless s is nil. While too much is pending, push
// blocks if wait is true; otherwise it sends nothing and returns false.
func (l *lane) push(t frameType, s *stream, payload []byte, wait bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && len(l.pending) > maxPending && (s == nil || !s.sealed) {
		if !wait {
			return false, nil
		}
		l.room.Wait()
	}
	if s == nil {
		return true, l.append(t, 0, payload)
	}
	if s.sealed {
		return false, transport.ErrStreamClosed
	}
	return true, l.append(t, s.id, payload)
}

// seal sends the last frame that this end writes on a stream.
func (l *lane) seal(t frameType, s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.sealed {
		s.sealed = true
		l.room.Broadcast()         // a blocked Write of the stream returns
		_ = l.append(t, s.id, nil) // the error has ended the stream too
	}
}

// stop makes this end send nothing more on a stream, because the peer no longer reads it.
func (l *lane) stop(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.sealed = true
	l.room.Broadcast()
}

// pushControl sends a frame without waiting for room. Its callers send a bounded number of frames:
// a few for each stream and for the connection.
func (l *lane) pushControl(t frameType, stream uint32, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.append(t, stream, payload) // the error has ended the streams too
}

// append adds a frame, and writes it unless another goroutine is writing. If too many of the frames
// that need not wait for room are pending, the peer does not read, and append ends the connection.
// l.mu must be held.
func (l *lane) append(t frameType, stream uint32, payload []byte) error {
	if l.err == nil && len(l.pending) > 4*maxPending {
		l.fail(errNotRead)
	}
	if l.err != nil {
		return l.err
	}
	for {
		n := min(len(payload), sentPayload)
		l.pending = appendHeader(l.pending, t, stream, n)
		l.pending = append(l.pending, payload[:n]...)
		if payload = payload[n:]; len(payload) == 0 {
			break
		}
	}
	l.ackDue = false
	switch {
	case l.tls.Conn == nil:
		l.conn.needLane()
	case l.writer == noWriter && l.tls.socket.direct():
		l.writer = pushWriter
		l.flush()
		l.handOver()
	case l.writer == noWriter:
		l.handOver()
	}
	return nil
}

// handOver makes writeLoop the writer if there is more to write. l.mu must be held, and no other
// goroutine may be writing.
func (l *lane) handOver() {
	l.writer = noWriter
	if l.err != nil || len(l.pending) == 0 && !l.tls.socket.behind() {
		return
	}
	l.writer = loopWriter
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// flush writes the pending frames to TLS. l.mu must be held, and the caller must be the writer;
// flush releases l.mu while it writes.
func (l *lane) flush() {
	b := l.pending
	l.pending, l.spare = l.spare[:0], nil
	l.mu.Unlock()
	err := l.tls.writeRecords(b)
	l.mu.Lock()
	l.lastSent = time.Now()
	if cap(b) <= 2*maxPending {
		l.spare = b[:0]
	}
	l.room.Broadcast()
	if err != nil {
		l.fail(err)
	}
}

// fail ends the connection because of an error of the lane. l.mu must be held; fail releases it
// temporarily.
func (l *lane) fail(err error) {
	l.mu.Unlock()
	l.conn.fail(lostError(err))
	l.mu.Lock()
}

// writeLoop writes what other goroutines have left, until the lane fails.
func (l *lane) writeLoop() {
	defer close(l.written)
	for range l.wake {
		l.mu.Lock()
		for l.writer == loopWriter && l.err == nil {
			l.mu.Unlock()
			err := l.tls.socket.drain()
			l.mu.Lock()
			if err != nil {
				l.fail(err)
				break
			}
			if len(l.pending) == 0 {
				l.writer = noWriter
				break
			}
			l.flush()
		}
		over := l.err != nil
		l.mu.Unlock()
		if over {
			return
		}
	}
}

// end fails the lane for its writers and wakes writeLoop, which returns.
func (l *lane) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	l.pending, l.spare = nil, nil // the Mesh keeps the connection to probe its host
	l.ack.Stop()
	l.room.Broadcast()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// abort closes the TCP connection.
func (l *lane) abort() {
	l.mu.Lock()
	t := l.tls // end was called, so it no longer changes
	l.mu.Unlock()
	if t.Conn != nil {
		_ = t.socket.Close() // an error would change nothing
	}
}

// sayGoodbye sends a last frame and closes the TCP connection of a lane that has ended. Before it
// closes, it reads until the peer closes, but not longer than closeTimeout. If this end closed
// while bytes are unread, the kernel would reset the connection, and the peer might lose the frame.
func (l *lane) sayGoodbye(frame []byte) {
	l.conn.network.closeAfter(l.tls.socket, func() error {
		<-l.written
		if _, err := l.tls.Write(frame); err != nil {
			return err
		}
		return l.tls.socket.drain()
	})
}

// closeAfter runs f, and closes a TCP connection when the peer does or closeTimeout has passed.
func (n *network) closeAfter(s *socket, f func() error) {
	abort := func() { _ = s.Close() } // an error would change nothing
	defer abort()
	defer time.AfterFunc(closeTimeout, abort).Stop()
	defer context.AfterFunc(n.last, abort)()
	if f() == nil {
		_, _ = io.Copy(io.Discard, s.Conn) // wait until the peer closes; readLoop may still read, too
	}
}

// rtt returns the round-trip time, or 0 if it is unknown.
func (l *lane) rtt() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn == nil {
		return 0
	}
	return roundTrip(l.tls.socket.Conn)
}

// remote returns the address of the peer's end of the lane, or nil if the lane is not connected.
func (l *lane) remote() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn == nil {
		return nil
	}
	return l.tls.socket.RemoteAddr()
}

// isSilent is called every keepAlivePeriod. It reports whether the lane has received nothing for
// idleTimeout.
func (l *lane) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard.Load()
	if l.tls.Conn == nil || heard != l.checked {
		l.checked, l.silent = heard, 0
		return false
	}
	l.silent++
	return l.silent >= silentChecks
}

// keepAlive sends a keep-alive if nothing was sent for a while.
func (l *lane) keepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn != nil && time.Since(l.lastSent) >= keepAlivePeriod/2 {
		_ = l.append(frameAlive, 0, nil) // a failed lane needs no keep-alive
	}
}

// readLoop reads frames and passes them to their streams. It never waits for the readers of
// streams, because flow control bounds what each stream holds.
func (l *lane) readLoop() {
	for {
		err := l.readFrame()
		if err == nil {
			continue
		}
		if errors.Is(err, errFrame) {
			l.conn.closeGarbage(err)
		} else {
			l.conn.fail(lostError(err))
		}
		return
	}
}

// lostError describes why a lane ended without a close frame.
func lostError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errLost
	}
	return fmt.Errorf("%w: %w", errLost, translate(err))
}

var (
	errLost    = errors.New("tlsnet: connection lost")
	errNotRead = errors.New("tlsnet: the peer does not read")
)

func (l *lane) readFrame() error {
	if _, err := io.ReadFull(l.tls, l.header[:]); err != nil {
		return err
	}
	h, err := parseHeader(l.header[:])
	if err != nil {
		return err
	}
	l.heard.Add(1)
	if h.kind == frameData {
		return l.readData(h)
	}
	payload := make([]byte, h.length)
	if _, err := io.ReadFull(l.tls, payload); err != nil {
		return err
	}
	return l.conn.handle(l, h, payload)
}

// readData passes the payload of a data frame to its stream piece by piece, as it arrives.
func (l *lane) readData(h header) error {
	s, err := l.conn.receiving(l, h.stream)
	if err != nil {
		return err
	}
	if s == nil { // the stream has ended
		_, err := io.CopyN(io.Discard, l.tls, int64(h.length))
		return err
	}
	for left := h.length; left > 0; {
		n, err := s.receive(l.tls, left)
		if err != nil {
			return err
		}
		if n := len(l.unread); n == 0 || l.unread[n-1] != s {
			l.unread = append(l.unread, s)
		}
		left -= n
		l.heard.Add(1)
		if l.id == systemLane {
			l.oweAck()
		}
	}
	return nil
}

// oweAck makes sure that something is sent to the peer soon, as QUIC does with acknowledgements.
// The Mesh replaces a connection if it gets nothing back after it has written a frame.
func (l *lane) oweAck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ackDue && l.err == nil {
		l.ackDue = true
		l.ack.Reset(ackDelay)
	}
}

// sendAck sends a keep-alive unless another frame was sent since it became due.
func (l *lane) sendAck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ackDue {
		_ = l.append(frameAlive, 0, nil) // a failed lane needs no keep-alive
	}
}
