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
	last    int64 // arrival of the last message; later ones queue up behind it
}

// network carries messages between processes.
type network struct {
	rand  *rand.Rand
	size  int
	links []link // from*size+to
	stats Messages
}

// Messages counts what became of messages.
type Messages struct {
	Sent       int
	Delivered  int
	Lost       int // by chance
	Cut        int // on a cut link
	Dead       int // for a process that is not there
	Duplicated int
}

func newNetwork(size int, l Link, r *rand.Rand) network {
	n := network{rand: r, size: size, links: make([]link, size*size)}
	for i := range n.links {
		n.links[i].Link = l
	}
	return n
}

func (n *network) link(from, to int) *link { return &n.links[from*n.size+to] }

// arrivals says when a message sent now arrives: never, once or twice.
func (n *network) arrivals(from, to int, now int64) (at [2]int64, copies int) {
	l := n.link(from, to)
	n.stats.Sent++
	if l.cuts > 0 {
		n.stats.Cut++
		return at, 0
	}
	if l.Loss > 0 && n.rand.Float64() < l.Loss {
		n.stats.Lost++
		return at, 0
	}
	at[0] = n.arrival(l, now)
	if l.Duplicate > 0 && n.rand.Float64() < l.Duplicate {
		n.stats.Duplicated++
		at[1] = n.arrival(l, now)
		return at, 2
	}
	return at, 1
}

func (n *network) arrival(l *link, now int64) int64 {
	at := now + int64(l.Delay)
	if l.Jitter > 0 {
		at += int64(n.rand.ExpFloat64() * float64(l.Jitter))
	}
	if l.Late > 0 && n.rand.Float64() < l.Late {
		at += n.rand.Int64N(int64(l.MaxLate) + 1)
	}
	at = max(at, l.clogged)
	if !l.Unordered {
		at = max(at, l.last+1)
		l.last = at
	}
	return at
}

// reset heals everything and gives all links the same behaviour.
func (n *network) reset(l Link) {
	for i := range n.links {
		n.links[i] = link{Link: l, last: n.links[i].last}
	}
}
