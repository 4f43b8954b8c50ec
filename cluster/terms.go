// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// clusterTerm is the term of a leader of the cluster.
type clusterTerm struct {
	*leader.Lease
	leader  member.Address
	version uint64
	own     bool      // this node leads
	began   time.Time // time by the node's clock
}

// terms holds the current term. The loop updates it after each turn. A hand-over ends the node's
// own term before the machine gives up its authority.
type terms struct {
	clock func() time.Time
	guard time.Duration // time between the end of a term and the end of its lease

	mu      sync.Mutex
	current *clusterTerm
	// handOvers counts the hand-overs in progress. While it is not 0, no term of this node begins.
	handOvers int
}

// updateTerm ends, extends or begins a term after a change of the view or the lease. If version is
// not 0, this node leads with that version until the given time. updateTerm returns the new term,
// or nil if no term began. When it returns, the contexts of an ended term are canceled.
func (ts *terms) updateTerm(
	now time.Time, view member.View, version uint64, until time.Time,
) *clusterTerm {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	leads := version != 0 && until.Sub(now) > ts.guard && ts.handOvers == 0
	follows := view.Quorate && !view.Leader.IsZero() && view.Leader != view.Self.Address
	switch cur := ts.current; {
	case !leads && !follows:
		ts.endCurrent(view)
		return nil
	case cur != nil && !cur.Ended() && cur.own == leads && cur.version == view.Version &&
		cur.leader == view.Leader && (!leads || cur.Extend(until)):
		return nil
	}
	ts.endCurrent(view)
	ts.current = &clusterTerm{
		leader: view.Leader, version: view.Version, own: leads, began: now,
		Lease: leader.NewLease(leader.LeaseConfig{
			Holder: leader.Holder{
				ID: view.Leader.String(), Token: member.Token{Version: view.Version},
			},
			Own: leads, Until: until, Guard: ts.guard, Clock: ts.clock,
		}),
	}
	return ts.current
}

// endCurrent ends the current term. ts.mu must be held.
func (ts *terms) endCurrent(view member.View) {
	cur := ts.current
	if cur == nil {
		return
	}
	cause := leader.ErrSuperseded
	if cur.own && view.Role == member.Leading && view.Version == cur.version {
		cause = leader.ErrLeaseEnded // the node still leads, but without authority
	}
	cur.End(cause)
}

// closeTerms ends the current term. No term of this node begins afterwards.
func (ts *terms) closeTerms(cause error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.handOvers++ // never decremented
	if ts.current != nil {
		ts.current.End(cause)
	}
}

// waitOwnTerm waits until no function runs under the node's own term, which has ended. If ctx is
// done first, it returns the cause of ctx.
func (ts *terms) waitOwnTerm(ctx context.Context) error {
	ts.mu.Lock()
	cur := ts.current
	ts.mu.Unlock()
	if cur == nil || !cur.own {
		return nil
	}
	return cur.Wait(ctx)
}

// waitGuard is waitOwnTerm for the guard time at most: a cluster needs a leader, so a function must
// stop when its context ends.
func (ts *terms) waitGuard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ts.guard)
	defer cancel()
	_ = ts.waitOwnTerm(ctx)
}

// beginHandOver ends the node's own term. Until endHandOver, no term of this node begins.
func (ts *terms) beginHandOver() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.handOvers++
	if cur := ts.current; cur != nil && cur.own {
		cur.End(leader.ErrResigned)
	}
}

// endOwnTerm begins a hand-over and waits, at most for the guard time, until the functions under
// the node's own term return. The caller must call done after the hand-over.
func (ts *terms) endOwnTerm(ctx context.Context) (done func()) {
	ts.beginHandOver()
	ts.waitGuard(ctx)
	return ts.endHandOver
}

// resignTerm is like endOwnTerm, but returns false if t is not the current term or has ended.
func (ts *terms) resignTerm(ctx context.Context, t leader.Term) (done func(), ok bool) {
	ts.mu.Lock()
	cur := ts.current
	if cur == nil || cur.Term() != t || cur.Ended() {
		ts.mu.Unlock()
		return nil, false
	}
	ts.handOvers++
	cur.End(leader.ErrResigned)
	ts.mu.Unlock()
	ts.waitGuard(ctx)
	return ts.endHandOver, true
}

func (ts *terms) endHandOver() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.handOvers--
}
