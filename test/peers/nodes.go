// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/athena-go/athena/test/children"
)

// The timings of a cluster.
const (
	shipped  = "shipped"   // the defaults of the library
	halfTime = "500ms"     // leader timeout of 500 ms, heartbeats every 100 ms; nothing else is set
	noticing = "500ms off" // a silent member is detected after 500 ms
)

// nodeSetup describes one node of a cluster to its process.
type nodeSetup struct {
	Peer     string
	Timing   string
	Index, N int
	Dir      string
}

// name returns the name of a node.
func (nodeSetup) name(index int) string { return "n" + strconv.Itoa(index) }

// firstPort is below the ports that the kernel assigns to outgoing connections.
const firstPort = 2000

// port returns a port of a node. Each node has two.
func (nodeSetup) port(index, which int) int { return firstPort + 2*index + which }

func (s nodeSetup) address(index, which int) string {
	return "127.0.0.1:" + strconv.Itoa(s.port(index, which))
}

// nodeView is what a node believes about its cluster.
type nodeView struct {
	Leader  string // name; empty if there is none
	Members int
}

// node is a running member of a cluster.
type node struct {
	view    func() nodeView
	changed func() <-chan struct{} // readable or closed when the view may have changed
	// fill adds records to the table, and lock acquires and releases a lock of its own for each
	// worker. Both functions are nil for peers without locks.
	fill func(from, to int) error
	lock func(worker int) error
}

// nodePeer is a library for clusters.
type nodePeer struct {
	name string
	// largest is the size of the largest cluster that forms on two processors: etcd with 25
	// members, for example, did not.
	largest int
	leads   bool // whether it elects a leader
	locks   bool // whether it has locks
	start   func(nodeSetup) (*node, error)
	prepare func(nodeSetup) error // called before anything else; nil for nothing
}

var nodePeers = []nodePeer{
	{"athena", maxSize, true, true, startAthena(athenaVariant{}), nil},
	{"athena-lease500", maxSize, true, false,
		startAthena(athenaVariant{lease: 500 * time.Millisecond}), nil},
	{"athena-lease350", maxSize, true, false,
		startAthena(athenaVariant{lease: 350 * time.Millisecond}), nil},
	{"athena-trust", maxSize, true, false, startAthena(athenaVariant{trust: true}), nil},
	{"athena-guard", maxSize, true, false, startAthena(athenaVariant{}), guardAthena},
	{"athena-tls", maxSize, true, true, startAthena(athenaVariant{tls: true}), nil},
	{"etcd", 9, true, true, startEtcd, nil},
	{"hashicorp-raft", 25, true, false, startRaft, nil},
	{"memberlist", maxSize, false, false, startMemberlist, nil},
}

func namesOfNodes() []string {
	return namesOf(nodePeers, func(p nodePeer) string { return p.name })
}

func namesOfLockers() []string {
	lockers := slices.DeleteFunc(slices.Clone(nodePeers), func(p nodePeer) bool { return !p.locks })
	return namesOf(lockers, func(p nodePeer) string { return p.name })
}

func namesOf[T any](all []T, name func(T) string) (names []string) {
	for _, p := range all {
		names = append(names, name(p))
	}
	return names
}

func findNodePeer(name string) (nodePeer, error) {
	i := slices.IndexFunc(nodePeers, func(p nodePeer) bool { return p.name == name })
	if i < 0 {
		return nodePeer{}, fmt.Errorf("unknown peer %q", name)
	}
	return nodePeers[i], nil
}

// The orders to a node.
const (
	doStart = "start"
	doFill  = "fill"  // add the records numbered From to To
	doLocks = "locks" // acquire and release locks
)

// order is an order to a node, one line of JSON.
type order struct {
	Do       string
	From, To int
	Workers  int
	For      time.Duration
}

// report is a line of JSON from a node. View is set in reports about the view, and Done in answers.
type report struct {
	At   int64 // monotonic time of the view, or of the first lock
	View *nodeView
	Done string // the order that was executed
	// Count is the number of locks, and End is the time of the last lock.
	Count, End int64
	Fault      string
}

// nodeProcess is the program that runs one node.
type nodeProcess struct {
	node *node

	mu  sync.Mutex // guards out
	out *json.Encoder
}

// runNode starts a node when it is ordered to, prints its views and executes orders. It returns
// when the orders end.
func runNode(s nodeSetup, in io.Reader) error {
	peer, err := findNodePeer(s.Peer)
	if err == nil && peer.prepare != nil {
		err = peer.prepare(s)
	}
	if err != nil {
		return err
	}
	p := &nodeProcess{out: json.NewEncoder(os.Stdout)}
	if err := p.print(report{Done: "ready"}); err != nil {
		return err
	}
	orders := json.NewDecoder(in)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil // the measurement is over
		}
		r := report{Done: o.Do}
		switch o.Do {
		case doStart:
			if p.node, err = peer.start(s); err != nil {
				return fmt.Errorf("%s %d: %w", s.Peer, s.Index, err)
			}
			go p.printViews()
			continue
		case doFill:
			if err := p.node.fill(o.From, o.To); err != nil {
				r.Fault = err.Error()
			}
		case doLocks:
			r.takeLocks(p.node, o)
		}
		if err := p.print(r); err != nil {
			return err
		}
	}
}

// takeLocks acquires and releases locks.
func (r *report) takeLocks(n *node, o order) {
	var err error
	r.Count, r.At, err = sendForDuration(o.Workers, o.For, 0, func(worker int, _ []byte) error {
		return n.lock(worker)
	})
	r.End = children.ReadMonotonic()
	if err != nil {
		r.Fault = err.Error()
	}
}

// printViews prints each view. It does not poll, because a hundred nodes that poll use half a
// processor.
func (p *nodeProcess) printViews() {
	var last nodeView
	for {
		changed := p.node.changed() // taken before the view is read, so that no change is missed
		if v := p.node.view(); v != last {
			last = v
			if p.print(report{At: children.ReadMonotonic(), View: &v}) != nil {
				os.Exit(1) // the measurement has ended
			}
		}
		<-changed
	}
}

func (p *nodeProcess) print(r report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(r)
}

// notification is readable after a change, however many there were.
type notification chan struct{}

func newNotification() notification { return make(notification, 1) }

func (n notification) notify() {
	select {
	case n <- struct{}{}:
	default:
	}
}

func (n notification) changed() <-chan struct{} { return n }
