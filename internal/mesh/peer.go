// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// maxDraining bounds the number of connections of a peer that are being left.
	maxDraining = 2
	// steadyTime is how long a connection must last so that its peer is dialed again without a pause.
	steadyTime = time.Second
)

// peer is the state of one address: its connection, the frames waiting for the connection,
// and the dialing.
type peer struct {
	mesh *Mesh
	addr member.Address

	holders atomic.Int64 // number of holds without a release
	// forgotten is set once the Mesh has forgotten the peer, or is about to: a Destination must then
	// look the peer up again.
	forgotten atomic.Bool
	probes    atomic.Int64 // in flight
	garbage   atomic.Uint64
	ownRoom   budget // room for its large frames, one of each kind, while it is a member or a seed

	mu       sync.Mutex
	leaving  bool          // Close has begun
	cur      *link         // the connection to write frames on; nil if there is none
	lost     *link         // the last value of cur, if it failed and there is no new connection yet
	changed  chan struct{} // closed when cur changes; nil if no caller waits
	draining []*link       // connections being left, earliest first
	// ended holds the closed links whose readers are still delivering frames. The frames of later
	// links are delivered after theirs.
	ended    []*link
	greeting *link // dialed by this node, which waits for the answer to its greeting
	// run is the identity in the peer's latest greeting. The frames in flows are for this run.
	run    member.Identity
	remote member.Address // the host from which that greeting arrived, and the port of addr
	// unsettled is a link that was left gracefully when there was no other link. If no other link to
	// the same run follows soon, Lost is called.
	unsettled *link
	lastID    uint64 // ID of the latest connection that the peer dialed

	system  systemQueue
	flows   [transport.Kinds]flow // one for each kind except System
	senders int                   // number of waiting callers of Send and OpenStream

	wanted time.Time // when a datagram or Prepare last asked for a connection

	contest contest
	proof   proof

	dialing    bool
	cancelDial context.CancelFunc // while dialing
	failures   int                // dials and short connections since the last steady connection
	dialedAt   time.Time          // when the newest of these dials began
	lastErr    error              // error of the last dial
	refused    bool               // one of the two nodes refused the other
}

func newPeer(m *Mesh, addr member.Address) *peer {
	p := &peer{mesh: m, addr: addr}
	p.ownRoom.free = int(transport.Kinds) * m.cfg.maxFrameBytes()
	limit := pendingBytes
	if addr.IsObserver() {
		limit = MaxObserverBytes
	}
	for k := range transport.Kinds {
		p.flows[k].kind, p.flows[k].limit = k, limit
	}
	return p
}

func (p *peer) release() { p.holders.Add(-1) }

// isIdle reports whether the peer may be forgotten. The caller must hold the Mesh's mutex and have
// set forgotten, so that no other goroutine obtains the peer in the meantime.
func (p *peer) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropStale()
	return p.holders.Load() == 0 && p.cur == nil && p.greeting == nil && len(p.draining) == 0 &&
		p.unsettled == nil && !p.dialing && p.proof.probing == 0 && p.system.empty() &&
		!slices.ContainsFunc(p.ended, func(l *link) bool { return !l.isDelivered() })
}

func (p *peer) peerState() transport.PeerState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := transport.PeerState{Address: p.addr, Connected: p.cur != nil, Garbage: p.garbage.Load()}
	if p.cur != nil {
		s.Identity, s.Since = p.cur.who, p.cur.since
		s.Dialed = p.cur.ends.Dialer != p.addr
		s.RTT = p.cur.conn.RTT()
	}
	return s
}

func (p *peer) frameRoom() *budget {
	switch {
	case p.addr.IsObserver():
		return &p.mesh.observerRoom
	case p.mesh.handler.Needs(p.addr):
		return &p.ownRoom
	default:
		return &p.mesh.sharedRoom
	}
}

// countGarbage counts bytes from the peer that are not a valid frame.
func (p *peer) countGarbage() {
	p.garbage.Add(1)
	p.mesh.stats.countDrop(DropGarbage, 1)
}

// notify queues a system frame, and then flushes it or wakes the writer.
func (p *peer) notify(frame []byte) {
	if l := p.queueSystem(frame); l != nil && !l.tryFlush(transport.System) {
		l.signalWriter(transport.System)
	}
}

// queueSystem queues a system frame and returns the connection to write it on, or nil.
func (p *peer) queueSystem(frame []byte) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving {
		p.mesh.stats.countDrop(DropClosed, 1)
		return nil
	}
	p.mesh.stats.countDrop(DropOldest, p.system.push(frame, time.Now()))
	p.dialIfNeeded()
	return p.cur
}

// wakeOrDial wakes the writer of the connection. If there is no connection, it starts to
// dial. p.mu must be held.
func (p *peer) wakeOrDial(k transport.Kind) {
	if p.cur != nil {
		p.cur.signalWriter(k)
	}
	p.dialIfNeeded()
}

// dialIfNeeded starts to dial if a connection is needed. p.mu must be held.
func (p *peer) dialIfNeeded() {
	if p.cur == nil {
		p.dropStale() // no connection is needed for these frames
	}
	if p.dialing || !p.needsDial() {
		return
	}
	p.dialing, p.proof.yielded = true, false
	p.mesh.dialing.Add(1)
	ctx, cancel := context.WithCancel(p.mesh.ctx)
	p.cancelDial = cancel
	p.mesh.work.Go(func() { p.dial(ctx) })
}

// needsDial reports whether a connection must be dialed. p.mu must be held.
func (p *peer) needsDial() bool {
	switch {
	case p.leaving, p.addr.IsObserver(): // only observers dial
		return false
	case p.cur != nil:
		return p.cur.silent
	default:
		return !p.system.empty() || p.senders > 0 || time.Since(p.wanted) < maxQueuedTime
	}
}

// dropStale drops system frames that have waited too long. p.mu must be held.
func (p *peer) dropStale() {
	p.mesh.stats.countDrop(DropStale, p.system.expire(time.Now()))
}

// takeFrames returns the frames of a kind to write on a link, or an empty batch. For kinds other
// than System this makes room for waiting Sends.
func (p *peer) takeFrames(l *link, k transport.Kind, spare []byte) batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := batch{bytes: spare[:0]}
	switch f := &p.flows[k]; {
	case p.cur != l:
	case k == transport.System:
		p.dropStale()
		b = p.system.take(spare)
	case f.frames > 0:
		b = f.take(spare)
		f.admit()
	}
	if l.draining {
		b.mark()
	}
	return b
}

// setSilent records whether the peer is silent on a link. If it is, another connection is dialed,
// unless the peer answers again first.
func (p *peer) setSilent(l *link, silent bool) {
	p.mu.Lock()
	if l.silent && !silent && l == p.cur {
		defer p.mesh.reports.report(Report{Kind: ReportConnected, Peer: p.addr}) // after Unlock
	}
	defer p.mu.Unlock()
	if l.silent != silent {
		l.silent = silent
		p.wakeOrDial(transport.System)
	}
}

// wakeWaiting wakes the callers of Send and OpenStream after cur has changed. p.mu must be held.
func (p *peer) wakeWaiting() {
	for k := range transport.Kinds {
		switch f := &p.flows[k]; {
		case p.leaving:
			f.refuse(ErrClosed)
		case p.cur != nil && len(f.waiting) > 0:
			f.admit()
			p.cur.signalWriter(k)
		}
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// leave starts to end every connection; waiting frames are flushed first. It returns the
// links to wait for.
func (p *peer) leave() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
	if p.cancelDial != nil {
		p.cancelDial()
	}
	p.wakeWaiting()
	links := slices.Clone(p.draining)
	if p.cur != nil {
		p.cur.draining = true
		p.cur.signalAll()
		links = append(links, p.cur)
	} else {
		p.mesh.stats.countDrop(DropClosed, p.system.clear())
	}
	return links
}

// setCur sets the connection of the peer; nil means none. If the previous connection
// lasted, earlier failures no longer delay dialing. p.mu must be held.
func (p *peer) setCur(l *link) {
	if p.cur != nil {
		p.mesh.stats.connections.Add(-1)
		if time.Since(p.cur.since) >= steadyTime {
			p.failures = 0
		}
	}
	if l != nil {
		p.mesh.stats.connections.Add(1)
	}
	p.cur, p.lost = l, nil
	p.wakeWaiting()
	p.mesh.prepared.signal()
}

// pruneEnded removes from ended the links whose frames have been delivered. p.mu must be held.
func (p *peer) pruneEnded() { p.ended = slices.DeleteFunc(p.ended, (*link).isDelivered) }

// clearFlows drops the frames that wait for a connection that has ended, and returns how
// many it dropped. p.mu must be held.
func (p *peer) clearFlows() (dropped int) {
	for k := range transport.Kinds {
		p.flows[k].stuck = nil
		n := p.flows[k].clear()
		p.mesh.stats.countDrop(DropLost, n)
		dropped += n
	}
	return dropped
}

// settleLoss reports that frames sent to the run of a link may be lost, unless another connection
// to the same run was made in the meantime.
func (p *peer) settleLoss(l *link) {
	p.mu.Lock()
	lost := p.unsettled == l
	if lost {
		p.unsettled = nil
		p.clearFlows()
	}
	p.mu.Unlock()
	if lost {
		p.mesh.handler.Lost(l.who)
	}
}

// drainLink starts to leave a link. Afterwards only end marks are written on the link. p.mu must be
// held.
func (p *peer) drainLink(l *link) {
	if l.draining {
		return
	}
	l.draining = true
	if p.cur == l {
		p.setCur(nil)
	}
	p.draining = append(p.draining, l)
	l.limitDrain(drainTimeout)
	l.signalAll()
}

// excessLink returns a link that must end because too many links are being left, or nil. p.mu must
// be held.
func (p *peer) excessLink() *link {
	if len(p.draining) > maxDraining {
		return p.draining[0]
	}
	return nil
}

// removeLink removes a link that has ended, and returns how many frames were waiting for
// it. p.mu must be held.
func (p *peer) removeLink(l *link) (dropped int) {
	if p.greeting == l {
		p.greeting = nil
	}
	p.draining = slices.DeleteFunc(p.draining, func(d *link) bool { return d == l })
	if l.started && !l.isDelivered() {
		p.pruneEnded()
		p.ended = append(p.ended, l)
	}
	if p.cur != l {
		return 0
	}
	p.failures++
	p.setCur(nil)
	dropped = p.clearFlows()
	if p.leaving {
		p.mesh.stats.countDrop(DropClosed, p.system.clear())
	}
	p.wakeOrDial(transport.System)
	return dropped
}
