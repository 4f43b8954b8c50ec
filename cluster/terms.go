// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// tenure is a term and what the node knows of its leader.
type tenure struct {
	*leader.Lease
	leader  member.Member // as of the beginning
	version uint64
	own     bool      // this node leads
	began   time.Time // on the node's clock
}

// terms holds the present tenure. The loop updates it by what the machine returns; a
// hand-over may end the node's own tenure before the machine hears of it.
type terms struct {
	clock func() time.Time
	guard time.Duration

	mu      sync.Mutex
	current *tenure
	handing int // hand-overs under way; the node begins no own tenure meanwhile
}

// authority is what the machine says about the node itself: the version that
// it leads until then, 0 for none.
type authority struct {
	version uint64
	until   time.Time
}

// update follows a change of the view or the lease. It returns the tenure that
// began, nil when none did. When it returns, a tenure that is over has ended
// with all its contexts.
func (ts *terms) update(now time.Time, view member.View, own authority) *tenure {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	leads := own.version != 0 && own.until.Sub(now) > ts.guard && ts.handing == 0
	follows := view.Quorate && !view.Leader.IsZero() && view.Leader != view.Self.Address
	switch cur := ts.current; {
	case !leads && !follows:
		ts.end(view)
		return nil
	case cur != nil && !cur.Ended() && cur.own == leads && cur.version == view.Version &&
		cur.leader.Address == view.Leader && (!leads || cur.Extend(own.until)):
		return nil
	}
	ts.end(view)
	ts.current = &tenure{
		leader: memberAt(view, view.Leader), version: view.Version, own: leads, began: now,
		Lease: leader.NewLease(leader.LeaseConfig{
			Holder: leader.Holder{
				ID: view.Leader.String(), Token: member.Token{Version: view.Version},
			},
			Own: leads, Until: own.until, Guard: ts.guard, Clock: ts.clock,
		}),
	}
	return ts.current
}

// end ends the present tenure because of what the view says.
func (ts *terms) end(view member.View) {
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

// close ends the present tenure for good.
func (ts *terms) close(cause error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.handing++ // never decremented
	if ts.current != nil {
		ts.current.End(cause)
	}
}

// handsOver reports whether a hand-over that was asked for is under way.
func (ts *terms) handsOver() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.handing > 0
}

// handOver ends the node's own tenure ahead of its authority, and gives the
// functions that run under it the guard's time to return, as they have when a
// lease ends. The caller hands over and then calls resume.
func (ts *terms) handOver(ctx context.Context) (resume func()) {
	ts.mu.Lock()
	ts.handing++
	cur := ts.current
	ts.mu.Unlock()
	if cur != nil && cur.own {
		ts.endOwn(ctx, cur)
	}
	return ts.resume
}

// giveUp is handOver of one term of this node; false if that is over.
func (ts *terms) giveUp(ctx context.Context, t leader.Term) (resume func(), ok bool) {
	ts.mu.Lock()
	cur := ts.current
	if cur == nil || cur.Term() != t || cur.Ended() {
		ts.mu.Unlock()
		return nil, false
	}
	ts.handing++
	ts.mu.Unlock()
	ts.endOwn(ctx, cur)
	return ts.resume, true
}

func (ts *terms) endOwn(ctx context.Context, own *tenure) {
	own.End(leader.ErrResigned)
	ctx, cancel := context.WithTimeout(ctx, ts.guard)
	defer cancel()
	_ = own.Wait(ctx) // a function that takes longer must stop by its context
}

func (ts *terms) resume() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.handing--
}
