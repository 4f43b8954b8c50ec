// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// tcpBuffer bounds the bytes that a connection buffers in each direction.
	tcpBuffer = 256 << 10
	// A segment is retransmitted after tcpRetry plus a round trip, or after tcpDialRetry if it opens
	// the connection. The time doubles with each retransmission, up to tcpMaxRetry. After tcpRetries
	// retransmissions without an answer, or tcpDialRetries for a dial, the connection fails.
	tcpRetry     = 200 * time.Millisecond
	tcpDialRetry = time.Second
	tcpMaxRetry  = 2 * time.Minute
	tcpRetries   = 15

	tcpDialRetries = 5
	// A segment is retransmitted early if the peer has received a later segment and a wait has passed
	// since the segment was last sent. The wait is a round trip plus the longer of tcpOrder and a
	// quarter of the round trip. Only the first early retransmission has a timer. Each further one
	// needs another segment from the peer, so that an outage does not cause many retransmissions.
	tcpOrder = time.Millisecond
)

// tcpConn is one end of a simulated TCP connection. The mutex of its host guards it.
type tcpConn struct {
	host        *TCPHost
	key         tcpKey
	to          net.Addr
	changed     sync.Cond
	established bool
	err         error
	local       bool // this end has called Close

	out       []byte // written and not acknowledged
	una, next uint64 // numbers of the first byte of out and of the first unsent byte
	limit     uint64 // the peer has room for bytes below this number
	seen      uint64 // highest number that the peer has received, in order or not
	ending    bool   // a fin is sent after out
	timer     *time.Timer
	due       time.Time // when the timer expires; zero if it is not running
	retries   int
	rtt       time.Duration
	sent      []sentSegment // segments in flight, sorted by number

	in       []byte // received in order and not yet read
	received uint64 // number of the next byte in order
	latest   uint64 // highest number received, in order or not
	early    map[uint64]segment
	ended    bool // the fin of the peer has arrived
}

// sentSegment records the last time at which a segment was sent. The segment ends before next.
type sentSegment struct {
	next  uint64
	at    time.Time
	again bool // retransmitted, so it cannot measure the round trip
}

var _ net.Conn = (*tcpConn)(nil)

func (h *TCPHost) newConn(key tcpKey, to net.Addr) *tcpConn {
	c := &tcpConn{host: h, key: key, to: to, limit: tcpBuffer, early: make(map[uint64]segment)}
	c.changed.L = &h.mu
	c.timer = time.AfterFunc(time.Hour, c.sendAgain)
	c.timer.Stop()
	h.conns[key] = c
	return c
}

// end returns the number after the last byte, or after the fin.
func (c *tcpConn) end() uint64 {
	end := c.una + uint64(len(c.out))
	if c.ending {
		end++
	}
	return end
}

// send sends a segment with the current acknowledgement.
func (c *tcpConn) send(s segment) {
	if c.key.dialed {
		s.flags |= flagDialer
	}
	s.id, s.ack, s.latest = c.key.id, c.received, c.latest
	s.window = uint32(tcpBuffer - len(c.in))
	_, _ = c.host.packets.WriteTo(s.encode(), c.to) // the segment may be lost
}

// sendFrom sends a segment of up to the given size that begins with the given number.
func (c *tcpConn) sendFrom(seq uint64, size int) (next uint64) {
	data := c.out[min(int(seq-c.una), len(c.out)):]
	data = data[:min(len(data), size)]
	s := segment{seq: seq, data: data}
	next = seq + uint64(len(data))
	if c.ending && next == c.una+uint64(len(c.out)) {
		s.flags |= flagFin
		next++
	}
	c.send(s)
	return next
}

// flush sends as much as the peer has room for.
func (c *tcpConn) flush() {
	for c.established && c.err == nil && c.next < c.end() && c.next < c.limit {
		room := int(min(c.limit-c.next, maxSegmentData))
		c.next = c.sendFrom(c.next, room)
		c.sent = append(c.sent, sentSegment{c.next, time.Now(), false})
	}
	c.armTimer()
}

// resend retransmits the first unacknowledged segment. If no segment is in flight because the peer
// has no room, resend sends one byte. The answer then contains the current room.
func (c *tcpConn) resend() {
	if len(c.sent) == 0 {
		c.sendFrom(c.una, 1)
		return
	}
	first := &c.sent[0]
	c.sendFrom(c.una, int(first.next-c.una))
	first.at, first.again = time.Now(), true
}

// hasGap reports whether the peer has received a later segment, but not the first segment in
// flight.
func (c *tcpConn) hasGap() bool { return c.seen > c.una && len(c.sent) > 0 }

// untilLost returns the time until the first segment in flight may be retransmitted early.
func (c *tcpConn) untilLost() time.Duration {
	return c.rtt + max(c.rtt/4, tcpOrder) - time.Since(c.sent[0].at)
}

// armTimer starts the timer if bytes are unacknowledged or unsent. A running timer is kept, unless
// the first early retransmission is due earlier.
func (c *tcpConn) armTimer() {
	var wait time.Duration
	switch {
	case c.err != nil || c.established && c.una == c.end():
		c.due = time.Time{}
		c.timer.Stop()
		return
	case c.hasGap() && !c.sent[0].again:
		wait = c.untilLost()
	case !c.due.IsZero():
		return
	case !c.established:
		wait = min(tcpDialRetry<<c.retries, tcpMaxRetry)
	default:
		wait = min((tcpRetry+c.rtt)<<c.retries, tcpMaxRetry)
	}
	c.due = time.Now().Add(wait)
	c.timer.Reset(wait)
}

// sendAgain is called when no acknowledgement has arrived in time. It sends one segment; the answer
// shows whether more are missing.
func (c *tcpConn) sendAgain() {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	if c.err != nil || c.due.IsZero() || time.Now().Before(c.due) {
		return // the timer was stopped or reset while this call waited for the mutex
	}
	c.due = time.Time{}
	switch {
	case c.hasGap() && !c.sent[0].again:
		c.resend() // no retry yet: the peer has answered
	case c.retries == tcpRetries, !c.established && c.retries == tcpDialRetries:
		c.fail(os.NewSyscallError("read", syscall.ETIMEDOUT))
		return
	case !c.established:
		c.send(segment{flags: flagSyn})
		c.retries++
	default:
		c.resend()
		c.retries++
	}
	c.armTimer()
}

// take handles a segment from the peer.
func (c *tcpConn) take(s segment) {
	if s.flags&flagSyn != 0 {
		c.send(segment{seq: c.next}) // the peer waits for this acknowledgement
	}
	if s.ack > c.una && s.ack <= c.end() {
		c.acknowledge(s.ack)
	}
	c.seen = max(c.seen, s.latest)
	if c.hasGap() && c.untilLost() <= 0 {
		c.due = time.Time{}
		c.resend()
	}
	c.limit = max(c.limit, s.ack+uint64(s.window))
	if s.window == 0 {
		c.retries = 0 // the peer is alive, but does not read
	}
	if len(s.data) > 0 || s.flags&flagFin != 0 {
		if c.local && len(s.data) > 0 {
			c.host.reset(c.key, c.to) // the data can no longer be read
			c.fail(net.ErrClosed)
			return
		}
		c.order(s)
		c.send(segment{seq: c.next})
	}
	c.flush()
	if c.local && c.ended && c.una == c.end() {
		c.fail(net.ErrClosed) // both directions have ended
	}
}

// acknowledge removes what the peer has received. It does not measure the round trip if a
// retransmission has filled a gap. The segments after the gap arrived long before they were
// acknowledged, so their times would double the wait at each gap.
func (c *tcpConn) acknowledge(ack uint64) {
	again := len(c.sent) > 0 && c.sent[0].again
	for len(c.sent) > 0 && c.sent[0].next <= ack {
		if !again {
			c.rtt = time.Since(c.sent[0].at)
		}
		c.sent = c.sent[1:]
	}
	n := min(int(ack-c.una), len(c.out))
	c.out = append(c.out[:0], c.out[n:]...)
	if c.ending && ack > c.una+uint64(n) {
		c.ending = false // the fin has arrived
	}
	c.una, c.next = ack, max(c.next, ack)
	c.retries, c.due = 0, time.Time{}
	c.changed.Broadcast()
}

// order collects the bytes of segments, and appends them to the input in their order.
func (c *tcpConn) order(s segment) {
	if s.seq+uint64(len(s.data)) > c.received+uint64(tcpBuffer-len(c.in)) {
		return // there is no room
	}
	c.early[s.seq] = s
	c.latest = max(c.latest, s.seq+uint64(len(s.data)))
	for moved := true; moved; {
		moved = false
		for seq, s := range c.early {
			last := seq + uint64(len(s.data))
			fin := s.flags&flagFin != 0 && !c.ended
			if seq > c.received {
				continue
			}
			delete(c.early, seq)
			if last > c.received {
				c.in = append(c.in, s.data[c.received-seq:]...)
				c.received, moved = last, true
			}
			if fin && last == c.received {
				c.ended = true
				c.received++
			}
		}
	}
	c.changed.Broadcast()
}

// fail ends the connection at this end.
func (c *tcpConn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.timer.Stop()
	delete(c.host.conns, c.key)
	c.changed.Broadcast()
}

// Read implements net.Conn.
func (c *tcpConn) Read(b []byte) (int, error) {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	for len(c.in) == 0 && !c.ended && c.err == nil && !c.local {
		c.changed.Wait()
	}
	switch {
	case c.local:
		return 0, net.ErrClosed
	case len(c.in) > 0:
		wasFull := len(c.in) > tcpBuffer-maxSegmentData
		n := copy(b, c.in)
		c.in = append(c.in[:0], c.in[n:]...)
		if wasFull && c.err == nil && len(c.in) <= tcpBuffer-maxSegmentData {
			c.send(segment{seq: c.next}) // there is room again
		}
		return n, nil
	case c.ended:
		return 0, io.EOF
	}
	return 0, c.err
}

// Write implements net.Conn.
func (c *tcpConn) Write(b []byte) (written int, err error) {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	for {
		switch {
		case c.local:
			return written, net.ErrClosed
		case c.err != nil:
			return written, c.err
		}
		n := min(len(b), tcpBuffer-len(c.out))
		c.out = append(c.out, b[:n]...)
		b, written = b[n:], written+n
		c.flush()
		if len(b) == 0 {
			return written, nil
		}
		c.changed.Wait()
	}
}

// Close implements net.Conn. Written bytes are still sent. If received bytes are unread, the peer
// gets a reset instead.
func (c *tcpConn) Close() error {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	if c.local || c.err != nil {
		c.local = true
		return nil
	}
	c.local = true
	if len(c.in) > 0 {
		c.host.reset(c.key, c.to)
		c.fail(net.ErrClosed)
		return nil
	}
	c.ending = true
	c.flush()
	c.changed.Broadcast()
	return nil
}

// LocalAddr implements net.Conn.
func (c *tcpConn) LocalAddr() net.Addr { return c.host.Addr() }

// RemoteAddr implements net.Conn.
func (c *tcpConn) RemoteAddr() net.Addr { return toTCP(c.to) }

// SetDeadline does nothing.
func (c *tcpConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (c *tcpConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (c *tcpConn) SetWriteDeadline(time.Time) error { return nil }
