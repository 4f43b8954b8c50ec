// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// link is a connection to a peer, from the beginning of the exchange of greetings. For each kind of
// frames one goroutine reads and one goroutine writes. Other goroutines serve bulk streams and
// datagrams.
type link struct {
	peer *peer
	conn transport.Conn
	ends Ends
	// who and reader are set after the peer's greeting has arrived.
	who    member.Identity
	reader *frameReader
	since  time.Time
	// after contains the read latches of earlier links, whose frames are delivered before the frames
	// of this link.
	after [transport.Kinds][]<-chan struct{}

	// used is set once a frame of the peer was delivered, and answered when the peer answered while
	// another process claims its address.
	used, answered atomic.Bool

	ready [transport.Kinds]chan struct{} // wakes the writer
	// writing has a lock for each kind, which is held while frames of that kind are written. It guards
	// ended, batch and, for System, silence.
	writing [transport.Kinds]chan struct{}
	ended   [transport.Kinds]bool  // the end mark was written, or the link has failed
	batch   [transport.Kinds]batch // the batch to write; empty if there is none
	silence silence
	urged   chan struct{}          // wakes the writer of datagrams
	read    [transport.Kinds]latch // released when no further frame of the kind will be delivered
	done    chan struct{}          // closed when the link ends

	// Guarded by the peer's mutex.
	started  bool
	follows  bool // an earlier link was to the same run
	proved   bool // this node has dialed the address, and the store of the link answered there
	over     bool
	draining bool          // from now on, only end marks are sent
	expiry   *time.Timer   // checks when the peer's certificate expires; nil if it has none
	unused   *time.Timer   // ends the link of a stranger that sends no frame; nil for other peers
	silent   bool          // the peer does not answer, and another connection is being dialed
	left     bool          // each node has received everything that the other node wrote
	deadline *time.Timer   // ends this link if it delays another link
	streams  int           // open bulk streams
	quiet    chan struct{} // closed when streams reaches 0; nil if no caller waits
	outgoing datagramQueue
}

// latch is a channel that is closed once.
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
		l.writing[k] <- struct{}{} // locked until start, because the greeting is written first
		l.read[k].ch = make(chan struct{})
	}
	return l
}

// start starts reading and writing, unless the link has ended.
func (l *link) start() {
	p := l.peer
	needed := p.mesh.handler.Needs(p.addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.over {
		return
	}
	l.started = true
	l.watchExpiry()
	if !needed && !l.isObserved() {
		l.unused = time.AfterFunc(p.mesh.silence, l.endUnused)
	}
	for k := range transport.Kinds {
		<-l.writing[k]
	}
	for _, f := range []func(){
		l.readSystem, l.writeSystem, l.acceptStreams, l.readDatagrams, l.writeDatagrams,
	} {
		p.mesh.work.Go(f)
	}
	for k := transport.System + 1; k < transport.Kinds; k++ {
		p.mesh.work.Go(func() { l.readFlow(k) })
		p.mesh.work.Go(func() { l.writeFrames(k) })
	}
}

// end closes the connection and its streams. Only the first call has an effect. err is the reason
// to report, or nil if the end was intended.
func (l *link) end(code transport.Code, reason string, err error) {
	p := l.peer
	p.mu.Lock()
	if l.over {
		p.mu.Unlock()
		return
	}
	l.over = true
	for _, timer := range []*time.Timer{l.deadline, l.expiry, l.unused} {
		if timer != nil {
			timer.Stop()
		}
	}
	wasCur, started := p.cur == l, l.started
	dropped := p.removeLink(l)
	if wasCur && err != nil {
		p.lost = l
	}
	var lost, unsettled bool
	switch {
	case !started:
		lost = dropped > 0 || l.follows // frames on this link, or answers to earlier frames, are lost
	case l.left && p.cur != nil:
		lost = p.cur.who != l.who
	case l.left && !p.leaving:
		// The peer left this link for another link that has not arrived yet, or is shutting down.
		p.unsettled, unsettled = l, true
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
	if unsettled {
		time.AfterFunc(drainTimeout, func() { p.mesh.spawnWork(func() { p.settleLoss(l) }) })
	}
	if lost {
		p.mesh.handler.Lost(l.who)
	}
	if wasCur && err != nil {
		p.mesh.reports.report(Report{ReportLost, p.addr, err})
	}
}

// fail ends the link because of an error of its connection.
func (l *link) fail(err error) {
	if errors.Is(err, errGarbage) {
		l.peer.countGarbage()
		l.end(transport.CodeGarbage, err.Error(), err)
		return
	}
	closed, ok := errors.AsType[*transport.CloseError](err)
	if ok && closed.Remote && closed.Code == transport.CodeLeft {
		l.setLeft()
	}
	l.end(transport.CodeClosed, "connection lost", err)
}

func (l *link) signalAll() {
	for k := range transport.Kinds {
		l.signalWriter(k)
	}
}

func (l *link) signalWriter(k transport.Kind) {
	select {
	case l.ready[k] <- struct{}{}:
	default:
	}
}

// limitDrain ends the link after the timeout if it still delays the system frames of another link.
// Only the first call has an effect. The peer's mutex must be held.
func (l *link) limitDrain(timeout time.Duration) {
	if l.deadline != nil || l.over {
		return
	}
	l.deadline = time.AfterFunc(timeout, func() {
		if !l.read[transport.System].released() {
			l.end(transport.CodeTimeout, "did not finish reading in time", nil)
		}
	})
}

// endDead ends a link to a run that is over, so that Lost is called: the run may have died without
// closing the connection. If frames that arrived are undelivered, it first waits for drainTimeout.
func (l *link) endDead() {
	end := func() { l.end(transport.CodeTimeout, "a later run is connected", nil) }
	time.AfterFunc(drainTimeout, end)
	if l.isDelivered() {
		end()
	}
}

// readAfter makes the readers of l wait for the readers of an earlier link.
func (l *link) readAfter(earlier *link) {
	for k := range transport.Kinds {
		l.after[k] = append(l.after[k], earlier.read[k].ch)
	}
}

// isDelivered reports whether the handler has received all frames that arrived on the link.
func (l *link) isDelivered() bool {
	for k := range transport.Kinds {
		if !l.read[k].released() {
			return false
		}
	}
	return true
}

// waitOr waits until ch is closed. It returns false if the link ends first.
func (l *link) waitOr(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-l.done:
		return false
	}
}

// waitTurn waits until the earlier links have delivered their frames of a kind. It returns
// false if this link ends first.
func (l *link) waitTurn(k transport.Kind) bool {
	for _, read := range l.after[k] {
		if !l.waitOr(read) {
			return false
		}
	}
	return true
}

// waitRead waits until everything that the peer wrote has been delivered. It returns false
// if the link ends first.
func (l *link) waitRead() bool {
	for k := range transport.Kinds {
		if !l.waitOr(l.read[k].ch) {
			return false
		}
	}
	return true
}

// endUnused ends the link of a stranger on which no frame has arrived since the greeting, so that a
// greeting alone takes no room (protocol.md section 8, claims).
func (l *link) endUnused() {
	l.peer.mu.Lock()
	streams := l.streams
	l.peer.mu.Unlock()
	if !l.used.Load() && streams == 0 && !l.peer.mesh.handler.Needs(l.peer.addr) {
		l.end(transport.CodeTimeout, "no frame followed the greeting", nil)
	}
}

// endStalled ends a link on which a frame has not arrived completely in time.
func (l *link) endStalled() {
	l.peer.mesh.stats.countDrop(DropStalled, 1)
	l.end(transport.CodeTimeout, errStalled.Error(), errStalled)
}
