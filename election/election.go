// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Errors of an Election, and causes of the contexts that it passes on.
var (
	// ErrClosed says that the Election was closed.
	ErrClosed = errors.New("election: closed")
	// ErrYielded says that the member gave leadership up: the work returned.
	ErrYielded = errors.New("election: leadership was given up")
	// ErrSuperseded says that another leads: one with a lower id, or one that cannot
	// hear of this.
	ErrSuperseded = errors.New("election: another member leads")
	// ErrExpired says that this member stood still for so long that the others do not
	// count on it any more.
	ErrExpired = errors.New("election: the member stood still")
	// ErrRunning says that WhileLeader of this Election runs already.
	ErrRunning = errors.New("election: WhileLeader runs already")
	// ErrGroupInUse says that the group is open already.
	ErrGroupInUse = errors.New("election: the group is open already")
)

// Leadership is who leads, by which token.
type Leadership struct {
	Leader string // id of the member: in a cluster, its address; "" for nobody
	Token  uint64 // see Strategy; 0 for none
}

// Election is one group as one member sees it. Its methods may be called from any
// goroutine, except Close from a function that runs under it.
type Election struct {
	group   string
	options Options
	release func() // frees the name of the group

	life    context.Context // ends with the Election; its cause is why
	end     context.CancelCauseFunc
	running sync.WaitGroup // calls of WhileLeader
	leave   func()         // ends the strategy when no work runs any more; nil for none
	left    chan struct{}  // closed when all of a closed Election is over

	mu      sync.Mutex
	closed  bool
	works   bool // WhileLeader runs
	seen    Leadership
	reign   *reign        // nil while this member does not lead
	changed chan struct{} // closed when something of these is other
}

// reign is a time in which this member leads.
type reign struct {
	token  uint64
	ctx    context.Context // ends when it does, which is before another leads; its cause is why
	end    context.CancelCauseFunc
	giveUp func()                  // this reign, no other; nil where nobody else could lead
	work   chan struct{}           // closed when the function of WhileLeader returned; nil for none
	stop   context.CancelCauseFunc // ends the context of that function; nil for none
}

func newElection(group string, o Options, release func()) *Election {
	e := &Election{
		group: group, options: o, release: release,
		left: make(chan struct{}), changed: make(chan struct{}),
	}
	e.life, e.end = context.WithCancelCause(context.Background())
	return e
}

// Group is the name of the group.
func (e *Election) Group() string { return e.group }

// Strategy is that of this member.
func (e *Election) Strategy() Strategy { return e.options.Strategy }

// IsLeader reports whether this member leads now, as far as it knows.
func (e *Election) IsLeader() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reign != nil && e.reign.ctx.Err() == nil
}

// Leader is who leads, as far as this member knows; false for nobody. Static and Standby
// know of no other member. A leader by Quorum is one whose lease has not ended here.
func (e *Election) Leader() (Leadership, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen, e.seen != (Leadership{})
}

// Changes yields who leads, at once and whenever that changes, until ctx ends or the
// Election closes. A slow reader misses some in between, never the last. Nobody waits
// for it.
func (e *Election) Changes(ctx context.Context) iter.Seq[Leadership] {
	return func(yield func(Leadership) bool) {
		var last *Leadership
		for e.over(ctx) == nil {
			e.mu.Lock()
			now, changed := e.seen, e.changed
			e.mu.Unlock()
			if last == nil || now != *last {
				if !yield(now) {
					return
				}
				last = &now
			}
			_ = e.wait(ctx, changed) // the condition of the loop looks again
		}
	}
}

// Close leaves the group: the context of the work ends with ErrClosed, and when the work
// has returned the member steps down; nothing comes of it after that. Close blocks until
// then, or until ctx ends: then it goes on, and another Close waits again.
//
// By Quorum, the leader of the cluster steps down by handing that over, and waits until
// another one leads, for five seconds at most. It takes so long where the others died or
// were cut off a moment before, and count as active yet; where its lease has ended, or no
// other is active, it waits for nobody.
func (e *Election) Close(ctx context.Context) error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if first {
		e.end(ErrClosed)
		e.see(Leadership{})
		go func() {
			defer close(e.left)
			defer e.release()
			e.running.Wait()
			if e.leave != nil {
				e.leave()
			}
		}()
	}
	select {
	case <-e.left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("election: close %q: the work goes on: %w", e.group, context.Cause(ctx))
	}
}

// see publishes who leads.
func (e *Election) see(l Leadership) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		l = Leadership{}
	}
	e.seen = l
	e.change()
}

// leadership is what was published last.
func (e *Election) leadership() Leadership {
	l, _ := e.Leader()
	return l
}

// begin publishes that this member leads until parent ends. giveUp ends the reign that it
// is given, no other.
func (e *Election) begin(parent context.Context, token uint64, giveUp func(*reign)) *reign {
	r := &reign{token: token}
	r.ctx, r.end = context.WithCancelCause(parent)
	if giveUp != nil {
		r.giveUp = func() { giveUp(r) }
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reign = r
	e.change()
	return r
}

// finish publishes that a reign is over, and why; only the first cause counts. The
// context of the work has ended when it returns.
func (e *Election) finish(r *reign, why error) {
	r.end(why)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.stop != nil {
		r.stop(why)
	}
	if e.reign == r {
		e.reign = nil
	}
	e.change()
}

// change wakes who waits. The Election is locked.
func (e *Election) change() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// rest waits until no work runs under a reign that is over.
func (e *Election) rest(r *reign) {
	e.mu.Lock()
	work := r.work
	e.mu.Unlock()
	if work != nil {
		<-work
	}
}

// over is why nothing more may be done for a caller; nil when it may.
func (e *Election) over(ctx context.Context) error {
	if err := context.Cause(e.life); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// pause blocks for a time, or until ctx or the Election ends.
func (e *Election) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-e.life.Done():
	}
}

// wait blocks until changed is closed. The end of ctx or of the Election is an error.
func (e *Election) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
	case <-ctx.Done():
	case <-e.life.Done():
	}
	return e.over(ctx)
}
