// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/leader"
)

const (
	// maxGone bounds what is known of those that are members no more, and as many as are.
	maxGone = 64
	// moreSent is by how much a letter is sent more often than memberlist sends what it
	// has to say: half of the members may have been cut off just now, or not have the
	// group open.
	moreSent = 2
)

// group is a group that is open here. It is the election.Peers of it. What is not
// constant belongs to the lock of the node.
type group struct {
	node      *Node
	name      string
	run       uint64
	timing    election.Timing
	candidate *leader.Candidate
	deliver   func(from string, m lowest.Message)

	heard  map[string]mark // the newest that was heard of a member
	lowest proposal        // of those that were spread
}

// mark orders what a member says.
type mark struct{ run, seq uint64 }

// isAfter reports whether a is newer than b.
func (a mark) isAfter(b mark) bool { return a.run > b.run || a.run == b.run && a.seq > b.seq }

// proposal is one, and when it was made. The zero one is none.
type proposal struct {
	member string
	said   time.Time
}

// Self implements election.Peers.
func (g *group) Self() (id string, run uint64) { return g.node.name, g.run }

// Members implements election.Peers.
func (g *group) Members() []string { return g.node.Members() }

// Send implements election.Peers. What a member declares is for all, also where it answers
// one: proposals of others may not have come through.
func (g *group) Send(to string, m lowest.Message) {
	n := g.node
	l := letter{group: g.name, told: m.Member != n.name, Message: m}
	n.mu.Lock()
	if !l.told && (to == "" || m.Kind == lowest.Declaration) {
		g.spread(time.Now(), l)
	}
	peer, known := n.members[to]
	n.mu.Unlock()
	if known {
		_ = n.list.SendBestEffort(&peer, pack(n.name, l.bytes())) // it may be lost
	}
}

// receive takes a letter that somebody sends.
func (g *group) receive(now time.Time, sender string, l letter) {
	g.node.mu.Lock()
	from := g.admit(now, sender, l)
	g.node.mu.Unlock()
	if from == l.Member {
		l.Age = 0
	}
	if from != "" {
		g.deliver(from, l.Message)
	}
}

// admit is from whom a letter is to be taken, "" for nobody: from its member, where it is
// new, and then it is sent on; or from the sender, who tells it. What is so old that it
// means nothing waited in the queue of a member that was cut off.
func (g *group) admit(now time.Time, sender string, l letter) (from string) {
	self, members := g.node.name, g.node.members
	if l.Age >= g.timing.Alive || l.Member == self || sender == self {
		return ""
	}
	m, last := mark{l.Run, l.Seq}, g.heard[l.Member]
	if _, known := members[l.Member]; known && !l.told {
		if !m.isAfter(last) {
			return ""
		}
		g.heard[l.Member] = m
		g.spread(now, l)
		return l.Member
	}
	// A leader that is not seen here, by mistake or not yet, is one that others tell of.
	if _, known := members[sender]; known && l.Kind == lowest.Declaration &&
		sender != l.Member && !last.isAfter(m) {
		return sender
	}
	return ""
}

// forget drops what was heard of those that are members no more, once that is much: until
// then one that resigned and left is not taken for the leader by what others tell of it.
func (g *group) forget() {
	if len(g.heard) < 2*len(g.node.members)+maxGone {
		return
	}
	for name := range g.heard {
		if _, known := g.node.members[name]; !known {
			delete(g.heard, name)
		}
	}
}

// spread queues a letter of a member itself, in the place of an older one of it. It goes to
// some members, and reaches all because each of them does the same.
//
// Of all proposals there is one place, and a lower one keeps it for a Sample: nobody waits
// for a higher one, and when all propose at once their letters would stop each other. A
// leader answers the lowest by a declaration to all. Who proposes within a Sample of it was
// in the group before that, and so hears the answer.
func (g *group) spread(now time.Time, l letter) {
	said, name := now.Add(-l.Age), g.name+"\n"+l.Member
	if l.Kind == lowest.Proposal {
		p := g.lowest
		if p.member != "" && p.member < l.Member && p.said.Add(g.timing.Sample).After(said) {
			return
		}
		g.lowest = proposal{l.Member, said}
		name = g.name + "\n"
	}
	g.node.queue.add(name, l.bytes(), said)
}

// gossip sends what is queued, at the pace of memberlist, until ctx ends. It goes in
// packets of its own: memberlist would send it after all that it has to say of members
// itself, which is the most when a network falls apart and leaders are needed.
func (n *Node) gossip(ctx context.Context, peers, mult int) {
	defer n.running.Done()
	t := time.NewTicker(n.interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if !n.waits() {
			continue
		}
		for _, p := range n.some(peers) {
			n.mu.Lock()
			letters := n.queue.take(time.Now(), packetBytes-len(pack(n.name)), times(mult, len(n.names)))
			n.mu.Unlock()
			if len(letters) == 0 {
				break
			}
			_ = n.list.SendBestEffort(&p, pack(n.name, letters...)) // others send the same
		}
	}
}

// some are a number of other members, drawn; fewer where there are no more.
func (n *Node) some(count int) (drawn []memberlist.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := map[string]bool{n.name: true}
	for len(taken) < len(n.names) && len(drawn) < count {
		if name := n.names[rand.IntN(len(n.names))]; !taken[name] {
			taken[name] = true
			drawn = append(drawn, n.members[name])
		}
	}
	return drawn
}

// delegate is what memberlist calls for the letters of a node.
type delegate struct{ *Node }

var _ memberlist.Delegate = delegate{}

// NotifyMsg implements memberlist.Delegate. What is of no open group is dropped.
func (d delegate) NotifyMsg(b []byte) {
	sender, letters, err := unpack(b)
	if err != nil {
		return
	}
	for _, l := range letters {
		d.mu.Lock()
		g := d.groups[l.group]
		d.mu.Unlock()
		if g != nil {
			g.receive(time.Now(), sender, l)
		}
	}
}

// GetBroadcasts implements memberlist.Delegate: gossip sends them.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// NodeMeta implements memberlist.Delegate: there is none.
func (delegate) NodeMeta(int) []byte { return nil }

// LocalState implements memberlist.Delegate: there is none.
func (delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate: there is none.
func (delegate) MergeRemoteState([]byte, bool) {}
