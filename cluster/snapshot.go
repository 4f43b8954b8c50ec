// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/member"
)

// snapshot is what a node knows at one moment. Readers share it and must not change it.
type snapshot struct {
	view member.View
	term *clusterTerm // the newest term, which may have ended; nil before the first term
	held member.State
	// provisional reports whether the leader of the view declared itself and was not
	// elected.
	provisional bool
	votesAt     time.Time     // when the node may vote again
	traits      member.Traits // of this node; the leader may not have published them yet
	rosterLost  bool          // the roster in held can never elect a leader again
}

// withView returns a copy of s with the given view and held state.
func (s snapshot) withView(view member.View, held member.State) snapshot {
	s.view, s.held = view, held
	s.provisional = view.Role == member.Provisional || view.Role == member.Following &&
		(held.Leader != view.Leader || held.Version != view.Version)
	return s
}

// liveTerm returns the term of the current leader, which may be another node. Without a leader it
// returns nil.
func (s *snapshot) liveTerm() *clusterTerm {
	if s.term == nil || s.term.Ended() {
		return nil
	}
	return s.term
}

// currentSnapshot returns what the node knows now.
func (n *Node) currentSnapshot() *snapshot {
	if s := n.snapshots.latest.Load(); s != nil {
		return s
	}
	return &snapshot{} // Start has not created the machine yet
}

// snapshotCell holds the latest snapshot and wakes its readers. A slow reader may miss
// snapshots, but never the last one.
type snapshotCell struct {
	latest  atomic.Pointer[snapshot] // nil before the first call of store
	mu      sync.Mutex
	changed chan struct{} // nil if no reader waits
}

// store replaces the snapshot.
func (c *snapshotCell) store(s snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest.Store(&s)
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// watch returns the latest snapshot, and a channel that is closed when there is a newer one.
func (c *snapshotCell) watch() (*snapshot, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	s := c.latest.Load()
	if s == nil {
		s = &snapshot{}
	}
	return s, c.changed
}
