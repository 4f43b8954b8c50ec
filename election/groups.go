// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// ErrGroupInUse means that the group is open already.
var ErrGroupInUse = errors.New("election: the group is open already")

// Groups are the groups that one node has open.
type Groups struct {
	mu       sync.Mutex
	open     map[string]*openGroup
	openings uint64 // so far
}

// Group is an open group.
type Group struct {
	Name      string
	Strategy  Strategy // of this member
	Candidate *leader.Candidate
}

// openGroup is a Group, and where its messages go.
type openGroup struct {
	Group
	source *lowestSource // nil but for Lowest
}

// isOpen reports whether the group was not closed yet.
func (g *openGroup) isOpen() bool {
	if g == nil {
		return false
	}
	select {
	case <-g.Candidate.Done():
		return false
	default:
		return true
	}
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

// NewGroups registers a handler for the messages of groups with the Mux of a node, before
// the node starts.
func NewGroups(mux *receiver.Mux) *Groups {
	g := &Groups{open: map[string]*openGroup{}}
	receiver.Handle(mux, g.receive, receiver.Named("athena.election"),
		receiver.Queue(lettersQueued, receiver.Drop))
	return g
}

// Open opens a group by its name, the same on all members; from then on this member takes
// part, until it closes the Candidate or its node ends. Open does not block. The node must
// run with the Mux of NewGroups and be a member (WaitActive): one that sees no others yet
// may lead by Lowest, alone. Open returns ErrGroupInUse if this member has the group open,
// all faults of the options, or an error if the node has ended.
func (g *Groups) Open(n *cluster.Node, group string, o Options) (*leader.Candidate, error) {
	o, err := o.withDefaults(group)
	if err != nil {
		return nil, err
	}
	if err := n.Err(); err != nil {
		return nil, fmt.Errorf("election: open %q: %w", group, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[group].isOpen() {
		return nil, fmt.Errorf("%w: %q", ErrGroupInUse, group)
	}
	g.openings++
	this := &openGroup{Group: Group{Name: group, Strategy: o.Strategy}}
	life, end := context.WithCancelCause(context.Background())
	options := leader.Options{RetryFor: o.RetryFor}
	switch o.Strategy {
	case Quorum:
		this.Candidate = n.Candidate(options)
	case Lowest:
		floor := func() uint64 { return heldTerm(n) }
		this.source = newLowestSource(peers{n, group, g.openings}, o.Timing, floor)
		this.Candidate = leader.New(life, this.source, options)
	case Static:
		self := leader.Holder{ID: n.Self().Address.String(), Token: heldToken(n)}
		this.Candidate = leader.New(life, newFixedSource(self), options)
	case Standby:
		this.Candidate = leader.New(life, newFixedSource(leader.Holder{}), options)
	}
	g.open[group] = this
	go func() {
		select {
		case <-this.Candidate.Done():
		case <-n.Done():
			end(fmt.Errorf("election: the node of %q: %w", group, n.Err()))
			_ = this.Candidate.Close(context.Background())
		}
		end(nil)
	}()
	return this.Candidate, nil
}

// heldToken is the token of the state that a node holds.
func heldToken(n *cluster.Node) member.Token {
	v := n.View()
	return member.Token{Version: v.Version, Revision: v.Revision}
}

// heldTerm is heldToken as a term of Lowest, 0 if it is too great for that.
func heldTerm(n *cluster.Node) uint64 {
	term, err := heldToken(n).Int64()
	if err != nil {
		return 0
	}
	return uint64(term)
}

// List returns the open groups, by name.
func (g *Groups) List() (all []Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.open {
		if o.isOpen() {
			all = append(all, o.Group)
		}
	}
	slices.SortFunc(all, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// receive passes a letter to its group. If that is not open here, the letter is dropped.
func (g *Groups) receive(_ context.Context, from member.Member, l letter) error {
	g.mu.Lock()
	o := g.open[l.Group]
	g.mu.Unlock()
	if o.isOpen() && o.source != nil && len(l.Member) <= maxIDBytes {
		o.source.deliverMessage(from.Address.String(), lowest.Message{
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
