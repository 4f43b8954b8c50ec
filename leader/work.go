// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"
)

// WhileLeader runs fn whenever this process leads, until ctx is done or the Candidate ends.
// It returns the cause of ctx, or an error that wraps ErrClosed. Calls of fn never overlap.
// While WhileLeader or Do runs, another call of either returns ErrRunning.
//
// The context of fn ends, with the cause, before another process may act; fn must then return. The
// strategies Lowest and Static of package election do not guarantee this.
//
// If fn returns nil, the work of this term is done: the process keeps leading, and fn runs
// again in the next term. A later call of WhileLeader in the same term runs its function.
//
// If fn returns an error before its context is done, the process retries for Options.RetryFor and
// then gives up leadership, so that others lead first. If no other process leads, fn runs again in
// this process after a pause. With consecutive failures, the pause grows from 100 ms to 10 s by a
// factor of 1.2. After a success or a run of more than 10 s it starts again at 100 ms. Only the
// leader of a cluster logs the error, so fn should log its errors itself. If fn panics, the process
// gives up leadership, and the panic reaches the caller of WhileLeader.
//
// When ctx is done, the process keeps leading; call Resign or Close to give up leadership.
func (c *Candidate) WhileLeader(
	ctx context.Context, fn func(ctx context.Context, term Term) error,
) error {
	if err := c.beginWork(); err != nil {
		return err
	}
	defer c.endWork()
	var p pauses
	var done Term // the work of this term is done
	for {
		t, err := c.awaitOwn(ctx, done)
		if err != nil {
			return err
		}
		if c.runTerm(ctx, t, fn, &p) {
			done = t
		}
	}
}

// Do waits until this process leads, runs fn once, gives up leadership, and returns the error of
// fn. If ctx is done, Do may return before leadership has been given up. The context of fn ends as
// in WhileLeader. If fn did not run, Do returns the cause of ctx, ErrClosed or ErrRunning.
func (c *Candidate) Do(ctx context.Context, fn func(ctx context.Context, term Term) error) error {
	if err := c.beginWork(); err != nil {
		return err
	}
	defer c.endWork()
	for {
		t, err := c.awaitOwn(ctx, Term{})
		if err != nil {
			return err
		}
		if r := c.runOnce(ctx, t, fn); r.ran {
			_ = c.giveUp(ctx, t, nil, 0) // fn has finished even if giveUp fails
			return r.err
		}
	}
}

// beginWork registers a call of WhileLeader or Do.
func (c *Candidate) beginWork() error {
	if err := c.beginCall(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working {
		c.running.Done()
		return ErrRunning
	}
	c.working = true
	return nil
}

func (c *Candidate) endWork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = false
	c.running.Done()
}

// awaitOwn blocks until this process leads in a term other than the given one.
func (c *Candidate) awaitOwn(ctx context.Context, done Term) (Term, error) {
	for {
		if err := c.ctxErr(ctx); err != nil {
			return Term{}, err
		}
		s, changed := c.source.State()
		if s.Term.isOwn() && s.Term.isLive() && s.Term != done {
			return s.Term, nil
		}
		_ = c.wait(ctx, Term{}, changed) // the loop checks ctx
	}
}

// runTerm runs fn until fn succeeds or the context of fn ends. It gives up leadership once the
// pauses add up to more than RetryFor. It reports whether the work of the term is finished.
func (c *Candidate) runTerm(
	ctx context.Context, t Term, fn func(context.Context, Term) error, p *pauses,
) (done bool) {
	var paused time.Duration
	for {
		began := time.Now()
		r := c.runOnce(ctx, t, fn)
		if !r.failed {
			if r.err == nil && r.ran {
				p.last = 0
			}
			return true
		}
		took := time.Since(began)
		if took > longestPause {
			paused = 0
		}
		pause := p.next(took)
		if paused += pause; paused > c.options.RetryFor {
			_ = c.giveUp(ctx, t, r.err, pause) // fn runs again after the pause
			c.pauseFor(ctx, Term{}, pause)
			return false
		}
		c.pauseFor(ctx, t, pause)
		if !t.isLive() {
			return true
		}
	}
}

// result is the outcome of one run of a function.
type result struct {
	ran    bool
	failed bool // it returned an error before its context was done
	err    error
}

// runOnce runs fn once. If fn panics or ends its goroutine, this process gives up leadership.
func (c *Candidate) runOnce(
	ctx context.Context, t Term, fn func(context.Context, Term) error,
) (r result) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(c.closedErr()) })()
	ctx, end := t.lease.beginUse(ctx)
	defer func() {
		end()
		if r.ran && r.err == errPanicked { //nolint:errorlint // nothing wraps it
			c.running.Go(func() { _ = c.source.Resign(t, errPanicked, 0) })
		}
	}()
	if ctx.Err() != nil {
		return result{}
	}
	r = result{ran: true, err: errPanicked}
	err := fn(ctx, t)
	return result{ran: true, failed: err != nil && ctx.Err() == nil, err: err}
}

// pauseFor blocks for d. It returns earlier if the term t (if not zero) ends, ctx is done, or the
// Candidate ends.
func (c *Candidate) pauseFor(ctx context.Context, t Term, d time.Duration) {
	elapsed := make(chan struct{})
	defer time.AfterFunc(d, func() { close(elapsed) }).Stop()
	_ = c.wait(ctx, t, elapsed)
}

// The first pause after failed work is 100 ms, and each further pause is 1.2 times longer, as in
// Hyperledger Fabric.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// pauses computes the pauses after consecutive failures.
type pauses struct{ last time.Duration } // 0 before the first failure

// next returns the pause after a failed run that took the given time.
func (p *pauses) next(took time.Duration) time.Duration {
	if took > longestPause || p.last == 0 {
		p.last = firstPause
	} else {
		p.last = min(p.last*6/5, longestPause)
	}
	return p.last
}
