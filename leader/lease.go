// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// unlimited is the result of Remaining for a lease without a deadline.
const unlimited = time.Duration(math.MaxInt64)

// LeaseConfig describes a new term.
type LeaseConfig struct {
	Holder Holder
	// Own reports whether this process leads. If not, the term is never valid and no function runs
	// under it.
	Own bool
	// Until is the time by Clock at which a lease of this process ends unless it is extended. If it is
	// zero, the lease lasts until End.
	Until time.Time
	// The term ends Guard before Until, so that functions have time to return.
	Guard time.Duration
	Clock func() time.Time // nil is time.Now
}

// Lease is the handle with which a strategy extends and ends a Term.
type Lease struct {
	holder Holder
	own    bool
	clock  func() time.Time
	guard  time.Duration
	done   chan struct{} // closed by End
	// until is the end of the lease as UnixNano of clock, or MaxInt64 if there is no deadline. The
	// first caller that finds that time in the past sets until to 0 forever.
	until atomic.Int64

	mu    sync.Mutex
	cause error
	timer *time.Timer // ends the term even if the strategy is delayed
	runs  []*run
}

// run is a function that may run only within the term.
type run struct {
	cancel   context.CancelCauseFunc
	returned chan struct{} // closed when the function has returned
}

// NewLease begins a term.
func NewLease(c LeaseConfig) *Lease {
	l := &Lease{
		holder: c.Holder, own: c.Own, clock: c.Clock, guard: c.Guard, done: make(chan struct{}),
	}
	if l.clock == nil {
		l.clock = time.Now
	}
	switch {
	case !c.Own:
	case c.Until.IsZero():
		l.until.Store(math.MaxInt64)
	default:
		l.mu.Lock() // the timer may fire before it is assigned
		defer l.mu.Unlock()
		l.until.Store(c.Until.UnixNano())
		l.timer = time.AfterFunc(l.Remaining()-l.guard, l.expire)
	}
	return l
}

// Term returns the term of the lease.
func (l *Lease) Term() Term { return Term{l} }

// Remaining returns the remaining time of the lease, or 0 if it has ended. After Remaining has
// returned 0, the lease cannot be extended.
func (l *Lease) Remaining() time.Duration {
	for {
		until := l.until.Load()
		switch {
		case until == 0:
			return 0
		case until == math.MaxInt64:
			return unlimited
		}
		if left := until - l.clock().UnixNano(); left > 0 {
			return time.Duration(left)
		}
		if l.until.CompareAndSwap(until, 0) {
			return 0
		}
	}
}

// Ended reports whether the term has ended.
func (l *Lease) Ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Extend sets a new deadline, which the timer reads when it fires, and reports whether the term
// continues. After a pause of the process, the strategy may run before the timer; if the lease has
// already lapsed, Extend ends the term.
func (l *Lease) Extend(until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.until.Load()
	if l.Remaining() == 0 || !l.until.CompareAndSwap(last, until.UnixNano()) {
		l.endLocked(ErrLeaseEnded)
		return false
	}
	return true
}

// End ends the term with the given cause. When it returns, all contexts have ended. Later calls of
// End do not change the cause.
func (l *Lease) End(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(cause)
}

// Wait blocks until no function runs under the term. If ctx is done first, it returns the
// cause of ctx.
func (l *Lease) Wait(ctx context.Context) error {
	l.mu.Lock()
	runs := slices.Clone(l.runs)
	l.mu.Unlock()
	for _, r := range runs {
		select {
		case <-r.returned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// expire runs when the timer fires; the deadline may have been extended since the timer was set. It
// reads the clock before it locks the mutex: a clock that blocks, such as that of a paused node in
// a test, must not block other callers.
func (l *Lease) expire() {
	now := l.clock().UnixNano()
	l.mu.Lock()
	defer l.mu.Unlock()
	left := time.Duration(l.until.Load()-now) - l.guard
	if l.cause == nil && left > 0 {
		l.timer.Reset(left)
		return
	}
	l.endLocked(ErrLeaseEnded)
}

// endLocked ends the term. l.mu must be held.
func (l *Lease) endLocked(cause error) {
	if l.cause != nil {
		return
	}
	l.cause = cause
	l.until.Store(0)
	if l.timer != nil {
		l.timer.Stop()
	}
	for _, r := range l.runs {
		r.cancel(cause)
	}
	close(l.done)
}

func (l *Lease) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// beginUse returns a context that ends with parent or with the term. The caller must call the
// function end when the function that uses the context has returned.
func (l *Lease) beginUse(parent context.Context) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(parent)
	r := &run{cancel, make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Remaining() == 0 { // after a pause of the process, the caller may run before the timer
		l.endLocked(ErrLeaseEnded)
	}
	if l.cause != nil {
		cancel(l.cause)
	}
	l.runs = append(l.runs, r)
	return ctx, func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs = slices.DeleteFunc(l.runs, func(o *run) bool { return o == r })
		close(r.returned)
	}
}
