// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"
)

// Link is how one direction between two processes behaves.
type Link struct {
	Delay  time.Duration // least time under way
	Jitter time.Duration // mean of the exponential part on top
	// Loss, Duplicate and Late are probabilities of a message; a late one is
	// under way for up to MaxLate more.
	Loss, Duplicate, Late float64
	MaxLate               time.Duration
	// Unordered lets messages overtake each other.
	Unordered bool
}

// link is one direction between two processes.
type link struct {
	Link
	cuts    int   // faults that cut it now
	clogged int64 // nothing arrives before
	down    int64 // nothing leaves before: the connection is dialed again
	last    int64 // arrival of the last message; later ones queue up behind it
	conn    int32 // number of its connection; what is under way on an earlier one is lost
	sent    int   // messages so far
}

// network carries messages between processes.
type network struct {
	rand  *rand.Rand
	tape  *tape
	size  int
	links []link // from*size+to
	stats Messages
	calm  bool // faults have ended
}

// Messages counts what became of messages.
type Messages struct {
	Sent       int
	Delivered  int
	Lost       int // by chance
	Cut        int // on a cut link
	Broken     int // with the connection that carried them
	Refused    int // between processes whose configurations do not fit
	Dead       int // for a process that is not there
	Duplicated int
}

func (m *Messages) add(o Messages) {
	m.Sent += o.Sent
	m.Delivered += o.Delivered
	m.Lost += o.Lost
	m.Cut += o.Cut
	m.Broken += o.Broken
	m.Refused += o.Refused
	m.Dead += o.Dead
	m.Duplicated += o.Duplicated
}

func newNetwork(size int, l Link, r *rand.Rand, t *tape) network {
	n := network{rand: r, tape: t, size: size, links: make([]link, size*size)}
	for i := range n.links {
		n.links[i].Link = l
	}
	return n
}

func (n *network) linkOf(from, to int) *link { return &n.links[from*n.size+to] }

// drawArrivals says when a message sent now arrives: never, once or twice.
func (n *network) drawArrivals(from, to int, now int64) (at [2]int64, copies int) {
	l := n.linkOf(from, to)
	n.stats.Sent++
	l.sent++
	if l.cuts > 0 {
		n.stats.Cut++
		return at, 0
	}
	if now < l.down {
		n.stats.Broken++
		return at, 0
	}
	f := n.nextFate(l, from*n.size+to)
	if f.Lost {
		n.stats.Lost++
		return at, 0
	}
	at[0] = l.arrivalTime(now, f.Extra)
	if !f.Twice {
		return at, 1
	}
	n.stats.Duplicated++
	at[1] = l.arrivalTime(now, f.Again)
	return at, 2
}

// nextFate is what becomes of the message just sent on a link: as it was recorded,
// or drawn.
func (n *network) nextFate(l *link, number int) Fate {
	if n.tape.isReplay() {
		f := n.tape.recordedFate(number, l.sent)
		if n.calm {
			f = f.limitTo(l.Link)
		}
		return f
	}
	f := Fate{Link: number, Nth: l.sent}
	switch {
	case l.Loss > 0 && n.rand.Float64() < l.Loss:
		f.Lost = true
	default:
		f.Extra = n.extraDelay(l)
		if l.Duplicate > 0 && n.rand.Float64() < l.Duplicate {
			f.Twice, f.Again = true, n.extraDelay(l)
		}
	}
	n.tape.keepFate(f)
	return f
}

// extraDelay is how much longer than Delay a message is under way, in microseconds.
func (n *network) extraDelay(l *link) int64 {
	var d int64
	if l.Jitter > 0 {
		d = int64(n.rand.ExpFloat64() * float64(l.Jitter))
	}
	if l.Late > 0 && n.rand.Float64() < l.Late {
		d += n.rand.Int64N(int64(l.MaxLate) + 1)
	}
	return d / int64(time.Microsecond)
}

func (l *link) arrivalTime(now, extra int64) int64 {
	at := max(now+int64(l.Delay)+extra*int64(time.Microsecond), l.clogged)
	if !l.Unordered {
		at = max(at, l.last+1)
		l.last = at
	}
	return at
}

// resetLinks heals everything and gives all links the same behaviour.
func (n *network) resetLinks(l Link) {
	for i := range n.links {
		o := &n.links[i]
		*o = link{Link: l, last: o.last, conn: o.conn, sent: o.sent}
	}
}

// breakConnection breaks the connection of a link: what is under way is lost, and nothing
// leaves before the next one is up.
func (l *link) breakConnection(until int64) {
	l.conn++
	l.down = max(l.down, until)
	l.last = 0
}
