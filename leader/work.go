// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"
)

// WhileLeader runs fn whenever this process leads, and only then, until ctx is done or the
// Candidate ends; it returns why: the cause of ctx, or ErrClosed. Calls of fn are serial.
// A second call of WhileLeader or Do returns ErrRunning meanwhile.
//
// The context of fn ends before another process may act, with the cause; fn must return
// then. Lowest and Static have no such promise: see package election.
//
// If fn returns nil, the work of this term is done: the process keeps leading, and fn runs
// again in the next term. If fn returns an error while its context is not done, the process
// gives up leading (after Options.RetryFor), and others come first. If none does, fn runs
// again here, after a pause that grows with failures in a row from 100 ms by 1.2 to 10 s.
// Success ends the row, as does a run of more than 10 s. Only the cluster's leader logs the
// error: fn should log what it returns. If fn panics, the process gives up leading too, and
// the panic goes to the caller of WhileLeader.
//
// That the work of a term is done is known to this call alone: another WhileLeader in the
// same term runs its function.
//
// When ctx is done, this process does not give up leading: Resign and Close do that.
func (c *Candidate) WhileLeader(
	ctx context.Context, fn func(ctx context.Context, term Term) error,
) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.exit()
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

// Do waits until this process leads, runs fn once, gives up leading, and returns what fn
// returns. If ctx is done by then, giving up continues after Do has returned. The context
// of fn is that of WhileLeader. If fn did not run, Do returns the cause of ctx, ErrClosed or
// ErrRunning.
func (c *Candidate) Do(ctx context.Context, fn func(ctx context.Context, term Term) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.exit()
	for {
		t, err := c.awaitOwn(ctx, Term{})
		if err != nil {
			return err
		}
		if r := c.run(ctx, t, fn); r.ran {
			_ = c.giveUp(ctx, t, nil, 0) // the work is done, however that goes
			return r.err
		}
	}
}

// enter lets one call of WhileLeader or Do in.
func (c *Candidate) enter() error {
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

func (c *Candidate) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = false
	c.running.Done()
}

// awaitOwn blocks until this process leads by a term other than done.
func (c *Candidate) awaitOwn(ctx context.Context, done Term) (Term, error) {
	for {
		if err := c.ctxErr(ctx); err != nil {
			return Term{}, err
		}
		s, changed := c.source.State()
		if s.Term.own() && s.Term.live() && s.Term != done {
			return s.Term, nil
		}
		_ = c.wait(ctx, changed) // the loop looks again
	}
}

// runTerm runs fn under a term until it succeeds, its context ends, or the pauses sum up to
// more than RetryFor: then it gives up. It reports whether the term needs no more work.
func (c *Candidate) runTerm(
	ctx context.Context, t Term, fn func(context.Context, Term) error, p *pauses,
) (done bool) {
	var paused time.Duration
	for {
		began := time.Now()
		r := c.run(ctx, t, fn)
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
			c.sleep(ctx, nil, pause)
			return false
		}
		c.sleep(ctx, t.Done(), pause)
		if !t.live() {
			return true
		}
	}
}

// result is what became of one run of a function.
type result struct {
	ran    bool
	failed bool // it returned an error while its context was not done
	err    error
}

// run runs fn once. If fn does not return, this process gives up leading.
func (c *Candidate) run(
	ctx context.Context, t Term, fn func(context.Context, Term) error,
) (r result) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(c.closedErr()) })()
	ctx, end := t.lease.beginUse(ctx)
	defer func() {
		end()
		if r.ran && r.err == errPanicked {
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

// sleep blocks for d, or until over is closed, or ctx or the Candidate ends.
func (c *Candidate) sleep(ctx context.Context, over <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	case <-c.life.Done():
	}
}

// Pauses after work that failed are those of Fabric: from 100 ms, each 1.2 times the last.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// pauses are those of failures in a row.
type pauses struct{ last time.Duration } // 0 before the first failure

// next is the pause after a run that took so long and failed.
func (p *pauses) next(took time.Duration) time.Duration {
	if took > longestPause || p.last == 0 {
		p.last = firstPause
	} else {
		p.last = min(p.last*6/5, longestPause)
	}
	return p.last
}
