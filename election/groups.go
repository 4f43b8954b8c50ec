// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Groups are the elections of one node.
type Groups struct {
	mu       sync.Mutex
	open     map[string]*opened
	openings uint64 // so far
}

// opened is a group of this node.
type opened struct {
	*Election
	candidate *candidate // nil but by Lowest
}

// letter is a message of a group as it travels.
type letter struct {
	Group  string        `msgpack:"g"`
	Kind   lowest.Kind   `msgpack:"k"`
	Member string        `msgpack:"m"`
	Run    uint64        `msgpack:"r"`
	Seq    uint64        `msgpack:"s"`
	Term   uint64        `msgpack:"t"`
	Age    time.Duration `msgpack:"a"`
}

const (
	// lettersQueued of one sender wait at most; the oldest are dropped.
	lettersQueued = 64
	// openingBits leave room for a million openings before those of the next run of a
	// node, whose incarnation is at least a millisecond of the clock.
	openingBits = 20
	// maxIDBytes bounds the id of a member: an address.
	maxIDBytes = 300
)

// NewGroups prepares the Mux of a node, before that starts, for what the groups of its
// members say to each other.
func NewGroups(mux *receiver.Mux) *Groups {
	g := &Groups{open: map[string]*opened{}}
	receiver.Handle(mux, g.receive, receiver.Named("athena.election"),
		receiver.Queue(lettersQueued, receiver.Drop))
	return g
}

// Open opens a group by its name, the same on all members; from then on this member takes
// part. It does not block. The node must run with the Mux of NewGroups, and be a member
// (WaitActive): one that sees nobody yet may lead by Lowest, alone. ErrGroupInUse
// says that it has the group open already; other errors are faults of the options, all at
// once, or say that the node has ended. The Election ends with its node.
func (g *Groups) Open(n *cluster.Node, group string, o Options) (*Election, error) {
	o, err := o.withDefaults(group)
	if err != nil {
		return nil, err
	}
	if err := n.Err(); err != nil {
		return nil, fmt.Errorf("election: open %q: %w", group, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[group] != nil {
		return nil, fmt.Errorf("%w: %q", ErrGroupInUse, group)
	}
	g.openings++
	e := newElection(group, o, func() { g.forget(group) })
	this := &opened{Election: e}
	switch o.Strategy {
	case Quorum:
		e.openQuorum(n)
	case Lowest:
		this.candidate = e.openLowest(peers{n, group, g.openings})
	case Static:
		e.see(Leadership{Leader: n.Self().Address.String()})
		e.begin(e.life, 0, nil)
	case Standby:
	}
	g.open[group] = this
	go func() {
		for range n.Terms(e.life) { // until the node ends
		}
		if err := n.Err(); err != nil {
			e.end(fmt.Errorf("election: the node of %q: %w", group, err))
			_ = e.Close(context.Background())
		}
	}()
	return e, nil
}

// Elections lists those that are open, by the names of their groups.
func (g *Groups) Elections() (all []*Election) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.open {
		all = append(all, o.Election)
	}
	slices.SortFunc(all, func(a, b *Election) int { return cmp.Compare(a.group, b.group) })
	return all
}

func (g *Groups) forget(group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, group)
}

// receive hands a letter to its group. One that is not open here drops it.
func (g *Groups) receive(_ context.Context, from member.Member, l letter) error {
	g.mu.Lock()
	o := g.open[l.Group]
	g.mu.Unlock()
	if o != nil && o.candidate != nil && len(l.Member) <= maxIDBytes {
		o.candidate.deliver(from.Address.String(), lowest.Message{
			Kind: l.Kind, Member: l.Member, Run: l.Run, Seq: l.Seq, Term: l.Term, Age: l.Age,
		})
	}
	return nil
}

// peers are the members of a cluster as those of a group. Whether a leader reaches them
// says nothing: in a part without one nobody knows.
type peers struct {
	node    *cluster.Node
	group   string
	opening uint64 // grows with each
}

// Self implements Peers: the openings of one run of a node come between it and the next.
func (p peers) Self() (id string, run uint64) {
	self := p.node.Self()
	return self.Address.String(), self.Incarnation<<openingBits + p.opening
}

func (p peers) Members() (ids []string) {
	for _, m := range p.node.Members() {
		if m.Status != member.Removed {
			ids = append(ids, m.Address.String())
		}
	}
	return ids
}

func (p peers) Send(to string, m lowest.Message) {
	l := letter{p.group, m.Kind, m.Member, m.Run, m.Seq, m.Term, m.Age}
	self := p.node.Self().Address
	for _, o := range p.node.Members() {
		if o.Address != self && (to == "" || to == o.Address.String()) {
			_ = p.node.Send(context.Background(), o.Address, l, cluster.BestEffort())
		}
	}
}
