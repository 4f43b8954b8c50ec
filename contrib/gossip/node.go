// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

const (
	// MaxMembers bounds the members that one sees. More are refused.
	MaxMembers = 16384
	// leaveTimeout is for how long it is told that a member leaves, at most.
	leaveTimeout = 5 * time.Second
)

// errFull is what memberlist logs of a member that is refused.
var errFull = errors.New("gossip: it has no sound name and address, or there are too many")

// Node is one member. Its methods may be called from any goroutine.
type Node struct {
	name      string
	log       *slog.Logger
	seedNames []string
	interval  time.Duration // of gossip
	list      *memberlist.Memberlist
	stop      context.CancelFunc
	running   sync.WaitGroup // gossip and rejoin

	opening sync.Mutex // is held while a group is opened
	run     uint64     // of the group that was opened last
	mu      sync.Mutex
	closed  bool
	members map[string]memberlist.Node // this one among them
	names   []string                   // of members, sorted; replaced, never changed
	lost    map[string]lost
	groups  map[string]*group
	queue   queue
}

// Start listens and joins the first of the seeds that answers within a RejoinInterval;
// whoever starts first finds none. Seeds and members that are not there are looked for on.
// ctx bounds only the start.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		name: cfg.Name, log: cfg.Logger,
		seedNames: cfg.Seeds,
		members:   map[string]memberlist.Node{}, lost: map[string]lost{}, groups: map[string]*group{},
	}
	m, err := cfg.memberlist()
	if err != nil {
		return nil, err
	}
	m.Delegate, m.Events, m.Alive = delegate{n}, events{n}, events{n}
	n.interval = m.GossipInterval
	if n.list, err = memberlist.Create(m); err != nil {
		return nil, fmt.Errorf("gossip: start %q: %w", cfg.Name, err)
	}
	life, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.joinSeed(ctx, cfg.RejoinInterval)
	n.running.Add(2)
	go n.rejoin(life, cfg.RejoinInterval)
	go n.gossip(life, m.GossipNodes, m.RetransmitMult)
	if err := context.Cause(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("gossip: start %q: %w", cfg.Name, err), n.Close())
	}
	return n, nil
}

// Name is the id of this member.
func (n *Node) Name() string { return n.name }

// Addr is what others dial.
func (n *Node) Addr() string { return n.list.LocalNode().Address() }

// Members are the names of all members that this one sees, itself among them, sorted. They are
// not to be changed.
func (n *Node) Members() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names
}

// Open opens a group by its name; from then on this member takes part. It does not block.
// The Strategy must be election.Lowest. A group travels by those that have it open: where
// those are few of the members, give them a gossip of their own. ErrGroupInUse says that it
// is open already, ErrClosed that the node is closed; the other errors are faults of the
// options. The Candidate ends with its node.
//
// The run of the member is the time by its clock: one that opens the group anew after that
// went back is not heard until it is later than before, or the others have forgotten it.
func (n *Node) Open(name string, o election.Options) (*leader.Candidate, error) {
	n.opening.Lock()
	defer n.opening.Unlock()
	n.mu.Lock()
	closed, used := n.closed, n.groups[name] != nil
	n.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("gossip: open %q: %w", name, leader.ErrClosed)
	case used:
		return nil, fmt.Errorf("gossip: open %q: %w", name, election.ErrGroupInUse)
	}
	if o.Timing == (election.Timing{}) {
		o.Timing = election.DefaultTiming()
	}
	n.run = max(n.run+1, uint64(time.Now().UnixNano()))
	g := &group{node: n, name: name, run: n.run, timing: o.Timing, heard: map[string]mark{}}
	var err error
	if g.candidate, g.deliver, err = election.Over(g, name, o); err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.groups[name] = g
	n.mu.Unlock()
	go func() {
		<-g.candidate.Done()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.groups, name)
	}()
	return g.candidate, nil
}

// Leave closes all elections, as each Close does, tells the others that this member
// leaves, and closes the node. When ctx ends first, the node is closed all the same.
func (n *Node) Leave(ctx context.Context) error {
	elections, first := n.end()
	if !first {
		return n.Close()
	}
	var faults []error
	for _, e := range elections {
		faults = append(faults, e.Close(ctx))
	}
	ctx, stop := context.WithTimeout(ctx, leaveTimeout)
	defer stop()
	n.drain(ctx) // what a member says that has left counts no more
	end, _ := ctx.Deadline()
	if err := n.list.Leave(max(time.Millisecond, time.Until(end))); err != nil {
		faults = append(faults, fmt.Errorf("gossip: leave: %w", err))
	}
	return errors.Join(append(faults, n.shut())...)
}

// drain waits until all letters were sent, or ctx ends.
func (n *Node) drain(ctx context.Context) {
	t := time.NewTicker(n.interval)
	defer t.Stop()
	for n.waits() && ctx.Err() == nil {
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// waits reports whether there is a letter to send, and somebody to send it to.
func (n *Node) waits() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.names) > 1 && len(n.queue.waiting) > 0
}

// Close closes the node without a word to the others, and all its elections. It blocks
// until the work of those has returned. Another call does nothing but wait for that.
func (n *Node) Close() error {
	elections, first := n.end()
	var err error
	if first {
		err = n.shut()
	}
	for _, e := range elections {
		_ = e.Close(context.Background()) // only its context could be an error
	}
	n.running.Wait()
	return err
}

// end lets nothing more be opened, and reports what is open and whether this is the first
// call.
func (n *Node) end() (open []*leader.Candidate, first bool) {
	n.opening.Lock()
	defer n.opening.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	first = !n.closed
	n.closed = true
	for _, g := range n.groups {
		open = append(open, g.candidate)
	}
	return open, first
}

// shut ends all that goes to the network.
func (n *Node) shut() error {
	n.stop()
	err := n.list.Shutdown()
	n.running.Wait()
	if err != nil {
		return fmt.Errorf("gossip: close: %w", err)
	}
	return nil
}

// events is what memberlist calls for the members of a node, with its own lock held.
type events struct{ *Node }

var (
	_ memberlist.EventDelegate = events{}
	_ memberlist.AliveDelegate = events{}
)

// NotifyAlive implements memberlist.AliveDelegate.
func (e events) NotifyAlive(m *memberlist.Node) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.members[m.Name]
	if !isName(m.Name, MaxNameBytes) || !addrOf(m.Addr, m.Port).IsValid() || m.Port == 0 ||
		!known && len(e.members) >= MaxMembers {
		return errFull
	}
	return nil
}

// NotifyJoin implements memberlist.EventDelegate.
func (e events) NotifyJoin(m *memberlist.Node) { e.NotifyUpdate(m) }

// NotifyUpdate implements memberlist.EventDelegate.
func (e events) NotifyUpdate(m *memberlist.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.members[m.Name] = *m
	delete(e.lost, m.Name)
	if i, known := slices.BinarySearch(e.names, m.Name); !known {
		e.names = slices.Concat(e.names[:i], []string{m.Name}, e.names[i:])
	}
}

// NotifyLeave implements memberlist.EventDelegate. memberlist does not say here whether the
// member left or was lost.
func (e events) NotifyLeave(m *memberlist.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.members, m.Name)
	if m.Name != e.name {
		e.lose(time.Now(), m.Name, addrOf(m.Addr, m.Port))
	}
	for _, g := range e.groups {
		g.forget()
	}
	if i, known := slices.BinarySearch(e.names, m.Name); known {
		e.names = slices.Concat(e.names[:i], e.names[i+1:])
	}
}
