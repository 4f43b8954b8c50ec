// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// readSystem delivers system frames, and after the end mark waits for the end of the stream.
func (l *link) readSystem() {
	if l.deliverSystem() {
		l.awaitEnd()
		l.reader.release()
	}
}

// deliverSystem delivers system frames until the end mark. It returns false if the link has ended
// before.
func (l *link) deliverSystem() bool {
	defer l.read[transport.System].release()
	if !l.waitTurn(transport.System) {
		return false
	}
	ok := l.deliverFrames(transport.System, l.reader, l.systemHandler())
	if !ok {
		l.reader.release()
	}
	return ok
}

// awaitEnd waits for the end of the stream of system frames, which shows that the peer has received
// everything written on this link.
func (l *link) awaitEnd() {
	if _, err := l.reader.next(); !errors.Is(err, io.EOF) {
		if err == nil || errors.Is(err, errEndMark) {
			err = fmt.Errorf("%w: frame after an end mark", errGarbage)
		}
		l.fail(err)
		return
	}
	if l.isLeaving() || !l.waitRead() {
		l.end(transport.CodeClosed, shutdownReason, nil)
		return
	}
	l.awaitStreams()
	l.setLeft()
	l.end(transport.CodeLeft, "left", nil)
}

// readFlow delivers the frames of a kind other than System.
func (l *link) readFlow(k transport.Kind) {
	defer l.read[k].release()
	if !l.waitTurn(k) {
		return
	}
	reader := newFrameReader(l.conn.Stream(k), l.peer.mesh.cfg.CustomBytes)
	if l.isObserved() {
		reader.buffered = bufio.NewReaderSize(l.conn.Stream(k), observerBufferBytes)
	}
	reader.lends, reader.link = true, l
	defer reader.release()
	l.deliverFrames(k, reader, func(from member.Identity, frame []byte) error {
		return l.peer.mesh.handler.Custom(k, from, frame)
	})
}

// deliverFunc is the Handler method for one kind of frames.
type deliverFunc func(from member.Identity, frame []byte) error

// deliverFrames delivers frames until the end mark, and then starts to leave the link. If the
// stream ends in any other way, deliverFrames ends the link and returns false.
func (l *link) deliverFrames(k transport.Kind, r *frameReader, deliver deliverFunc) bool {
	received := &l.peer.mesh.stats.received[k]
	for {
		frame, err := r.next()
		switch {
		case errors.Is(err, errEndMark):
			l.onEndMark()
			return true
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("%w: stream ended without an end mark", errGarbage)
		case err == nil:
			received.add(1, len(frame))
			if err = deliver(l.who, frame); err == nil {
				if !l.used.Load() {
					l.used.Store(true)
				}
				continue
			}
			err = fmt.Errorf("%w: %w", errGarbage, err)
		}
		l.fail(err)
		return false
	}
}

// onEndMark leaves the link because the peer is leaving it.
func (l *link) onEndMark() {
	p := l.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.over && !p.leaving {
		p.drainLink(l)
		p.wakeOrDial(transport.System)
	}
}

func (l *link) setLeft() {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	l.left = true
}

func (l *link) isLeaving() bool {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	return l.peer.leaving
}
