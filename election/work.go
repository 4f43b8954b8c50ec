// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"time"
)

// Pauses between attempts of work that fails: Fabric's, from 100 ms, each 1.2 times the
// last. An attempt that goes on for longer than the longest pause was none that failed.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// WhileLeader runs fn whenever this member leads, and only then, until ctx ends or the
// Election does; it returns why. Calls of fn are serial. The context of fn ends before
// another member may lead by Quorum, and as soon as this one knows of another by Lowest;
// its cause is why: ErrYielded, ErrClosed, ErrSuperseded, ErrExpired, what ctx ended by,
// or what cluster.WhileLeader says.
//
// When fn returns nil, the member gives up just the leadership of that call, and another
// one leads where one can. When it returns an error, it is called again after a pause,
// under the same token; the pauses grow from 100 ms to 10 s, and once they sum up to
// Options.Budget, without an attempt that lasted longer than 10 s, the member gives up
// too. Static never does: there is nobody else.
func (e *Election) WhileLeader(
	ctx context.Context, fn func(ctx context.Context, token uint64) error,
) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.exit()
	for e.over(ctx) == nil {
		e.mu.Lock()
		r, changed := e.reign, e.changed
		if r != nil && r.ctx.Err() == nil {
			r.work = make(chan struct{})
		} else {
			r = nil
		}
		e.mu.Unlock()
		if r == nil {
			_ = e.wait(ctx, changed) // the condition of the loop looks again
			continue
		}
		e.work(ctx, r, fn)
	}
	return e.over(ctx)
}

// enter lets one call of WhileLeader in.
func (e *Election) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return ErrClosed
	case e.works:
		return ErrRunning
	}
	e.works = true
	e.running.Add(1)
	return nil
}

func (e *Election) exit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.works = false
	e.running.Done()
}

// work runs fn until it is done, or may not run any more, and gives leadership up, also
// where fn panics.
func (e *Election) work(
	ctx context.Context, r *reign, fn func(context.Context, uint64) error,
) {
	defer func() {
		close(r.work)
		if r.giveUp != nil {
			r.giveUp()
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrYielded)
	e.mu.Lock()
	r.stop = cancel // at once, where finish is what ends the reign
	e.mu.Unlock()
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	defer stop()
	var p pauses
	for ctx.Err() == nil {
		began := time.Now()
		err := fn(ctx, r.token)
		if err == nil && e.options.Strategy != Static {
			return
		}
		pause := p.next(time.Since(began))
		if p.sum > e.options.Budget && e.options.Strategy != Static {
			return
		}
		e.pause(ctx, pause)
	}
}

// pauses are those of work that fails.
type pauses struct{ last, sum time.Duration }

// next is the pause after an attempt that took so long.
func (p *pauses) next(took time.Duration) time.Duration {
	if took > longestPause || p.last == 0 {
		*p = pauses{last: firstPause}
	} else {
		p.last = min(p.last*6/5, longestPause)
	}
	p.sum += p.last
	return p.last
}
