// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/transport"
)

// write writes what waits of a kind, everything at once, and at the end the end
// mark. It blocks while the peer does not read.
func (l *link) write(k transport.Kind) {
	for {
		l.writing[k] <- struct{}{}
		for l.flush(k) {
		}
		ended := l.ended[k]
		<-l.writing[k]
		if ended || !l.waitReady(k) {
			return
		}
	}
}

// writeSystem is write for system frames. It closes the stream when all end marks
// of the peer were read.
func (l *link) writeSystem() {
	l.write(transport.System)
	if !l.waitRead() {
		return
	}
	l.awaitStreams()
	if err := l.conn.Stream(transport.System).CloseWrite(); err != nil {
		l.broken(err)
	}
}

// flush writes what waits; false when that is nothing. The caller holds writing.
func (l *link) flush(k transport.Kind) bool {
	if l.ended[k] || !l.take(k) {
		return false
	}
	var stuck *time.Timer
	if k == transport.System {
		stuck = time.AfterFunc(writeTimeout, func() {
			err := fmt.Errorf("transport: %s does not read", l.peer.addr)
			l.end(transport.CodeTimeout, "the peer does not read", err)
		})
	}
	_, err := l.conn.Stream(k).Write(l.batch[k].bytes)
	if stuck != nil {
		stuck.Stop()
	}
	l.wrote(k, err)
	return err == nil
}

// tryFlush writes what waits where that needs no waiting, and saves the way to the
// goroutine that writes; false where that one has to.
func (l *link) tryFlush(k transport.Kind) bool {
	select {
	case l.writing[k] <- struct{}{}:
	default:
		return false // who writes may have seen that nothing waits
	}
	defer func() { <-l.writing[k] }()
	if l.ended[k] || !l.take(k) {
		return true
	}
	// An error is found again by the one that writes, whose time it may take.
	done, err := l.conn.Stream(k).TryWrite(l.batch[k].bytes)
	if !done || err != nil {
		return false
	}
	l.wrote(k, nil)
	return !l.ended[k]
}

// take gathers what waits, unless there is a batch yet to be written; false when
// there is nothing. The caller holds writing.
func (l *link) take(k transport.Kind) bool {
	b := &l.batch[k]
	switch {
	case len(b.bytes) > 0:
	case k != transport.System:
		*b = l.peer.takeFlow(l, k, b.bytes)
	case !l.silence.lasts(l.conn.Heard(), l.peer):
		*b = l.peer.takeSystem(l, b.bytes)
	}
	return len(b.bytes) > 0
}

// wrote notes what became of a batch. The caller holds writing.
func (l *link) wrote(k transport.Kind, err error) {
	b, m := &l.batch[k], l.peer.mesh
	if err != nil {
		l.ended[k] = true
		if k != transport.System {
			m.stats.countDrop(DropLost, b.frames)
		}
		l.broken(err)
		return
	}
	m.stats.sent[k].add(b.frames, b.payload)
	l.ended[k] = b.last
	if k == transport.System && !b.last {
		l.peer.setSilent(l, l.silence.wrote(time.Now(), l.conn.Heard(), m.silence))
	}
	*b = batch{bytes: b.spare()}
}

// silence watches whether a peer answers at all.
type silence struct {
	heard uint64    // by the connection, at the last write
	since time.Time // of the first write that nothing followed
}

// wrote notes a write and reports whether nothing was heard since one that is
// longer ago than the limit.
func (s *silence) wrote(now time.Time, heard uint64, limit time.Duration) bool {
	if heard != s.heard || s.since.IsZero() {
		s.heard, s.since = heard, now
	}
	return now.Sub(s.since) > limit
}

// lasts reports whether a connection is silent still. What is written on it would
// pile up, and arrive all at once and late.
func (s *silence) lasts(heard uint64, p *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur != nil && p.cur.silent && !p.leaving && heard == s.heard
}

// waitReady waits until there may be something to write; false when the link is
// over.
func (l *link) waitReady(k transport.Kind) bool {
	select {
	case <-l.ready[k]:
		return true
	case <-l.done:
		return false
	}
}
