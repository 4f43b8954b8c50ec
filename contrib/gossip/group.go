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
	// maxGone limits the number of former members that a group remembers. The limit also grows with
	// the number of members.
	maxGone = 64
	// moreSent multiplies the number of transmissions of memberlist, because half of the members may
	// just have been cut off, or may not have opened the group.
	moreSent = 2
)

// group is an open group. It implements election.Peers. The mutex of the node guards the fields
// that change.
type group struct {
	node      *Node
	name      string
	run       uint64
	timing    election.Timing
	candidate *leader.Candidate
	deliver   func(from string, m lowest.Message)

	heard  map[string]mark // the newest message of each member
	lowest proposal        // the lowest proposal forwarded
}

// mark orders the messages of one member.
type mark struct{ run, seq uint64 }

// isAfter reports whether a is newer than b.
func (a mark) isAfter(b mark) bool { return a.run > b.run || a.run == b.run && a.seq > b.seq }

// proposal is a proposal and the time when it was made. The zero value means no proposal.
type proposal struct {
	member string
	said   time.Time
}

// Self implements election.Peers.
func (g *group) Self() (id string, run uint64) { return g.node.name, g.run }

// Members implements election.Peers.
func (g *group) Members() []string { return g.node.Members() }

// Send implements election.Peers. It sends a declaration to all members even if it answers a
// proposal, because proposals of others may have been lost.
func (g *group) Send(to string, m lowest.Message) {
	n := g.node
	l := groupMessage{group: g.name, relayed: m.Member != n.name, Message: m}
	n.mu.Lock()
	if !l.relayed && (to == "" || m.Kind == lowest.Declaration) {
		g.queueMessage(time.Now(), l)
	}
	peer, known := n.members[to]
	n.mu.Unlock()
	if known {
		_ = n.list.SendBestEffort(&peer, packMessages(n.name, l.bytes())) // may be lost
	}
}

// receive processes a message from its sender.
func (g *group) receive(now time.Time, sender string, l groupMessage) {
	g.node.mu.Lock()
	from := g.acceptMessage(now, sender, l)
	g.node.mu.Unlock()
	if from == l.Member {
		l.Age = 0
	}
	if from != "" {
		g.deliver(from, l.Message)
	}
}

// acceptMessage returns the member to which a message is attributed, or "" if the message must be
// dropped. A new message is attributed to the member that made it, and is forwarded. A relayed
// message is attributed to the member that relayed it. A message that is too old has waited in the
// queue of a member that was cut off.
func (g *group) acceptMessage(now time.Time, sender string, l groupMessage) (from string) {
	self, members := g.node.name, g.node.members
	if l.Age >= g.timing.Alive || l.Member == self || sender == self {
		return ""
	}
	m, last := mark{l.Run, l.Seq}, g.heard[l.Member]
	if _, known := members[l.Member]; known && !l.relayed {
		if !m.isAfter(last) {
			return ""
		}
		g.heard[l.Member] = m
		g.queueMessage(now, l)
		return l.Member
	}
	// This node may not see the leader as a member, by mistake or because the leader is new. It then
	// learns of the leader from relayed messages.
	if _, known := members[sender]; known && l.Kind == lowest.Declaration &&
		sender != l.Member && !last.isAfter(m) {
		return sender
	}
	return ""
}

// forgetFormer drops the marks of former members once there are many. Without its mark, a member
// that has left may appear as the leader because of a delayed relay.
func (g *group) forgetFormer() {
	if len(g.heard) < 2*len(g.node.members)+maxGone {
		return
	}
	for name := range g.heard {
		if _, known := g.node.members[name]; !known {
			delete(g.heard, name)
		}
	}
}

// queueMessage queues a message of a member and replaces an older one of that member. The message
// is sent to a few members, and reaches all members because each of them forwards it.
//
// All proposals share one place in the queue. For a Sample, a higher proposal does not replace a
// lower one. No member waits for a higher proposal, and if all members propose together, their
// messages would displace each other. A leader answers the lowest proposal with a declaration to
// all members. This answer also reaches the members that propose less than a Sample later, because
// they have already opened the group.
func (g *group) queueMessage(now time.Time, l groupMessage) {
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

// sendQueued sends queued messages, at the rate of memberlist, until ctx ends. It sends its own
// packets, because memberlist would send its own messages first. These are most numerous when the
// network is partitioned and new leaders are needed.
func (n *Node) sendQueued(ctx context.Context, peers, mult int) {
	defer n.running.Done()
	t := time.NewTicker(n.interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if !n.hasMessages() {
			continue
		}
		for _, p := range n.pickMembers(peers) {
			n.mu.Lock()
			room, times := packetBytes-len(packMessages(n.name)), transmissions(mult, len(n.names))
			messages := n.queue.take(time.Now(), room, times)
			n.mu.Unlock()
			if len(messages) == 0 {
				break
			}
			_ = n.list.SendBestEffort(&p, packMessages(n.name, messages...)) // others send the same messages
		}
	}
}

// pickMembers returns up to the given number of other members, chosen at random.
func (n *Node) pickMembers(count int) (drawn []memberlist.Node) {
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

// delegate receives the messages of a node from memberlist.
type delegate struct{ *Node }

var _ memberlist.Delegate = delegate{}

// NotifyMsg implements memberlist.Delegate. It drops messages of groups that are not open.
func (d delegate) NotifyMsg(b []byte) {
	sender, messages, err := unpackMessages(b)
	if err != nil {
		return
	}
	for _, l := range messages {
		d.mu.Lock()
		g := d.groups[l.group]
		d.mu.Unlock()
		if g != nil {
			g.receive(time.Now(), sender, l)
		}
	}
}

// GetBroadcasts implements memberlist.Delegate. It returns nothing: sendQueued sends the messages.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// NodeMeta implements memberlist.Delegate. It is not used.
func (delegate) NodeMeta(int) []byte { return nil }

// LocalState implements memberlist.Delegate. It is not used.
func (delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate. It is not used.
func (delegate) MergeRemoteState([]byte, bool) {}
