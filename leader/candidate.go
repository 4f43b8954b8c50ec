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

// Options of a Candidate.
type Options struct {
	// RetryFor lets WhileLeader run work that failed again under the same term, until
	// the pauses in between sum up to more than RetryFor. Then this process gives up. If
	// it is 0, it gives up at the first error.
	RetryFor time.Duration
}

// Candidate is this process as one that may lead. WhileLeader is the contract: when the
// function runs, and what its result means.
//
// Its methods may be called from any goroutine. A function that runs under the Candidate
// must not call Close, nor Resign with a context that outlives its own: both wait for the
// function to return.
type Candidate struct {
	source  Source
	options Options

	life    context.Context // ends with Close or with what the Candidate stands on
	end     context.CancelCauseFunc
	running sync.WaitGroup // calls of WhileLeader and Do, and resignations
	idle    chan struct{}  // closed when nothing of a closed Candidate runs
	leaving chan struct{}  // has an entry while a call of Close releases
	done    chan struct{}  // closed when a call of Close has released

	mu      sync.Mutex
	closed  bool
	working bool // WhileLeader or Do runs
}

// New makes a Candidate of a Source. It ends with ctx, whose cause is then in its errors,
// beside ErrClosed.
func New(ctx context.Context, s Source, o Options) *Candidate {
	c := &Candidate{
		source: s, options: o, idle: make(chan struct{}), leaving: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	c.life, c.end = context.WithCancelCause(ctx)
	return c
}

// IsLeader reports whether this process leads now. It does not block.
func (c *Candidate) IsLeader() bool {
	s, _ := c.source.State()
	return s.Term.Valid() && c.life.Err() == nil
}

// Leader is who leads, as far as this process knows; false if none does.
func (c *Candidate) Leader() (Holder, bool) {
	s, _ := c.source.State()
	if !s.Term.live() || c.life.Err() != nil {
		return Holder{}, false
	}
	return s.Term.Holder(), true
}

// WaitLeader blocks until some process leads, as far as this one knows. If ctx is done
// first, it returns ErrNoLeader with the cause of ctx, and with the reason if that is
// known.
func (c *Candidate) WaitLeader(ctx context.Context) (Holder, error) {
	for {
		s, changed := c.source.State()
		if err := c.closedErr(); err != nil {
			return Holder{}, err
		}
		if s.Term.live() {
			return s.Term.Holder(), nil
		}
		err := c.wait(ctx, changed)
		switch {
		case err == nil || c.life.Err() != nil:
		case s.Why != nil:
			return Holder{}, fmt.Errorf("%w: %w: %w", ErrNoLeader, s.Why, err)
		default:
			return Holder{}, fmt.Errorf("%w: %w", ErrNoLeader, err)
		}
	}
}

// Changes yields who leads, and then each change, until ctx is done or the Candidate
// ends. The zero Holder is none. A slow reader misses changes in between, never the last.
func (c *Candidate) Changes(ctx context.Context) iter.Seq[Holder] {
	return func(yield func(Holder) bool) {
		var last *Holder
		for c.ctxErr(ctx) == nil {
			s, changed := c.source.State()
			var now Holder
			if s.Term.live() {
				now = s.Term.Holder()
			}
			if last == nil || now != *last {
				if !yield(now) {
					return
				}
				last = &now
				continue // it may have changed meanwhile
			}
			_ = c.waitTerm(ctx, s.Term, changed) // the condition of the loop looks again
		}
	}
}

// Resign gives up leadership: it ends the term with ErrResigned, waits for the functions
// that run under it, and lets others lead first. The leader of a cluster gives the functions
// half a HeartbeatInterval and then hands over, since a cluster needs a leader: a function that
// takes longer must guard what it does by its token. A job waits for them. Resign returns
// when another process may lead; if no other can, this one leads again soon, by another
// term. It returns ErrNotLeader if this process does not lead. If ctx is done, Resign
// returns its cause, and the resignation continues; so it does if the function that runs
// calls Resign with its own context.
func (c *Candidate) Resign(ctx context.Context) error {
	if err := c.beginCall(); err != nil {
		return err
	}
	defer c.running.Done()
	s, _ := c.source.State()
	if !s.Term.own() || !s.Term.live() {
		return s.Term.notLeader()
	}
	if err := c.giveUp(ctx, s.Term, nil, 0); err != nil {
		return err
	}
	return s.Term.lease.Wait(ctx)
}

// Close ends the contexts of this Candidate with ErrClosed, waits for its functions,
// and leaves, so that another process may lead. If ctx is done first, Close returns its
// cause, and another Close waits again. After the first nil, each Close returns nil.
func (c *Candidate) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.end(ErrClosed)
		go func() {
			c.running.Wait()
			close(c.idle)
		}()
	}
	select {
	case <-c.idle:
	case <-ctx.Done():
		return fmt.Errorf("leader: close: a function still runs: %w", context.Cause(ctx))
	}
	select {
	case c.leaving <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("leader: close: %w", context.Cause(ctx))
	}
	defer func() { <-c.leaving }()
	select {
	case <-c.done:
		return nil
	default:
	}
	err := c.source.Close(ctx)
	if err == nil {
		close(c.done)
	}
	return err
}

// Done is closed when a call of Close has returned nil.
func (c *Candidate) Done() <-chan struct{} { return c.done }

// beginCall lets a call start, which must call running.Done when it returns.
func (c *Candidate) beginCall() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.closedErr(); err != nil {
		return err
	}
	c.running.Add(1)
	return nil
}

// giveUp resigns and returns when that is done or ctx is. The work runs again after pause.
// The caller must count in c.running.
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

// closedErr is why the Candidate has ended, nil while it has not.
func (c *Candidate) closedErr() error {
	cause := context.Cause(c.life)
	if cause == nil || errors.Is(cause, ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrClosed, cause)
}

// ctxErr is why nothing more may be done for a caller, nil if it may.
func (c *Candidate) ctxErr(ctx context.Context) error {
	if err := c.closedErr(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// wait blocks until changed is closed. The end of ctx or of the Candidate is an error.
func (c *Candidate) wait(ctx context.Context, changed <-chan struct{}) error {
	return c.waitTerm(ctx, Term{}, changed)
}

// waitTerm is wait, and also returns when the term t ends.
func (c *Candidate) waitTerm(ctx context.Context, t Term, changed <-chan struct{}) error {
	var over <-chan struct{}
	if t.live() {
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
