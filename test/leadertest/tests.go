// SPDX-License-Identifier: Apache-2.0

package leadertest

import (
	"context"
	"errors"
	"time"

	"github.com/athena-go/athena/leader"
)

// The term of the work is valid and belongs to the leader that all processes know.
func testTerm(g *group) {
	i := g.open(leader.Options{})
	r := g.work(i, lasts).next()
	known, ok := g.all[i].Leader()
	if !r.term.Valid() || r.term.Err() != nil || r.ctx.Err() != nil || !ok ||
		known != r.term.Holder() || known.ID == "" || known.Token.IsZero() {
		g.t.Errorf("the term belongs to %+v, valid=%v, error %v; the known leader is %+v",
			r.term.Holder(), r.term.Valid(), r.term.Err(), known)
	}
	if waited, err := g.all[i].WaitLeader(g.ctx); err != nil || waited != known {
		g.t.Errorf("WaitLeader: got %+v, %v; want %+v", waited, err, known)
	}
	ran := false
	err := r.term.Do(g.ctx, func(context.Context) error { ran = true; return errWork })
	if !ran || err != errWork {
		g.t.Errorf("Term.Do: ran=%v, error %v; want true and the error of the function", ran, err)
	}
}

// Completed work does not run again in its term, and its process keeps leading.
func testDoneWork(g *group) {
	i := g.open(leader.Options{})
	w := g.work(i, func(run) error { return nil })
	r := w.next()
	w.idle(time.Minute)
	if !g.all[i].IsLeader() || r.term.Err() != nil {
		g.t.Errorf("leads=%v, term error %v; want true and no error", g.all[i].IsLeader(), r.term.Err())
	}
}

// When work fails, its process gives up leadership. Another process then leads with a greater
// token.
func testFailedWork(g *group) {
	i := g.open(leader.Options{})
	r := g.work(i, func(run) error { return errWork }).next()
	receive(g, "end of the term", r.term.Done())
	if r.term.Err() != leader.ErrResigned {
		g.t.Errorf("the term ended with %v, want ErrResigned", r.term.Err())
	}
	if len(g.all) == 1 {
		return
	}
	next, _ := g.all[g.leads(i)].Leader()
	if !r.term.Token().Less(next.Token) {
		g.t.Errorf("the next leader has token %v, want one greater than %v", next.Token, r.term.Token())
	}
}

// If no other process leads, failed work runs again after increasing pauses.
func testFailedAlone(g *group) {
	i := g.open(leader.Options{})
	w := g.work(i, func(r run) error {
		if !r.term.Valid() {
			g.t.Error("the work runs in an invalid term")
		}
		return errWork
	})
	last := w.next()
	for pause := 100 * time.Millisecond; pause < 10*time.Second; pause = pause * 6 / 5 {
		next := w.next()
		if took := next.at.Sub(last.at); took < pause {
			g.t.Errorf("the work ran again after %v, want a pause of at least %v", took, pause)
		}
		last = next
	}
}

// With RetryFor, failed work runs again in the same term until the pauses add up to more than
// RetryFor. A long run resets the pauses.
func testRetry(g *group) {
	const retryFor = 10 * time.Second
	const long = 16 // the long run; the pauses before it add up to almost 9 s
	i := g.open(leader.Options{RetryFor: retryFor})
	runs := 0
	w := g.work(i, func(run) error {
		if runs++; runs == long {
			g.pause(11 * time.Second)
		}
		return errWork
	})
	first := w.next()
	for range long - 1 {
		if r := w.next(); r.term != first.term {
			g.t.Fatal("the work ran again in another term, want the same term")
		}
	}
	began := time.Now().Add(11 * time.Second)
	for first.term.Err() == nil {
		select {
		case r := <-w.began:
			if r.term != first.term && first.term.Err() == nil {
				g.t.Fatal("another term began before the first ended")
			}
		case <-first.term.Done():
		case <-g.ctx.Done():
			g.t.Fatal("the process never gave up leadership")
		}
	}
	if took := time.Since(began); took < retryFor/2 || took > retryFor {
		g.t.Errorf("gave up leadership %v after the long run, want about %v", took, retryFor)
	}
	if first.term.Err() != leader.ErrResigned {
		g.t.Errorf("the term ended with %v, want ErrResigned", first.term.Err())
	}
}

// A process whose work panics gives up leadership.
func testPanic(g *group) {
	i := g.open(leader.Options{})
	terms, caught := make(chan leader.Term, 1), make(chan any, 1)
	go func() {
		defer func() { caught <- recover() }()
		_ = g.all[i].WhileLeader(g.ctx, func(_ context.Context, term leader.Term) error {
			terms <- term
			panic("leadertest")
		})
	}()
	term := receive(g, "run of the work", terms)
	if got := receive(g, "panic", caught); got != "leadertest" {
		g.t.Errorf("recovered %v, want \"leadertest\"", got)
	}
	if len(g.all) > 1 {
		receive(g, "end of the term", term.Done())
		g.leads(i)
	}
	ctx, stop := context.WithTimeout(g.ctx, time.Second)
	defer stop()
	err := g.all[i].WhileLeader(ctx, func(context.Context, leader.Term) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		g.t.Errorf("WhileLeader after the panic: got %v, want context.DeadlineExceeded", err)
	}
}

// A call of WhileLeader or Do is refused while another call runs.
func testSecondCall(g *group) {
	i := g.open(leader.Options{})
	w := g.work(i, lasts)
	w.next()
	never := func(context.Context,
		leader.Term) error {
		g.t.Error("the function runs, want it refused")
		return nil
	}
	for name, err := range map[string]error{
		"WhileLeader": g.all[i].WhileLeader(g.ctx, never),
		"Do":          g.all[i].Do(g.ctx, never),
	} {
		if !errors.Is(err, leader.ErrRunning) {
			g.t.Errorf("second call, %s: got %v, want ErrRunning", name, err)
		}
	}
	w.stop(errWork)
	receive(g, "end of WhileLeader", w.ended)
	g.work(i, lasts).next()
}

// When the caller's context ends, the work ends with the cause of that context, and the
// process keeps leading. If the context is already done, no work runs.
func testContextEnds(g *group) {
	i := g.open(leader.Options{})
	w := g.work(i, lasts)
	r := w.next()
	w.stop(errWork)
	if err := receive(g, "end of WhileLeader", w.ended); err != errWork {
		g.t.Errorf("WhileLeader: got %v, want the cause of its context", err)
	}
	g.wantCause(r, errWork)
	g.pause(time.Second)
	if !g.all[i].IsLeader() || r.term.Err() != nil {
		g.t.Errorf("leads=%v, term error %v; want true and no error", g.all[i].IsLeader(), r.term.Err())
	}
	ctx, cancel := context.WithCancelCause(g.ctx)
	cancel(errWork)
	err := g.all[i].WhileLeader(ctx, func(context.Context, leader.Term) error {
		g.t.Error("the function runs, want it refused")
		return nil
	})
	if err != errWork {
		g.t.Errorf("WhileLeader with a context that is already done: got %v, want its cause", err)
	}
}
