// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/clock"
	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/recordtable"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
)

// Node is a running member of a cluster. Its methods may be called from any goroutine,
// except that Leave and Close must not be called from a handler of its own receiver.
type Node struct {
	cfg      settings
	log      *slog.Logger
	clock    func() time.Time
	steps    clock.StepWatch // used by the loop only
	started  time.Time       // on clock
	store    store.Store
	keys     storeKeys
	volatile bool // the store is in memory
	net      *mesh.Mesh
	mux      *receiver.Mux
	receives bool // whether mux was started for this node

	credentials atomic.Pointer[credentials] // nil if the node is insecure

	machine   *statemachine.Machine // used by the loop only
	recorder  diagnosis.Recorder    // used by the loop only; nil except in tests
	inbox     chan inboxEntry
	large     chan struct{}           // semaphore: has an entry for each large message in memory
	strangers chan struct{}           // the same for messages of strangers
	refusals  chan statemachine.Probe // leaders whose hosts refuse packets to the port
	claims    chan claim
	relays    chan message.Message // of workers
	calls     chan loopCall

	messages  *messaging.Messenger
	records   *recordtable.Table
	works     works
	snapshots snapshotCell
	terms     terms
	candidate *leader.Candidate // of WhileLeader
	hub       hub
	reporter  *diagnosis.Reporter
	drained   atomic.Bool
	ended     atomic.Pointer[member.Identity] // the last run whose proof was valid; see readEnd
	// replacedBy is the reason with which a node last refused this run in favor of a later one.
	replacedBy atomic.Pointer[string]
	work       sync.WaitGroup // goroutines other than the loop

	life     context.Context         // done once the node starts to shut down
	stop     context.CancelCauseFunc // cancels life; only the first cause counts
	done     chan struct{}           // closed when the node has stopped
	closeErr error                   // the error of shutdown; set before done is closed
}

// nodeKey is the context key under which handlers find their node.
type nodeKey struct{}

// FromContext returns the node whose handler was called with ctx or with a context from which ctx
// is derived. It returns nil for any other context. It works in handlers of Config.Receiver even
// before Start has returned the node.
func FromContext(ctx context.Context) *Node {
	n, _ := ctx.Value(nodeKey{}).(*Node)
	return n
}

// Self returns the member entry of this run of the node. Its status is None until a leader has
// admitted the node. Its preference and labels are those that the node announces.
func (n *Node) Self() member.Member {
	s := n.currentSnapshot()
	return n.selfEntry(s.view, s.traits)
}

func (n *Node) selfEntry(v member.View, traits member.Traits) member.Member {
	m, ok := v.Member(v.Self.Address)
	if !ok || m.Identity != v.Self {
		m = member.Member{
			Identity: v.Self,
			Name:     n.cfg.Name,
			Seed:     slices.Contains(n.cfg.seeds, n.cfg.self),
		}
	}
	m.Traits = traits
	return m
}

// View returns a copy of the node's current view.
func (n *Node) View() member.View { return cloneView(n.currentSnapshot().view) }

// Members returns the members of the view, whatever their status, sorted by address.
func (n *Node) Members() []member.Member { return n.View().Members }

// Events yields the current view as a Snapshot, and then each change, until ctx is done or the node
// stops. Up to 256 events are queued for a reader; a reader that falls further behind gets Lagged
// and a new Snapshot. Readers never delay the node.
func (n *Node) Events(ctx context.Context) iter.Seq[Event] {
	return n.hub.readEvents(ctx, n.life.Done())
}

// WaitActive blocks until a quorate leader has at least the given number of active members. The
// members of a provisional leader do not count, since its view may be discarded when a leader is
// elected. If the node stops, the error wraps that of Node.Err. If ctx is done first, it wraps the
// cause of ctx, and ErrNoQuorum if there is no quorate leader.
func (n *Node) WaitActive(ctx context.Context, count int) error {
	for {
		s, changed := n.snapshots.watch()
		active := s.view.Members.Count(member.Active)
		quorate := s.liveTerm() != nil
		if quorate && active >= count {
			return nil
		}
		err := n.waitChange(ctx, changed)
		switch {
		case err != nil && quorate:
			return fmt.Errorf("cluster: %d members active, not %d: %w", active, count, err)
		case err != nil:
			return n.noQuorumError(err)
		}
	}
}

// waitChange blocks until the channel is closed, the node stops, or ctx is done. It returns why the
// node stopped, or else the cause of ctx, or nil if only the channel was closed.
func (n *Node) waitChange(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
	case <-ctx.Done():
	case <-n.life.Done():
	}
	return cmp.Or(n.Err(), context.Cause(ctx))
}

// Close stops the node and blocks until it has stopped. A leader ends its term, waits for its
// functions, but at most half a HeartbeatInterval, and gives up leadership, so another member leads
// within a few round trips. Apart from that, the other members are not notified: they notice the
// silence of the node after a HeartbeatTimeout, and its records end later. Close returns what
// failed while the node stopped, for example a handler that did not return. Later calls return the
// same error.
func (n *Node) Close() error {
	n.stop(ErrClosed)
	<-n.done
	return n.closeErr
}

// Done returns a channel that is closed when the node has stopped, after Close, Leave or a failure.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the node is stopping or has stopped: ErrClosed, ErrLeft, or the failure that
// stopped it. It returns nil while the node runs.
func (n *Node) Err() error { return context.Cause(n.life) }
