// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/transport"
)

// writeFrames writes all waiting frames of a kind in one write, whenever there are any, and finally
// the end mark. It blocks while the peer does not read.
func (l *link) writeFrames(k transport.Kind) {
	for {
		l.writing[k] <- struct{}{}
		for l.flush(k) {
		}
		ended := l.ended[k]
		<-l.writing[k]
		if ended {
			return
		}
		select {
		case <-l.ready[k]:
		case <-l.done:
			return
		}
		if k != transport.System {
			// Goroutines that are about to send add their frames to the batch: with 64 requests in
			// flight, each then takes a quarter less CPU time.
			runtime.Gosched()
		}
	}
}

// writeSystem writes system frames. It closes the stream when all end marks of the peer
// have been read.
func (l *link) writeSystem() {
	l.writeFrames(transport.System)
	if !l.waitRead() {
		return
	}
	l.awaitStreams()
	if err := l.conn.Stream(transport.System).CloseWrite(); err != nil {
		l.fail(err)
	}
}

// flush writes the waiting frames. It returns false if there are none or the write fails.
// writing must be held.
func (l *link) flush(k transport.Kind) bool {
	if l.ended[k] || !l.takeBatch(k) {
		return false
	}
	var stuck *time.Timer
	if k == transport.System || l.peer.addr.IsObserver() {
		stuck = time.AfterFunc(writeTimeout, func() {
			err := fmt.Errorf("transport: %s does not read", l.peer.addr)
			l.end(transport.CodeTimeout, "the peer does not read", err)
		})
	}
	_, err := l.conn.Stream(k).Write(l.batch[k].bytes)
	if stuck != nil {
		stuck.Stop()
	}
	l.finishBatch(k, err)
	return err == nil
}

// tryFlush writes the waiting frames if it can do so without blocking. This avoids waking the
// writer. It returns false if the caller must wake the writer.
func (l *link) tryFlush(k transport.Kind) bool {
	select {
	case l.writing[k] <- struct{}{}:
	default:
		return false // the holder of the lock may already have taken its batch
	}
	defer func() { <-l.writing[k] }()
	if l.ended[k] || !l.takeBatch(k) {
		return true
	}
	// The writer receives the same error. Handling the error here could block.
	done, err := l.conn.Stream(k).TryWrite(l.batch[k].bytes)
	if !done || err != nil {
		return false
	}
	l.finishBatch(k, nil)
	return !l.ended[k]
}

// takeBatch makes a batch of the waiting frames unless an earlier batch is still unwritten. It
// returns false if there is nothing to write. writing must be held.
func (l *link) takeBatch(k transport.Kind) bool {
	b := &l.batch[k]
	if len(b.bytes) > 0 {
		return true
	}
	heard := uint64(0)
	if k == transport.System {
		if heard = l.conn.Heard(); l.silence.lasts(heard, l.peer) {
			return false
		}
	}
	*b = l.peer.takeFrames(l, k, b.bytes)
	b.heard = heard
	return len(b.bytes) > 0
}

// finishBatch counts a batch that was written, or fails the link. writing must be held.
func (l *link) finishBatch(k transport.Kind, err error) {
	b, m := &l.batch[k], l.peer.mesh
	if err != nil {
		l.ended[k] = true
		if k != transport.System {
			m.stats.countDrop(DropLost, b.frames)
		}
		l.fail(err)
		return
	}
	m.stats.sent[k].add(b.frames, b.payload)
	l.ended[k] = b.last
	if k == transport.System && !b.last {
		l.peer.setSilent(l, l.silence.wrote(time.Now(), b.heard, m.silence))
	}
	limit := 2 * pendingBytes
	if l.isObserved() {
		limit = observerBufferBytes
	}
	*b = batch{bytes: b.reuseMemory(limit)}
}

// silence detects that a peer does not answer.
type silence struct {
	heard atomic.Uint64 // Conn.Heard before the last write
	since time.Time     // time of the first write with this value of heard
}

// wrote records a write. It returns true if an earlier write is older than the limit and nothing
// has arrived since. heard is the value of Conn.Heard before the write: the answer to a write may
// arrive before this node records the write.
func (s *silence) wrote(now time.Time, heard uint64, limit time.Duration) bool {
	if s.heard.Swap(heard) != heard || s.since.IsZero() {
		s.since = now
	}
	return now.Sub(s.since) > limit
}

// lasts reports whether the peer is still silent. Frames written to a silent connection would
// accumulate, and all arrive late.
func (s *silence) lasts(heard uint64, p *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur != nil && p.cur.silent && !p.leaving && heard == s.heard.Load()
}

// staysSilent reports whether the peer is silent on the link and nothing has arrived on it since.
// The peer's mutex must be held.
func (l *link) staysSilent() bool { return l.silent && l.conn.Heard() == l.silence.heard.Load() }
