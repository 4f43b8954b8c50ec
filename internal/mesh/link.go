// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// link is a connection to a peer, from the greet on. One goroutine reads and one
// writes the frames of each kind; others see to bulk streams and datagrams.
type link struct {
	peer *peer
	conn transport.Conn
	ends Ends
	// who and reader are known once the peer has greeted.
	who    member.Identity
	reader *frameReader
	since  time.Time
	// after is closed one by one when the links that come before this one have
	// handed over their frames.
	after [transport.Kinds][]<-chan struct{}

	ready [transport.Kinds]chan struct{} // there is something for the writer to do
	// writing is held by who writes frames of a kind, and guards what follows.
	writing [transport.Kinds]chan struct{}
	ended   [transport.Kinds]bool  // the end mark was written, or the link is over
	batch   [transport.Kinds]batch // to be written; without bytes for none
	silence silence
	urged   chan struct{}          // there is a datagram to write
	read    [transport.Kinds]latch // nothing more of the kind is handed over
	done    chan struct{}          // closed when the link is over

	// Guarded by the peer's lock.
	started  bool
	follows  bool // an earlier link went to the same run
	over     bool
	draining bool          // nothing more is sent but end marks
	expiry   *time.Timer   // looks at the end of the peer's certificate; nil without
	silent   bool          // nothing comes back; another connection is dialed
	left     bool          // each end has handed over all that the other wrote
	deadline *time.Timer   // ends a link that holds up another one
	streams  int           // bulk streams that are open
	quiet    chan struct{} // closed when there are none; nil where nobody waits
	outgoing datagramQueue
}

// latch is a channel to wait on that is closed once.
type latch struct {
	once sync.Once
	ch   chan struct{}
}

func (l *latch) release() { l.once.Do(func() { close(l.ch) }) }

func (l *latch) released() bool {
	select {
	case <-l.ch:
		return true
	default:
		return false
	}
}

func newLink(p *peer, conn transport.Conn, ends Ends) *link {
	l := &link{peer: p, conn: conn, ends: ends, since: time.Now(), done: make(chan struct{})}
	l.urged = make(chan struct{}, 1)
	for k := range transport.Kinds {
		l.ready[k] = make(chan struct{}, 1)
		l.writing[k] = make(chan struct{}, 1)
		l.writing[k] <- struct{}{} // until start: the greet is first
		l.read[k].ch = make(chan struct{})
	}
	return l
}

// start begins to read and write, unless the link is over.
func (l *link) start() {
	p := l.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.over {
		return
	}
	l.started = true
	l.watchExpiry()
	for k := range transport.Kinds {
		<-l.writing[k]
	}
	work := &p.mesh.work
	work.Go(l.readSystem)
	work.Go(l.writeSystem)
	work.Go(func() { l.readFlow(transport.Custom, p.mesh.handler.Custom) })
	work.Go(func() { l.write(transport.Custom) })
	work.Go(func() { l.readFlow(transport.Answer, p.mesh.handler.Answered) })
	work.Go(func() { l.write(transport.Answer) })
	work.Go(l.acceptStreams)
	work.Go(l.readDatagrams)
	work.Go(l.writeDatagrams)
}

// end closes the connection, which its streams notice. The first call counts;
// err is why, nil when the end was meant to be.
func (l *link) end(code transport.Code, reason string, err error) {
	p := l.peer
	p.mu.Lock()
	if l.over {
		p.mu.Unlock()
		return
	}
	l.over = true
	if l.deadline != nil {
		l.deadline.Stop()
	}
	if l.expiry != nil {
		l.expiry.Stop()
	}
	wasCur, started := p.cur == l, l.started
	dropped := p.lost(l)
	var lost, owed bool
	switch {
	case !started:
		lost = dropped > 0 || l.follows // they waited for it, or for answers on it
	case l.left && p.cur != nil:
		lost = p.cur.who != l.who
	case l.left && !p.leaving:
		// It was left for another one, which this node has not yet, or by a peer that
		// goes.
		p.owed, owed = l, true
	default:
		lost = true
	}
	p.mu.Unlock()
	l.conn.Close(code, safetext.PeerText(reason))
	close(l.done)
	if !started {
		for k := range transport.Kinds {
			l.read[k].release()
		}
	}
	if owed {
		time.AfterFunc(drainTimeout, func() { p.mesh.spawn(func() { p.settle(l) }) })
	}
	if lost {
		p.mesh.handler.Lost(l.who)
	}
	if wasCur && err != nil {
		p.mesh.told.report(Report{ReportLost, p.addr, err})
	}
}

// broken ends the link because of an error of its connection.
func (l *link) broken(err error) {
	if errors.Is(err, errGarbage) {
		l.peer.brokeFrame()
		l.end(transport.CodeGarbage, err.Error(), err)
		return
	}
	closed, ok := errors.AsType[*transport.CloseError](err)
	if ok && closed.Remote && closed.Code == transport.CodeLeft {
		l.setLeft()
	}
	l.end(transport.CodeClosed, "connection lost", err)
}

// signalAll tells every writer.
func (l *link) signalAll() {
	for k := range transport.Kinds {
		l.signal(k)
	}
}

// signal tells the writer of a kind to look what there is to do.
func (l *link) signal(k transport.Kind) {
	select {
	case l.ready[k] <- struct{}{}:
	default:
	}
}

// hurry ends the link if it holds up the system frames of another one for too
// long. The peer is locked.
func (l *link) hurry() {
	if l.deadline != nil || l.over {
		return
	}
	l.deadline = time.AfterFunc(drainTimeout, func() {
		if !l.read[transport.System].released() {
			l.end(transport.CodeTimeout, "not left in time", nil)
		}
	})
}

// follow makes the readers of l wait for those of an earlier link.
func (l *link) follow(earlier *link) {
	for k := range transport.Kinds {
		l.after[k] = append(l.after[k], earlier.read[k].ch)
	}
}

// handedOver reports whether all that came over the link is with the handler.
func (l *link) handedOver() bool {
	for k := range transport.Kinds {
		if !l.read[k].released() {
			return false
		}
	}
	return true
}

// waitTurn waits until the links that come before this one have handed over
// their frames of a kind; false when this link ends first.
func (l *link) waitTurn(k transport.Kind) bool {
	for _, read := range l.after[k] {
		select {
		case <-read:
		case <-l.done:
			return false
		}
	}
	return true
}

// stall ends a link on which a frame stands still.
func (l *link) stall() {
	l.peer.mesh.stats.drop(DropStalled, 1)
	l.end(transport.CodeTimeout, errStalled.Error(), errStalled)
}

// readSystem hands over system frames. After the end mark it waits for the end
// of the stream: then the peer has everything that was written on this link.
func (l *link) readSystem() {
	defer l.read[transport.System].release()
	if !l.waitTurn(transport.System) {
		return
	}
	defer l.reader.release()
	m := l.peer.mesh
	err := l.deliver(transport.System, l.reader, m.handler.System)
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
	err := l.deliver(k, reader, to)
	if !errors.Is(err, errEndMark) {
		l.broken(err)
		return
	}
	l.marked()
}

// take is a method of Handler for one kind of frames.
type take func(from member.Identity, frame []byte) error

// deliver hands over frames until an error. The end of a stream without an end
// mark is one.
func (l *link) deliver(k transport.Kind, r *frameReader, to take) error {
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
			m.stats.drop(DropLost, b.frames)
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
