// SPDX-License-Identifier: Apache-2.0

package leadertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// Resign ends the work with ErrResigned and waits until it has returned. Then another
// process leads.
func testResign(g *group) {
	i := g.open(leader.Options{})
	var returned atomic.Bool
	r := g.work(i, func(r run) error {
		<-r.ctx.Done()
		g.pause(time.Second)
		returned.Store(true)
		return nil
	}).next()
	if err := g.all[i].Resign(g.ctx); err != nil || !returned.Load() {
		g.t.Errorf("Resign: got %v, work returned=%v; want no error and true", err, returned.Load())
	}
	g.wantCause(r, leader.ErrResigned)
	if r.term.Valid() || r.term.Err() != leader.ErrResigned {
		g.t.Errorf("after Resign: valid=%v, term error %v; want false and ErrResigned",
			r.term.Valid(), r.term.Err())
	}
	if len(g.all) == 1 {
		g.leads(-1)
		return
	}
	next, _ := g.all[g.leads(i)].Leader()
	if !r.term.Token().Less(next.Token) {
		g.t.Errorf("the next leader has token %v, want one greater than %v", next.Token, r.term.Token())
	}
}

// If the work calls Resign with its own context, Resign returns when that context ends.
func testResignInWork(g *group) {
	i := g.open(leader.Options{})
	resigned := make(chan error, 1)
	r := g.work(i, func(r run) error {
		select {
		case resigned <- g.all[i].Resign(r.ctx):
		default:
		}
		return nil
	}).next()
	if err := receive(g, "end of Resign", resigned); !errors.Is(err, leader.ErrResigned) {
		g.t.Errorf("Resign: got %v, want ErrResigned", err)
	}
	g.wantCause(r, leader.ErrResigned)
	if len(g.all) > 1 {
		g.leads(i)
	}
}

// A process that does not lead cannot resign.
func testResignOfFollower(g *group) {
	i := g.open(leader.Options{})
	before, _ := g.all[i].Leader()
	if err := g.all[(i+1)%3].Resign(g.ctx); !errors.Is(err, leader.ErrNotLeader) {
		g.t.Errorf("Resign of a follower: got %v, want ErrNotLeader", err)
	}
	g.pause(time.Second)
	if after, _ := g.all[i].Leader(); after != before {
		g.t.Errorf("the leader changed from %+v to %+v", before, after)
	}
}

// Do runs its function once, returns its error, and resigns.
func testDo(g *group) {
	i := g.open(leader.Options{})
	runs := 0
	var term leader.Term
	err := g.all[i].Do(g.ctx, func(ctx context.Context, t leader.Term) error {
		runs++
		term = t
		if !t.Valid() || ctx.Err() != nil {
			g.t.Errorf("the function runs with valid=%v, context error %v; want true and no error",
				t.Valid(), ctx.Err())
		}
		return errWork
	})
	if err != errWork || runs != 1 {
		g.t.Errorf("Do: got %v after %d runs, want the error of its function after one run", err, runs)
	}
	receive(g, "end of the term", term.Done())
	if len(g.all) > 1 {
		g.leads(i)
	}
}

// If the process never leads, Do does not run its function and returns the cause of its
// context.
func testDoContext(g *group) {
	i := g.open(leader.Options{})
	ctx, cancel := context.WithCancelCause(g.ctx)
	cancel(errWork)
	err := g.all[i].Do(ctx, func(context.Context, leader.Term) error {
		g.t.Error("the function runs, but its context is already done")
		return nil
	})
	if err != errWork || !g.all[i].IsLeader() {
		g.t.Errorf("Do: got %v, leads=%v; want the cause of its context and true",
			err, g.all[i].IsLeader())
	}
}

// Close ends the work with ErrClosed, waits for it, and lets another process lead.
func testClose(g *group) {
	i := g.open(leader.Options{})
	var returned atomic.Bool
	w := g.work(i, func(r run) error {
		<-r.ctx.Done()
		g.pause(time.Second)
		returned.Store(true)
		return nil
	})
	r, c := w.next(), g.all[i]
	if err := c.Close(g.ctx); err != nil || !returned.Load() || c.IsLeader() {
		g.t.Errorf("Close: got %v, work returned=%v, leads=%v; want no error, true and false",
			err, returned.Load(), c.IsLeader())
	}
	g.wantCause(r, leader.ErrClosed)
	never := func(context.Context, leader.Term) error {
		g.t.Error("the function runs after Close")
		return nil
	}
	_, waited := c.WaitLeader(g.ctx)
	for name, err := range map[string]error{
		"running WhileLeader": receive(g, "end of WhileLeader", w.ended),
		"WhileLeader":         c.WhileLeader(g.ctx, never),
		"Do":                  c.Do(g.ctx, never),
		"Resign":              c.Resign(g.ctx),
		"WaitLeader":          waited,
	} {
		if !errors.Is(err, leader.ErrClosed) {
			g.t.Errorf("after Close: %s: got %v, want ErrClosed", name, err)
		}
	}
	if h, ok := c.Leader(); ok {
		g.t.Errorf("after Close: Leader returned %+v, want none", h)
	}
	for h := range c.Changes(g.ctx) {
		g.t.Errorf("after Close: Changes yielded %+v, want nothing", h)
	}
	if len(g.all) > 1 {
		g.leads(i)
	}
}

// If its context is done, Close returns the cause. Another call of Close waits again.
func testCloseTwice(g *group) {
	i := g.open(leader.Options{})
	release := make(chan struct{})
	g.work(i, func(run) error { <-release; return nil }).next()
	for range 2 {
		ctx, stop := context.WithTimeoutCause(g.ctx, time.Second, errWork)
		if err := g.all[i].Close(ctx); !errors.Is(err, errWork) {
			g.t.Errorf("Close: got %v, want the cause of its context", err)
		}
		stop()
	}
	close(release)
	for range 2 {
		if err := g.all[i].Close(g.ctx); err != nil || !isClosed(g.all[i]) {
			g.t.Errorf("Close: got %v, Done closed=%v; want no error and true", err, isClosed(g.all[i]))
		}
	}
}

// If the node or store of a candidate stops, the work ends with ErrClosed.
func testStop(g *group) {
	if g.kit.Stop == nil {
		g.t.Skip("these candidates have no node or store to stop")
	}
	i := g.open(leader.Options{})
	w := g.work(i, lasts)
	r := w.next()
	g.kit.Stop(i)
	g.wantCause(r, leader.ErrClosed)
	if err := receive(g, "end of WhileLeader", w.ended); !errors.Is(err, leader.ErrClosed) {
		g.t.Errorf("WhileLeader: got %v, want ErrClosed", err)
	}
	if g.all[i].IsLeader() {
		g.t.Error("the process still leads after its node or store has stopped")
	}
}

// Changes yields the current leader at each step and may skip intermediate ones.
func testChanges(g *group) {
	i := g.open(leader.Options{})
	watcher := (i + 1) % 3
	ctx, stop := context.WithCancel(g.ctx)
	seen, done := []leader.Holder{}, make(chan struct{})
	go func() {
		defer close(done)
		for h := range g.all[watcher].Changes(ctx) {
			seen = append(seen, h)
		}
	}()
	first, _ := g.all[i].Leader()
	g.pause(time.Second)
	if err := g.all[i].Close(g.ctx); err != nil {
		g.t.Errorf("Close: %v", err)
	}
	last, _ := g.all[g.leads(i)].Leader()
	g.pause(time.Second)
	stop()
	<-done
	seen = slices.DeleteFunc(seen, func(h leader.Holder) bool { return h == leader.Holder{} })
	if len(seen) < 2 || seen[0] != first || seen[len(seen)-1] != last {
		g.t.Errorf("Changes yielded %+v, want %+v first and %+v last", seen, first, last)
	}
}

// No fault makes work overlap or tokens decrease.
func testOneAtATime(g *group) {
	g.open(leader.Options{})
	var mu sync.Mutex
	var last member.Token // token of the running work
	var count atomic.Int64
	works := func(r run) error {
		if !mu.TryLock() {
			g.t.Error("the work runs in two processes at the same time")
			return nil
		}
		defer mu.Unlock()
		if r.term.Token().Less(last) {
			g.t.Errorf("the work runs with token %v, want at least %v", r.term.Token(), last)
		}
		last = r.term.Token()
		n := count.Add(1)
		select {
		case <-r.ctx.Done():
		case <-time.After(time.Duration(1+n%5) * time.Second):
		}
		if n%2 == 0 {
			return nil
		}
		return errWork
	}
	for i := range g.all {
		g.work(i, works)
	}
	for range 10 {
		g.pause(time.Minute)
		for _, c := range g.all {
			if c.IsLeader() {
				_ = c.Resign(g.ctx) // it may fail if the work has just failed
			}
		}
	}
	if n := count.Load(); n < 10 {
		g.t.Errorf("the work ran %d times in ten minutes, want at least 10", n)
	}
}

// A standby process never leads.
func testStandby(g *group) {
	g.all[0] = g.kit.Open(0, leader.Options{})
	w := g.work(0, lasts)
	w.idle(time.Hour)
	if h, ok := g.all[0].Leader(); ok || g.all[0].IsLeader() {
		g.t.Errorf("a standby process is alone, but leads=%v and the leader is %+v",
			g.all[0].IsLeader(), h)
	}
	ctx, stop := context.WithTimeoutCause(g.ctx, time.Second, errWork)
	defer stop()
	if _, err := g.all[0].WaitLeader(ctx); !errors.Is(err, leader.ErrNoLeader) ||
		!errors.Is(err, errWork) {
		g.t.Errorf("WaitLeader: got %v, want ErrNoLeader and the cause of its context", err)
	}
	if err := g.all[0].Resign(g.ctx); !errors.Is(err, leader.ErrNotLeader) {
		g.t.Errorf("Resign: got %v, want ErrNotLeader", err)
	}
	if err := g.all[0].Close(g.ctx); err != nil {
		g.t.Errorf("Close: %v", err)
	}
	if err := receive(g, "end of WhileLeader", w.ended); !errors.Is(err, leader.ErrClosed) {
		g.t.Errorf("WhileLeader: got %v, want ErrClosed", err)
	}
}
