// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/athena-go/athena/transport"
)

const (
	// streamWindow is how many unread bytes a stream may hold at first. The window doubles, up to
	// maxStreamWindow or maxFrameWindow, each time half of it was read. It starts small because a
	// hostile peer can fill it on every unread stream. At maxStreamWindow, a stream carries 25 MB/s if
	// the round trip takes 10 ms.
	streamWindow    = 32 << 10
	maxStreamWindow = 256 << 10
	// maxFrameWindow is larger than maxStreamWindow, because each renewal wakes both ends: with 256
	// KiB, frames of 64 KiB took a quarter more CPU time.
	maxFrameWindow = 1 << 20
	// maxTurn is how much a stream sends before the other streams of its lane take their turns.
	maxTurn = 2 * sentPayload
)

// stream is one stream in both directions: one of the kinds of frames, or a bulk stream.
// It implements transport.FrameStream and transport.RawStream.
type stream struct {
	conn *conn
	lane *lane
	id   uint32

	writing sync.Mutex // held by Write, so that concurrent writes are not interleaved

	mu       sync.Mutex
	changed  sync.Cond
	credit   int // bytes that the peer has room for
	ended    bool
	writeErr error

	received  backlog
	window    int
	used      int // read since the window was last renewed
	remaining int // bytes that the peer may still send
	peerEnded bool
	readErr   error

	sealed   bool // this end sends nothing more; guarded by lane.mu
	released bool // for accepted bulk streams; guarded by conn.mu
}

func newStream(c *conn, l *lane, id uint32) *stream {
	s := &stream{
		conn: c, lane: l, id: id,
		credit: streamWindow, window: streamWindow, remaining: streamWindow,
	}
	s.changed.L = &s.mu
	return s
}

// Write implements io.Writer. It blocks while the peer does not read or too much is pending on the
// lane.
func (s *stream) Write(p []byte) (written int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for len(p) > 0 {
		n, err := s.takeCredit(min(len(p), maxTurn), true)
		if err != nil {
			return written, err
		}
		if _, err := s.lane.push(frameData, s, p[:n], true); err != nil {
			return written, s.whyEnded(err)
		}
		p, written = p[n:], written+n
	}
	return written, nil
}

// TryWrite implements transport.FrameStream.
func (s *stream) TryWrite(p []byte) (bool, error) {
	if len(p) > maxTurn || !s.writing.TryLock() {
		return false, nil
	}
	defer s.writing.Unlock()
	n, err := s.takeCredit(len(p), false)
	if n == 0 || err != nil {
		return false, err
	}
	sent, err := s.lane.push(frameData, s, p, false)
	if !sent {
		s.addCredit(n)
	}
	return sent && err == nil, err
}

// takeCredit reserves the right to send up to n bytes. If wait is true, it waits until it can
// return at least 1; otherwise it returns n or 0.
func (s *stream) takeCredit(n int, wait bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.writeErr != nil:
			return 0, s.writeErr
		case s.ended:
			return 0, transport.ErrStreamClosed
		case wait && s.credit > 0:
			n = min(n, s.credit)
			fallthrough
		case s.credit >= n:
			s.credit -= n
			return n, nil
		case !wait:
			return 0, nil
		}
		s.changed.Wait()
	}
}

func (s *stream) addCredit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit += n
	s.changed.Broadcast()
}

// maxCredit bounds the credit of a stream. A peer that follows the protocol never grants more.
const maxCredit = 1 << 30

// renew handles a window frame from the peer.
func (s *stream) renew(payload []byte) error {
	n := binary.BigEndian.Uint32(payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > maxCredit || s.credit+int(n) > maxCredit {
		return fmt.Errorf("%w: invalid window of %d bytes", errFrame, n)
	}
	s.credit += int(n)
	s.changed.Broadcast()
	return nil
}

// CloseWrite implements transport.FrameStream and transport.RawStream.
func (s *stream) CloseWrite() error {
	s.mu.Lock()
	err, ended := s.writeErr, s.ended
	if err == nil {
		s.ended = true
		s.changed.Broadcast()
	}
	s.mu.Unlock()
	if err != nil || ended {
		return err
	}
	s.lane.seal(frameEnd, s)
	s.conn.forgetIfDone(s)
	return nil
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	for s.readErr == nil && s.received.empty() && !s.peerEnded {
		s.changed.Wait()
	}
	switch {
	case s.readErr != nil:
		defer s.mu.Unlock()
		return 0, s.readErr
	case s.received.empty():
		s.mu.Unlock()
		s.conn.forgetIfDone(s)
		return 0, io.EOF
	}
	n := s.received.read(p)
	credit := s.renewal(n)
	s.mu.Unlock()
	if credit > 0 {
		s.lane.pushControl(frameWindow, s.id, binary.BigEndian.AppendUint32(nil, uint32(credit)))
	}
	return n, nil
}

// renewal counts n bytes as read and returns by how much the peer's credit grows: 0 until half of
// the window has been read. s.mu must be held.
func (s *stream) renewal(n int) int {
	s.used += n
	if s.used < s.window/2 || s.peerEnded {
		return 0
	}
	credit := s.used
	most := maxStreamWindow
	if s.id < uint32(transport.Kinds) {
		most = maxFrameWindow
	}
	if grown := min(2*s.window, most); grown > s.window {
		credit += grown - s.window
		s.window = grown
	}
	s.used = 0
	s.remaining += credit
	return credit
}

// receive reads at most limit bytes from r, without waking the reader of the stream. It returns an
// error if the peer sent more than the window allows, which no node does.
func (s *stream) receive(r io.Reader, limit int) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.received.reserveSpace(limit)
	s.mu.Unlock()
	n, err = r.Read(room)
	s.mu.Lock()
	s.remaining -= n
	switch {
	case s.remaining < 0:
		return n, fmt.Errorf("%w: stream %d: data beyond its window", errFrame, s.id)
	case s.peerEnded:
		return n, fmt.Errorf("%w: stream %d: data after its end", errFrame, s.id)
	case s.readErr != nil: // the data will not be read
		s.received = backlog{}
	default:
		s.received.commitBytes(n)
	}
	return n, err
}

// wakeReaders wakes the readers of the streams that have received something. It is called before
// the next read of the socket, which may wait, and not for each record: a reader that is woken for
// a part of a frame would have to wait again.
func (l *lane) wakeReaders() {
	for _, s := range l.unread {
		s.changed.Broadcast()
	}
	clear(l.unread)
	l.unread = l.unread[:0]
}

// endRead records that the peer has written everything.
func (s *stream) endRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peerEnded = true
	s.changed.Broadcast()
}

// failRead ends the stream for its reader, unless it has already ended.
func (s *stream) failRead(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readErr == nil {
		s.readErr = err
		s.received = backlog{}
	}
	s.changed.Broadcast()
}

// failWrite ends the stream for its writer, unless it has already ended.
func (s *stream) failWrite(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr == nil {
		s.writeErr = err
	}
	s.changed.Broadcast()
}

// whyEnded returns why a write failed: the reason why the stream has ended, or else err.
func (s *stream) whyEnded(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.writeErr, err)
}

// Cancel implements transport.RawStream.
func (s *stream) Cancel() {
	s.mu.Lock()
	reset := !s.ended && s.writeErr == nil
	stop := !s.peerEnded && s.readErr == nil
	s.mu.Unlock()
	s.failWrite(transport.ErrStreamClosed)
	s.failRead(transport.ErrStreamClosed)
	if reset {
		s.lane.seal(frameReset, s)
	}
	if stop {
		s.lane.pushControl(frameStop, s.id, nil)
	}
	s.conn.forgetIfDone(s)
}

// Release implements transport.RawStream.
func (s *stream) Release() { s.conn.releaseStream(s) }

// done reports whether both directions have ended, so that further frames of the stream can be
// ignored.
func (s *stream) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrote := s.ended || s.writeErr != nil
	read := s.readErr != nil || s.peerEnded && s.received.empty()
	return wrote && read
}
