// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Options configures a Candidate.
type Options struct {
	// RetryFor limits how long WhileLeader retries failed work within one term. Once the pauses
	// between the runs add up to more than RetryFor, this process gives up leadership. If RetryFor is
	// 0, it gives up at the first error.
	RetryFor time.Duration
}

// Candidate represents this process, which may become leader. WhileLeader runs work while it leads.
//
// Its methods may be called from any goroutine. A function that runs under the Candidate must not
// call Close, or Resign with a context that outlives its own: both calls wait for the function to
// return.
type Candidate struct {
	source  Source
	options Options

	life    context.Context // done after Close, or when the node or store of the strategy stops
	end     context.CancelCauseFunc
	running sync.WaitGroup // calls of WhileLeader and Do, and resignations
	idle    chan struct{}  // after Close, has an entry if neither a function nor Source.Close runs
	done    chan struct{}  // closed once Source.Close has succeeded

	mu      sync.Mutex
	closed  bool
	working bool // WhileLeader or Do runs
}

// New returns a Candidate of a Source. The Candidate ends when ctx is done: its errors then wrap
// ErrClosed and the cause of ctx.
func New(ctx context.Context, s Source, o Options) *Candidate {
	c := &Candidate{
		source: s, options: o, idle: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.life, c.end = context.WithCancelCause(ctx)
	return c
}

// IsLeader reports whether this process is currently the leader. It does not block.
func (c *Candidate) IsLeader() bool {
	s, _ := c.source.State()
	return s.Term.Valid() && c.life.Err() == nil
}

// Leader returns the known leader, or false if no leader is known. It does not block.
func (c *Candidate) Leader() (Holder, bool) {
	s, _ := c.source.State()
	if !s.Term.isLive() || c.life.Err() != nil {
		return Holder{}, false
	}
	return s.Term.Holder(), true
}

// WaitLeader blocks until a leader is known. If ctx is done first, it returns an error that wraps
// ErrNoLeader, the cause of ctx, and the reason if it is known. If the Candidate ends, it returns
// ErrClosed.
func (c *Candidate) WaitLeader(ctx context.Context) (Holder, error) {
	for {
		s, changed := c.source.State()
		if err := c.closedErr(); err != nil {
			return Holder{}, err
		}
		if s.Term.isLive() {
			return s.Term.Holder(), nil
		}
		err := c.wait(ctx, Term{}, changed)
		switch {
		case err == nil || c.life.Err() != nil:
		case s.Why != nil:
			return Holder{}, fmt.Errorf("%w: %w: %w", ErrNoLeader, s.Why, err)
		default:
			return Holder{}, fmt.Errorf("%w: %w", ErrNoLeader, err)
		}
	}
}

// Changes returns an iterator over the leaders: first the current leader, then each new leader,
// until ctx is done or the Candidate ends. The zero Holder means that no process leads. A slow
// reader may miss intermediate changes, but never the last change.
func (c *Candidate) Changes(ctx context.Context) iter.Seq[Holder] {
	return func(yield func(Holder) bool) {
		var last *Holder
		for c.ctxErr(ctx) == nil {
			s, changed := c.source.State()
			var now Holder
			if s.Term.isLive() {
				now = s.Term.Holder()
			}
			if last == nil || now != *last {
				if !yield(now) {
					return
				}
				last = &now
				continue // the state may have changed meanwhile
			}
			_ = c.wait(ctx, s.Term, changed) // the loop checks ctx and reads the state
		}
	}
}

// Resign gives up leadership. It ends the term with ErrResigned, waits for the functions that run
// under it, and returns as soon as another process may lead. If no other process can lead, this
// process soon leads again, in another term.
//
// The leader of a cluster waits at most half a HeartbeatInterval and then hands over, because a
// cluster needs a leader. A function that takes longer must rely on its token. A job waits for its
// functions without limit.
//
// Resign returns ErrNotLeader if this process does not lead. If ctx is done first, it returns the
// cause of ctx, and the resignation continues. A function that resigns its own term must pass its
// own context; otherwise Resign never returns.
func (c *Candidate) Resign(ctx context.Context) error {
	if err := c.beginCall(); err != nil {
		return err
	}
	defer c.running.Done()
	s, _ := c.source.State()
	if !s.Term.isOwn() || !s.Term.isLive() {
		return s.Term.notLeader()
	}
	if err := c.giveUp(ctx, s.Term, nil, 0); err != nil {
		return err
	}
	return s.Term.lease.Wait(ctx)
}

// Close ends the contexts of all functions with ErrClosed, waits for the functions, and leaves, so
// that another process may lead. If ctx is done first, Close returns an error that wraps its cause,
// and may be called again. After it has succeeded, every further call returns nil.
func (c *Candidate) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	if first {
		c.end(ErrClosed) // while mu is held, so that no call begins after running.Wait
	}
	c.mu.Unlock()
	if first {
		go func() {
			c.running.Wait()
			c.idle <- struct{}{}
		}()
	}
	select {
	case <-c.idle:
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leader: close: a function or another Close is still running: %w",
			context.Cause(ctx))
	}
	err := c.source.Close(ctx)
	if err == nil {
		close(c.done)
	} else {
		c.idle <- struct{}{}
	}
	return err
}

// Done returns a channel that is closed once Close has succeeded.
func (c *Candidate) Done() <-chan struct{} { return c.done }

// beginCall registers a call, which must call running.Done when it returns.
func (c *Candidate) beginCall() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.closedErr(); err != nil {
		return err
	}
	c.running.Add(1)
	return nil
}

// giveUp resigns. It returns when the resignation is complete or ctx is done. This process does not
// lead again before the pause is over. The caller must be registered in c.running.
func (c *Candidate) giveUp(
	ctx context.Context, t Term, failed error, pause time.Duration,
) error {
	done := make(chan error, 1)
	c.running.Go(func() { done <- c.source.Resign(t, failed, pause) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closedErr returns the reason why the Candidate has ended, or nil if it has not ended.
func (c *Candidate) closedErr() error {
	cause := context.Cause(c.life)
	if cause == nil || errors.Is(cause, ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrClosed, cause)
}

// ctxErr returns the error of a call that must return, or nil if the call may continue.
func (c *Candidate) ctxErr(ctx context.Context) error {
	if err := c.closedErr(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// wait blocks until the channel is closed or the term t (if not zero) ends. It returns an error if
// ctx is done or the Candidate has ended.
func (c *Candidate) wait(ctx context.Context, t Term, changed <-chan struct{}) error {
	var over <-chan struct{}
	if t.isLive() {
		over = t.Done()
	}
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
	case <-c.life.Done():
	}
	return c.ctxErr(ctx)
}
