// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
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
		l.signalWriter(k)
	}
}

// signalWriter tells the writer of a kind to look what there is to do.
func (l *link) signalWriter(k transport.Kind) {
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
	l.peer.mesh.stats.countDrop(DropStalled, 1)
	l.end(transport.CodeTimeout, errStalled.Error(), errStalled)
}
