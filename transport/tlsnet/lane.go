// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"bufio"
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

const (
	// maxPending bounds what writers leave for a lane that is busy. Writers wait while more
	// is pending, so a lane holds at most this and one frame of each stream.
	maxPending = 128 << 10
	// readBytes is the buffer between TLS and the streams: two TLS records.
	readBytes = 32 << 10
)

// writer is who writes what is pending on a lane.
type writer uint8

const (
	noWriter   writer = iota
	pushWriter        // the goroutine that found the lane idle
	loopWriter        // writeLoop, which was woken
)

// lane is one TCP connection of a pair. Frames are appended to pending by any goroutine.
// The goroutine that finds the lane idle writes them itself, which saves waking another one;
// what is appended meanwhile, or what the kernel does not take, is written by writeLoop.
type lane struct {
	conn *conn
	id   int

	mu       sync.Mutex
	room     sync.Cond // signaled when pending gets shorter, or a stream or the lane ends
	tls      tlsConn   // zero until the lane is connected
	pending  []byte
	spare    []byte
	writer   writer
	err      error
	lastSent time.Time
	checked  uint64 // what heard was at the last check
	silent   int    // checks in a row at which nothing had been heard
	ackDue   bool   // the peer waits for a sign of life

	heard    atomic.Uint64 // frames of the peer, and the pieces in which they arrived
	attached chan struct{} // closed when the lane has its connection
	wake     chan struct{} // wakes writeLoop
	written  chan struct{} // closed when writeLoop has returned
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

// attach gives the lane its TCP connection and starts to read and write. It returns false
// if the lane has one already or has failed.
func (l *lane) attach(t tlsConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn != nil || l.err != nil {
		return false
	}
	t.socket.startDirect()
	l.tls = t
	close(l.attached)
	l.conn.network.work.Go(l.writeLoop)
	l.conn.network.work.Go(l.readLoop)
	l.handOver()
	return true
}

// push sends a frame, of a stream if s is not nil. If wait is false and the lane is behind,
// it sends nothing and returns false. If wait is true it blocks until there is room.
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

// seal sends the last frame of what this end writes on a stream.
func (l *lane) seal(t frameType, s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.sealed {
		s.sealed = true
		l.room.Broadcast()         // its writer need not wait any longer
		_ = l.append(t, s.id, nil) // the stream gets the same error
	}
}

// stop sends nothing more on a stream that the peer no longer reads.
func (l *lane) stop(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.sealed = true
	l.room.Broadcast()
}

// pushControl sends a frame without waiting for room. Its callers send a bounded number: a
// few for each stream, and those of the connection.
func (l *lane) pushControl(t frameType, stream uint32, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.append(t, stream, payload) // its streams get the same error
}

// append adds a frame, and writes if no one else does. Frames that did not wait for room end
// the connection if the peer does not read them. l.mu must be held.
func (l *lane) append(t frameType, stream uint32, payload []byte) error {
	if l.err == nil && len(l.pending) > 4*maxPending {
		l.fail(errNotRead)
	}
	if l.err != nil {
		return l.err
	}
	l.pending = appendHeader(l.pending, t, stream, len(payload))
	l.pending = append(l.pending, payload...)
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

// handOver makes writeLoop the writer if there is more to write. l.mu must be held, and there
// be no other writer.
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

// flush gives what is pending to TLS. l.mu must be held, and the caller be the
// writer; l.mu is released meanwhile.
func (l *lane) flush() {
	b := l.pending
	l.pending, l.spare = l.spare[:0], nil
	l.mu.Unlock()
	_, err := l.tls.Write(b)
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

// fail ends the connection because of an error of the lane. l.mu must be held; it is
// released meanwhile.
func (l *lane) fail(err error) {
	l.mu.Unlock()
	l.conn.fail(lostError(err))
	l.mu.Lock()
}

// writeLoop writes what others left, until the lane fails.
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
	t := l.tls // it is not set after end
	l.mu.Unlock()
	if t.Conn != nil {
		_ = t.socket.Close() // nothing can be done about an error
	}
}

// sayGoodbye sends a last frame and closes the TCP connection of a lane that has ended. Before
// it closes, it reads until the peer does, for closeTimeout at most: if this end closed with
// bytes unread, the kernel would reset the connection and the peer might lose the frame.
func (l *lane) sayGoodbye(frame []byte) {
	l.conn.network.closeAfter(l.tls.socket, func() error {
		<-l.written
		if _, err := l.tls.Write(frame); err != nil {
			return err
		}
		return l.tls.socket.drain()
	})
}

// closeAfter runs f and closes a TCP connection once the peer does, after closeTimeout at most.
func (n *network) closeAfter(s *socket, f func() error) {
	abort := func() { _ = s.Close() } // nothing can be done about an error
	defer abort()
	defer time.AfterFunc(closeTimeout, abort).Stop()
	defer context.AfterFunc(n.last, abort)()
	if f() == nil {
		_, _ = io.Copy(io.Discard, s) // until the peer closes
	}
}

// rtt returns the round-trip time, 0 if it is unknown.
func (l *lane) rtt() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn == nil {
		return 0
	}
	return roundTrip(l.tls.socket.Conn)
}

// remote returns the address of the peer's end of the lane, nil if it is not connected.
func (l *lane) remote() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn == nil {
		return nil
	}
	return l.tls.socket.RemoteAddr()
}

// isSilent is called once each keepAlivePeriod and reports whether the lane has heard nothing
// for idleTimeout.
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

// keepAlive sends a sign of life if nothing was sent for a while.
func (l *lane) keepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tls.Conn != nil && time.Since(l.lastSent) >= keepAlivePeriod/2 {
		_ = l.append(frameAlive, 0, nil) // a failed lane has nothing to keep
	}
}

// readLoop reads frames and hands them to their streams. It never waits for a stream to be
// read, because flow control bounds what each holds.
func (l *lane) readLoop() {
	r := bufio.NewReaderSize(l.tls.Conn, readBytes)
	for {
		err := l.readFrame(r)
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

func (l *lane) readFrame(r *bufio.Reader) error {
	b, err := r.Peek(headerBytes)
	if err != nil {
		return err
	}
	h, err := parseHeader(b)
	if err != nil {
		return err
	}
	_, _ = r.Discard(headerBytes) // they are buffered
	l.heard.Add(1)
	if h.kind == frameData {
		return l.readData(r, h)
	}
	payload := make([]byte, h.length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return err
	}
	return l.conn.handle(l, h, payload)
}

// readData hands the payload of a data frame to its stream, piece by piece as it arrives.
func (l *lane) readData(r *bufio.Reader, h header) error {
	s, err := l.conn.receiving(l, h.stream)
	if err != nil {
		return err
	}
	for left := h.length; left > 0; {
		if r.Buffered() == 0 {
			if _, err := r.Peek(1); err != nil {
				return err
			}
		}
		b, _ := r.Peek(min(left, r.Buffered())) // they are buffered
		if s != nil {
			if err := s.deliver(b); err != nil {
				return err
			}
		}
		left -= len(b)
		_, _ = r.Discard(len(b))
		l.heard.Add(1)
		if l.id == systemLane {
			l.oweAck()
		}
	}
	return nil
}

// oweAck makes sure that the peer soon hears something, as it does from QUIC. The Mesh
// replaces a connection on which nothing follows what it wrote.
func (l *lane) oweAck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ackDue && l.err == nil {
		l.ackDue = true
		l.ack.Reset(ackDelay)
	}
}

// sendAck sends a sign of life unless something was sent since it became due.
func (l *lane) sendAck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ackDue {
		_ = l.append(frameAlive, 0, nil) // a failed lane has nothing to acknowledge
	}
}
