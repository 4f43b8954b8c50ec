// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/member"
)

// Term is one period in which one member leads with authority, as this node
// sees it. Terms are small values to pass on. The zero Term is never valid.
type Term struct{ t *tenure }

// Leader is the member that leads, as of the beginning of the term.
func (t Term) Leader() member.Member {
	if t.t == nil {
		return member.Member{}
	}
	return t.t.leader
}

// Token is the fencing token: the version of the leader. It grows with every
// leader for the whole life of the cluster, and no two nodes share one. Two
// terms of one leader may, when its lease lapsed for a while in between.
func (t Term) Token() uint64 {
	if t.t == nil {
		return 0
	}
	return t.t.token
}

// Valid reports whether this node leads with authority at this moment. It
// reads the clock. It is false on every node but the leader, and never true
// again once it was false: where the node has authority again after its lease
// lapsed, also while process or machine stood still, another term begins. In a
// virtual machine that was stopped together with its clocks it may be true for up
// to 0.9 LeaseTimeout beside the term of another leader, unless the wall clock is
// set forward before (docs/safety.md): storage must compare tokens.
func (t Term) Valid() bool { return t.t != nil && t.t.remaining() > 0 }

// Deadline is when authority ends unless it is extended; zero when it has
// ended, and on every node but the leader.
func (t Term) Deadline() time.Time {
	if t.t == nil {
		return time.Time{}
	}
	left := t.t.remaining()
	if left <= 0 {
		return time.Time{}
	}
	return time.Now().Add(left)
}

// Done is closed when the term is over as far as this node knows: on the
// leader before its authority ends, or late by the length of a pause of the
// whole process. It is nil for the zero Term.
func (t Term) Done() <-chan struct{} {
	if t.t == nil {
		return nil
	}
	return t.t.done
}

// Err is why the term is over, nil while it is not.
func (t Term) Err() error {
	if t.t == nil {
		return nil
	}
	t.t.mu.Lock()
	defer t.t.mu.Unlock()
	return t.t.cause
}

// Do runs fn with a context that ends with ctx or with the term, whose Err is then its
// cause, and returns what fn does. It returns that Err, or *NotLeaderError, where this
// node does not lead by the term. When leadership is handed over, that waits a moment for
// fn.
func (t Term) Do(ctx context.Context, fn func(context.Context) error) error {
	if t.t == nil || !t.t.own {
		return &NotLeaderError{Leader: t.Leader().Address}
	}
	ctx, end := t.t.begin(ctx)
	defer end()
	if err := t.Err(); err != nil {
		return err
	}
	return fn(ctx)
}

// tenure is what all copies of a Term share.
type tenure struct {
	leader member.Member
	token  uint64
	began  time.Time // on the node's clock
	own    bool      // this node leads
	clock  func() time.Time
	guard  time.Duration // how long before the lease ends the tenure does
	done   chan struct{} // closed by end
	// until is the end of the lease, UnixNano of clock. It is 0 once somebody saw
	// that it has passed, and stays so.
	until atomic.Int64

	mu    sync.Mutex
	cause error
	timer *time.Timer // ends an own tenure, also while the loop is held up
	uses  []*use
}

// use is one run of a function that may only run within the tenure.
type use struct {
	cancel context.CancelCauseFunc
	left   chan struct{} // closed when the function returned
}

// remaining is how long authority lasts at least; 0 when it is over, and from
// then on: a lease that somebody saw lapse is extended no more.
func (t *tenure) remaining() time.Duration {
	for {
		until := t.until.Load()
		if until == 0 {
			return 0
		}
		if left := until - t.clock().UnixNano(); left > 0 {
			return time.Duration(left)
		}
		if t.until.CompareAndSwap(until, 0) {
			return 0
		}
	}
}

// ended reports whether the tenure is over.
func (t *tenure) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// start sets the end of the lease, and the timer.
func (t *tenure) start(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until.Store(until.UnixNano())
	t.timer = time.AfterFunc(t.remaining()-t.guard, t.expire)
}

// extend moves the end of the lease, and reports whether the tenure goes on. The
// timer finds the new end when it fires. Where process or machine stood still it
// may fire after the loop took the echoes that waited; a lease that lapsed before
// ends the tenure all the same.
func (t *tenure) extend(until time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.until.Load()
	if t.remaining() == 0 || !t.until.CompareAndSwap(last, until.UnixNano()) {
		t.endLocked(ErrLeaseEnded)
		return false
	}
	return true
}

// expire runs when the lease was about to end as of some time ago. A clock that blocks,
// as that of a paused node does in a test, blocks nobody who wants the lock.
func (t *tenure) expire() {
	now := t.clock().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	left := time.Duration(t.until.Load()-now) - t.guard
	if t.cause == nil && left > 0 {
		t.timer.Reset(left)
		return
	}
	t.endLocked(ErrLeaseEnded)
}

// end is final; only the first cause counts. All contexts have ended when it
// returns.
func (t *tenure) end(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(cause)
}

func (t *tenure) endLocked(cause error) {
	if t.cause != nil {
		return
	}
	t.cause = cause
	t.until.Store(0)
	if t.timer != nil {
		t.timer.Stop()
	}
	for _, u := range t.uses {
		u.cancel(cause)
	}
	close(t.done)
}

// begin returns a context that ends with parent or with the tenure, and what
// the function that runs under it calls when it returns.
func (t *tenure) begin(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	u := &use{cancel, make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause != nil {
		cancel(t.cause)
	}
	t.uses = append(t.uses, u)
	return ctx, func() {
		cancel(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.uses = slices.DeleteFunc(t.uses, func(o *use) bool { return o == u })
		close(u.left)
	}
}

// running lists the functions that run under the tenure.
func (t *tenure) running() []*use {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.uses)
}
