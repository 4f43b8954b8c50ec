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
	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// ErrGroupInUse means that this member has the group open already.
var ErrGroupInUse = errors.New("election: the group is already open")

// Groups manages the open groups of a node. Its methods may be called concurrently and do not
// block.
type Groups struct {
	mu       sync.Mutex
	open     map[string]*openGroup
	openings uint64 // number of successful calls of Open
}

// Group is an open group.
type Group struct {
	Name      string
	Strategy  Strategy // on this member
	Candidate *leader.Candidate
}

// openGroup is a Group with the source that receives its messages.
type openGroup struct {
	Group
	source *lowestSource // nil unless the strategy is Lowest
}

// isOpen reports whether g is not nil and not closed.
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

// groupMessage is the encoded form of a message of a group.
type groupMessage struct {
	Group  string        `msgpack:"g"`
	Kind   lowest.Kind   `msgpack:"k"`
	Member string        `msgpack:"m"`
	Run    uint64        `msgpack:"r"`
	Seq    uint64        `msgpack:"s"`
	Term   uint64        `msgpack:"t"`
	Age    time.Duration `msgpack:"a"`
}

const (
	// maxQueuedMessages is how many messages from one sender may wait; beyond that, the oldest are
	// dropped.
	maxQueuedMessages = 64
	// openingBits leaves room for a million openings per run of a node.
	openingBits = 20
	// maxIDBytes is the maximum length of the id of a member, which is an address.
	maxIDBytes = 300
)

// NewGroups registers a handler for the messages of groups with mux. Call it before a node
// starts with mux.
func NewGroups(mux *receiver.Mux) *Groups {
	g := &Groups{open: map[string]*openGroup{}}
	receiver.Handle(mux, g.receiveMessage, receiver.Named(eventname.Election),
		receiver.Queue(maxQueuedMessages, receiver.Drop))
	return g
}

// Open opens a group by its name, which must be the same on all members. From then on this member
// takes part, until it closes the Candidate or its node stops. Open does not block.
//
// The node must use the Mux of NewGroups and be an active member (see WaitActive). Otherwise, with
// Lowest, a node that does not see the others yet may lead alone. Open returns ErrGroupInUse, an
// error that joins all faults of the options, or an error if the node has stopped.
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
		this.source = newLowestSource(clusterPeers{n, group, g.openings}, o.Timing, floor)
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
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.open[group] == this {
			delete(g.open, group)
		}
	}()
	return this.Candidate, nil
}

// heldToken returns the token of the state that a node holds.
func heldToken(n *cluster.Node) member.Token {
	v := n.View()
	return member.Token{Version: v.Version, Revision: v.Revision}
}

// heldTerm returns heldToken as a term of Lowest, or 0 if it is too large for one.
func heldTerm(n *cluster.Node) uint64 {
	term, err := heldToken(n).Int64()
	if err != nil {
		return 0
	}
	return uint64(term)
}

// List returns the open groups, sorted by name.
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

// receiveMessage passes a message to its group, or drops it if the group is not open here.
func (g *Groups) receiveMessage(_ context.Context, from member.Member, l groupMessage) error {
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

// clusterPeers implements Peers for the members of a cluster. It includes unreachable members: only
// a leader knows which members are reachable, and a part of the network may have no leader.
type clusterPeers struct {
	node    *cluster.Node
	group   string
	opening uint64 // grows with each Open
}

// Self implements Peers. The run combines the incarnation of the node and the number of the
// opening, so that each later incarnation or opening has a greater run.
func (p clusterPeers) Self() (id string, run uint64) {
	self := p.node.Self()
	return self.Address.String(), self.Incarnation<<openingBits + p.opening
}

func (p clusterPeers) Members() (ids []string) {
	for _, m := range p.node.Members() {
		if m.Status != member.Removed {
			ids = append(ids, m.Address.String())
		}
	}
	return ids
}

func (p clusterPeers) Send(to string, m lowest.Message) {
	l := groupMessage{p.group, m.Kind, m.Member, m.Run, m.Seq, m.Term, m.Age}
	self := p.node.Self().Address
	for _, o := range p.node.Members() {
		if o.Address != self && (to == "" || to == o.Address.String()) {
			_ = p.node.Send(context.Background(), o.Address, l, cluster.BestEffort())
		}
	}
}
