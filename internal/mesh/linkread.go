// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"fmt"
	"io"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// readSystem hands over system frames. After the end mark it waits for the end
// of the stream: then the peer has everything that was written on this link.
func (l *link) readSystem() {
	defer l.read[transport.System].release()
	if !l.waitTurn(transport.System) {
		return
	}
	defer l.reader.release()
	m := l.peer.mesh
	err := l.deliverFrames(transport.System, l.reader, m.handler.System)
	if !errors.Is(err, errEndMark) {
		l.broken(err)
		return
	}
	l.read[transport.System].release()
	l.marked()
	if _, err := l.reader.next(); !errors.Is(err, io.EOF) {
		if err == nil || errors.Is(err, errEndMark) {
			err = fmt.Errorf("%w: frame after an end mark", errGarbage)
		}
		l.broken(err)
		return
	}
	if l.isLeaving() || !l.waitRead() {
		l.end(transport.CodeClosed, goes, nil)
		return
	}
	l.awaitStreams()
	l.setLeft()
	l.end(transport.CodeLeft, "left", nil)
}

// waitRead waits until all that the peer wrote is handed over; false when the link
// ends first.
func (l *link) waitRead() bool {
	for k := range transport.Kinds {
		select {
		case <-l.read[k].ch:
		case <-l.done:
			return false
		}
	}
	return true
}

func (l *link) setLeft() {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	l.left = true
}

// readFlow hands over the frames of another kind.
func (l *link) readFlow(k transport.Kind, to take) {
	defer l.read[k].release()
	if !l.waitTurn(k) {
		return
	}
	reader := newFrameReader(l.conn.Stream(k), l.peer.mesh.cfg.CustomBytes)
	reader.lends, reader.link = true, l
	defer reader.release()
	err := l.deliverFrames(k, reader, to)
	if !errors.Is(err, errEndMark) {
		l.broken(err)
		return
	}
	l.marked()
}

// take is a method of Handler for one kind of frames.
type take func(from member.Identity, frame []byte) error

// deliverFrames hands over frames until an error. The end of a stream without an end
// mark is one.
func (l *link) deliverFrames(k transport.Kind, r *frameReader, to take) error {
	received := &l.peer.mesh.stats.received[k]
	for {
		frame, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: stream without an end mark", errGarbage)
		case err != nil:
			return err
		}
		received.add(1, len(frame))
		if err := to(l.who, frame); err != nil {
			return fmt.Errorf("%w: %w", errGarbage, err)
		}
	}
}

// marked notes that the peer leaves this link: so does this node.
func (l *link) marked() {
	p := l.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.over && !p.leaving {
		p.drain(l)
		p.urge(transport.System)
	}
}

func (l *link) isLeaving() bool {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	return l.peer.leaving
}
