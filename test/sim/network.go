// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"
)

// Link describes one direction between two processes.
type Link struct {
	Delay  time.Duration // minimum delay
	Jitter time.Duration // mean of an additional exponential delay
	// Loss, Duplicate and Late are probabilities for each message. A late message takes
	// up to MaxLate longer.
	Loss, Duplicate, Late float64
	MaxLate               time.Duration
	// Unordered allows messages to overtake each other.
	Unordered bool
}

// link is the state of a Link.
type link struct {
	Link
	cuts    int   // number of active faults that cut the link
	clogged int64 // earliest arrival of a message
	down    int64 // earliest time to send a message: the connection is being dialed
	last    int64 // arrival of the last message; later messages do not overtake it
	conn    int32 // number of the current connection; messages on earlier connections are lost
	sent    int   // messages so far
}

// network carries messages between processes.
type network struct {
	rand      *rand.Rand
	recording *recording
	size      int
	links     []link // from*size+to
	stats     Messages
	calm      bool // faults have ended
}

// Messages counts messages by outcome.
type Messages struct {
	Sent       int
	Delivered  int
	Lost       int // by chance
	Cut        int // lost on a cut link
	Broken     int // lost with the connection that carried them
	Refused    int // between incompatible configurations
	Claimed    int // from an address that belongs to another store
	Dead       int // sent to a process that is down
	Duplicated int
}

func (m *Messages) add(o Messages) {
	m.Sent += o.Sent
	m.Delivered += o.Delivered
	m.Lost += o.Lost
	m.Cut += o.Cut
	m.Broken += o.Broken
	m.Refused += o.Refused
	m.Claimed += o.Claimed
	m.Dead += o.Dead
	m.Duplicated += o.Duplicated
}

func newNetwork(size int, l Link, r *rand.Rand, t *recording) network {
	n := network{rand: r, recording: t, size: size, links: make([]link, size*size)}
	for i := range n.links {
		n.links[i].Link = l
	}
	return n
}

func (n *network) linkOf(from, to int) *link { return &n.links[from*n.size+to] }

// drawArrivals draws the arrival times of a message: none, one or two.
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

// nextFate returns the fate of the message that was just sent on a link. It reads the fate from the
// recording or draws it.
func (n *network) nextFate(l *link, number int) Fate {
	if n.recording.isReplay() {
		f := n.recording.recordedFate(number, l.sent)
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
	n.recording.recordFate(f)
	return f
}

// extraDelay draws the delay of a message beyond Delay, in microseconds.
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

// resetLinks heals all links and sets their behaviour.
func (n *network) resetLinks(l Link) {
	for i := range n.links {
		o := &n.links[i]
		*o = link{Link: l, last: o.last, conn: o.conn, sent: o.sent}
	}
}

// breakConnection breaks the connection of a link. Messages in flight are lost, and no message is
// sent before the given time.
func (l *link) breakConnection(until int64) {
	l.conn++
	l.down = max(l.down, until)
	l.last = 0
}
