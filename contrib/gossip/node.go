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
	// MaxMembers is the maximum number of members. A node refuses more.
	MaxMembers = 16384
	// leaveTimeout bounds how long Leave announces that the member leaves.
	leaveTimeout = 5 * time.Second
)

// errFull is the error that memberlist logs if a member is refused.
var errFull = errors.New(
	"gossip: refused a member: its name or address is invalid, or there are too many members")

// Node is one member. Its methods may be called concurrently.
type Node struct {
	name      string
	log       *slog.Logger
	seedNames []string
	interval  time.Duration // memberlist's GossipInterval
	list      *memberlist.Memberlist
	stop      context.CancelFunc
	running   sync.WaitGroup // gossip and rejoin

	opening sync.Mutex // held while a group is being opened
	run     uint64     // run number of the group opened last
	mu      sync.Mutex
	closed  bool
	members map[string]memberlist.Node // including this one
	names   []string                   // names of the members, sorted; never changed in place
	lost    map[string]lost
	groups  map[string]*group
	queue   queue
}

// Start listens and joins the first seed that answers within a RejoinInterval. If no seed answers,
// the node starts alone. It keeps looking for seeds and lost members. ctx only applies to the
// start.
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
	go n.rejoinLost(life, cfg.RejoinInterval)
	go n.sendQueued(life, m.GossipNodes, m.RetransmitMult)
	if err := context.Cause(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("gossip: start %q: %w", cfg.Name, err), n.Close())
	}
	return n, nil
}

// Name returns the id of this member.
func (n *Node) Name() string { return n.name }

// Addr returns the address that this member advertises.
func (n *Node) Addr() string { return n.list.LocalNode().Address() }

// Members returns the sorted names of all known members, including this one. The caller must not
// change the slice.
func (n *Node) Members() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names
}

// Open opens a group by its name, so that this member takes part in its elections. It does not
// block. The Strategy must be election.Lowest. The Candidate ends with its node.
//
// Only the members that have opened a group forward its messages. If only a small part of all
// members opens a group, start separate Nodes for this group. Open returns election.ErrGroupInUse
// if the group is already open, leader.ErrClosed if the node is closed, or an error that lists the
// invalid options.
//
// The time of opening identifies the run of a member. If the clock of a member is set back before
// the member opens the group again, other members ignore it until the clock has caught up or they
// have forgotten the member.
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

// Leave closes all Candidates, announces that this member leaves, and closes the node. If ctx is
// done first, the node is still closed.
func (n *Node) Leave(ctx context.Context) error {
	elections, first := n.beginClose()
	if !first {
		return n.Close()
	}
	var faults []error
	for _, e := range elections {
		faults = append(faults, e.Close(ctx))
	}
	ctx, stop := context.WithTimeout(ctx, leaveTimeout)
	defer stop()
	n.drainQueue(ctx) // messages of a member that has left are dropped
	end, _ := ctx.Deadline()
	if err := n.list.Leave(max(time.Millisecond, time.Until(end))); err != nil {
		faults = append(faults, fmt.Errorf("gossip: leave: %w", err))
	}
	return errors.Join(append(faults, n.stopNetwork())...)
}

// drainQueue waits until all messages have been sent or ctx is done.
func (n *Node) drainQueue(ctx context.Context) {
	t := time.NewTicker(n.interval)
	defer t.Stop()
	for n.hasMessages() && ctx.Err() == nil {
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// hasMessages reports whether there are messages to send and another member to receive them.
func (n *Node) hasMessages() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.names) > 1 && len(n.queue.waiting) > 0
}

// Close closes the node and all Candidates without an announcement. It blocks until their
// functions have returned. Later calls only wait.
func (n *Node) Close() error {
	elections, first := n.beginClose()
	var err error
	if first {
		err = n.stopNetwork()
	}
	for _, e := range elections {
		_ = e.Close(context.Background()) // only fails if its context is done
	}
	n.running.Wait()
	return err
}

// beginClose makes the node refuse further groups. It returns the open Candidates and whether this
// is the first call.
func (n *Node) beginClose() (open []*leader.Candidate, first bool) {
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

// stopNetwork ends all use of the network.
func (n *Node) stopNetwork() error {
	n.stop()
	err := n.list.Shutdown()
	n.running.Wait()
	if err != nil {
		return fmt.Errorf("gossip: close: %w", err)
	}
	return nil
}

// events receives member changes from memberlist, which holds its lock during the calls.
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

// NotifyLeave implements memberlist.EventDelegate. memberlist calls it for members that have left
// and for lost members.
func (e events) NotifyLeave(m *memberlist.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.members, m.Name)
	if m.Name != e.name {
		e.addLost(time.Now(), m.Name, addrOf(m.Addr, m.Port))
	}
	for _, g := range e.groups {
		g.forgetFormer()
	}
	if i, known := slices.BinarySearch(e.names, m.Name); known {
		e.names = slices.Concat(e.names[:i], e.names[i+1:])
	}
}
