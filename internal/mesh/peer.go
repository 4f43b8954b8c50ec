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
	// maxDraining bounds the connections of a peer that are being left.
	maxDraining = 2
	// steadyTime is how long a connection must have lasted for its peer to be
	// dialed again without a pause.
	steadyTime = time.Second
)

// peer is what a Mesh has to do with one address: the connection that it is
// mapped to, what waits to be sent there, and the dialing.
type peer struct {
	mesh    *Mesh
	addr    member.Address
	holders atomic.Int64 // goroutines that have it from Mesh.hold
	probes  atomic.Int64 // under way
	garbage atomic.Uint64
	room    budget // for its large frames, one of each kind, while it is needed

	// changed is closed, and made anew, when cur may be another; nil where nobody
	// waits.
	changed chan struct{}

	mu       sync.Mutex
	leaving  bool    // Close has begun
	cur      *link   // frames are written here; nil without a connection
	draining []*link // being left, the earliest first
	// ended are links that are over, with frames that their readers are still
	// handing over: the frames of a later link come after them.
	ended    []*link
	greeting *link // dialed and greeted, the answer not yet read
	// run is the peer as it greeted on the latest connection: the frames of flows are
	// for it.
	run member.Identity
	// owed is a link that was left in order while there was no other one: the handler
	// is told of a loss unless one to the same run comes soon.
	owed *link
	// lastID is the ID of the latest connection that the peer had dialed.
	lastID uint64

	system  systemQueue
	flows   [transport.Kinds]flow // of all kinds but System
	senders int                   // Sends, and who wants a stream, that wait

	missed time.Time // when a datagram last found no connection

	dialing    bool
	cancelDial context.CancelFunc // while dialing
	failures   int                // dials and short connections since the last steady one
	lastErr    error              // of the last dial
	refused    bool               // by the last peer that answered there, or it by us
}

func newPeer(m *Mesh, addr member.Address) *peer {
	p := &peer{mesh: m, addr: addr}
	p.room.free = int(transport.Kinds) * m.cfg.maxFrameBytes()
	for k := range transport.Kinds {
		p.flows[k] = flow{kind: k}
	}
	return p
}

func (p *peer) release() { p.holders.Add(-1) }

// idle reports whether the peer may be forgotten. The Mesh is locked, so that
// nobody gets hold of it meanwhile.
func (p *peer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	return p.holders.Load() == 0 && p.cur == nil && p.greeting == nil && len(p.draining) == 0 &&
		p.owed == nil && !p.dialing && p.system.empty() &&
		!slices.ContainsFunc(p.ended, func(l *link) bool { return !l.handedOver() })
}

func (p *peer) state() transport.PeerState {
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

// frameRoom is where the large frames of the peer get their room.
func (p *peer) frameRoom() *budget {
	if p.mesh.handler.Needs(p.addr) {
		return &p.room
	}
	return &p.mesh.room
}

// brokeFrame counts what came from the peer and was no frame.
func (p *peer) brokeFrame() {
	p.garbage.Add(1)
	p.mesh.stats.countDrop(DropGarbage, 1)
}

// notify queues a system frame and sees to it that it leaves.
func (p *peer) notify(frame []byte) {
	if l := p.queueSystem(frame); l != nil && !l.tryFlush(transport.System) {
		l.signalWriter(transport.System)
	}
}

// queueSystem queues a system frame, and returns the connection that it is for.
func (p *peer) queueSystem(frame []byte) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving {
		p.mesh.stats.countDrop(DropClosed, 1)
		return nil
	}
	p.mesh.stats.countDrop(DropOldest, p.system.push(frame, time.Now()))
	p.dialWanted()
	return p.cur
}

// urge gets what waits on its way: on the connection, or to one. The peer is
// locked.
func (p *peer) urge(k transport.Kind) {
	if p.cur != nil {
		p.cur.signalWriter(k)
	}
	p.dialWanted()
}

// dialWanted dials where a connection has to be. The peer is locked.
func (p *peer) dialWanted() {
	if p.dialing || !p.wanted() {
		return
	}
	p.dialing = true
	p.mesh.dialing.Add(1)
	ctx, cancel := context.WithCancel(p.mesh.ctx)
	p.cancelDial = cancel
	p.mesh.work.Go(func() { p.dial(ctx) })
}

// wanted reports whether a connection has to be dialed. The peer is locked.
func (p *peer) wanted() bool {
	switch {
	case p.leaving:
		return false
	case p.cur != nil:
		return p.cur.silent
	default:
		p.expire()
		return !p.system.empty() || p.senders > 0 || time.Since(p.missed) < maxQueuedTime
	}
}

// expire drops what waited too long. The peer is locked.
func (p *peer) expire() {
	p.mesh.stats.countDrop(DropStale, p.system.expire(time.Now()))
}

// takeSystem returns what is to be written on a link, empty for nothing yet.
func (p *peer) takeSystem(l *link, spare []byte) batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := batch{bytes: spare[:0]}
	if p.cur == l {
		p.expire()
		b = p.system.take(spare)
	}
	if l.draining {
		b.mark()
	}
	return b
}

// takeFlow is takeSystem for the other kinds. It makes room for more frames.
func (p *peer) takeFlow(l *link, k transport.Kind, spare []byte) batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := batch{bytes: spare[:0]}
	if f := &p.flows[k]; p.cur == l && f.frames > 0 {
		b = f.take(spare)
		f.admit()
	}
	if l.draining {
		b.mark()
	}
	return b
}

// setSilent has another connection dialed while nothing comes on this one.
func (p *peer) setSilent(l *link, silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.silent != silent {
		l.silent = silent
		p.urge(transport.System)
	}
}

// awake sees to the Sends that wait, and to who wants a stream, when the connection
// may be another. The peer is locked.
func (p *peer) awake() {
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

// leave begins the end of every connection: what waits is flushed first. It
// returns the links to wait for.
func (p *peer) leave() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
	if p.cancelDial != nil {
		p.cancelDial()
	}
	p.awake()
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

// setCur maps the address to a connection, or to none. What failed before a
// connection that lasted is forgotten. The peer is locked.
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
	p.cur = l
	p.awake()
}

// adopt maps the address to a link whose greets have been exchanged, or finds
// that another one stays. The error is for a link that the peer dialed and that
// is not wanted: nothing was written on it.
func (p *peer) adopt(next *link) *transport.CloseError {
	p.mu.Lock()
	verdict := Replace
	have := p.cur
	if have != nil {
		verdict = Resolve(have.ends, next.ends, have.who.Incarnation, next.who.Incarnation)
	}
	if p.greeting == next {
		p.greeting = nil
	}
	if verdict == Switch || verdict == Keep {
		p.mesh.stats.duplicates.Add(1)
	}
	dialed := next.ends.Dialer != p.addr
	var refusal *transport.CloseError
	var gone *member.Identity // an earlier run, with frames that never come
	switch {
	case p.leaving || next.over:
		refusal = &transport.CloseError{Code: transport.CodeClosed, Reason: goes}
	case verdict == Refuse:
		refusal = &transport.CloseError{
			Code: transport.CodeEarlierRun, Reason: "a later connection is in use",
		}
	case verdict == Keep && !dialed:
		refusal = &transport.CloseError{
			Code: transport.CodeDuplicate, Reason: "another connection is in use",
		}
	case verdict == Keep:
		p.drain(next)
	default:
		gone = p.mapTo(next, verdict)
		if !dialed {
			p.lastID = next.ends.ID
		}
	}
	excess := p.excess()
	p.mu.Unlock()
	if refusal == nil && verdict == Replace && have != nil {
		have.end(transport.CodeReplaced, "a later connection took its place", nil)
	}
	if gone != nil {
		p.mesh.handler.Lost(*gone) // before anything comes from the later one
	}
	if excess != nil {
		excess.end(transport.CodeTimeout, "too many connections are being left", nil)
	}
	return refusal
}

// mapTo makes next the connection of the peer. Its readers wait for those of
// the links that it took the place of. It returns an earlier run of the peer where
// a loss is still to be told of that. The peer is locked.
func (p *peer) mapTo(next *link, verdict Verdict) (gone *member.Identity) {
	if earlier := p.run; earlier != next.who {
		tells := p.cur != nil && p.cur.started // when it ends, which is now
		if dropped := p.clearFlows(); !tells && (dropped > 0 || p.owed != nil) {
			gone = &earlier
		}
	}
	next.follows = p.run == next.who
	p.run, p.owed = next.who, nil
	earlier := slices.Clone(p.draining)
	if p.cur != nil {
		earlier = append(earlier, p.cur)
		if verdict == Switch {
			p.drain(p.cur)
		}
	}
	if p.greeting != nil {
		earlier = append(earlier, p.greeting)
	}
	p.ended = slices.DeleteFunc(p.ended, (*link).handedOver)
	for _, l := range p.ended {
		next.follow(l)
	}
	for _, l := range earlier {
		run := next.who.Incarnation
		if v := Resolve(l.ends, next.ends, run, run); v == Replace || v == Switch {
			next.follow(l)
			l.hurry()
		}
	}
	p.setCur(next)
	p.lastErr, p.refused = nil, false
	if p.cancelDial != nil {
		p.cancelDial()
	}
	return gone
}

// clearFlows drops the frames that wait for a connection that is over, and returns
// how many. The peer is locked.
func (p *peer) clearFlows() (dropped int) {
	for k := range transport.Kinds {
		n := p.flows[k].clear()
		p.mesh.stats.countDrop(DropLost, n)
		dropped += n
	}
	return dropped
}

// settle tells that what was sent to the run of a link may be lost, unless another
// connection has come since the link was left.
func (p *peer) settle(l *link) {
	p.mu.Lock()
	owed := p.owed == l
	if owed {
		p.owed = nil
		p.clearFlows()
	}
	p.mu.Unlock()
	if owed {
		p.mesh.handler.Lost(l.who)
	}
}

// drain begins to leave a link: nothing but end marks is written on it any
// more. The peer is locked.
func (p *peer) drain(l *link) {
	if l.draining {
		return
	}
	l.draining = true
	if p.cur == l {
		p.setCur(nil)
	}
	p.draining = append(p.draining, l)
	l.hurry()
	l.signalAll()
}

// excess is a link to end because too many are being left. The peer is locked.
func (p *peer) excess() *link {
	if len(p.draining) > maxDraining {
		return p.draining[0]
	}
	return nil
}

// lost takes a link that is over out of the peer, and returns how many frames had
// waited for it. The peer is locked.
func (p *peer) lost(l *link) (dropped int) {
	if p.greeting == l {
		p.greeting = nil
	}
	p.draining = slices.DeleteFunc(p.draining, func(d *link) bool { return d == l })
	if l.started && !l.handedOver() {
		p.ended = append(slices.DeleteFunc(p.ended, (*link).handedOver), l)
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
	p.urge(transport.System)
	return dropped
}
