// SPDX-License-Identifier: Apache-2.0

package leadertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/athena-go/athena/leader"
)

// patience is the timeout of each wait, in virtual time.
const patience = 10 * time.Minute

// longestTest is the timeout of a test, in virtual time.
const longestTest = 3 * time.Hour

var errWork = errors.New("leadertest: the work failed")

// group holds the candidates of one test.
type group struct {
	t   *testing.T
	ctx context.Context // ends the test after longestTest if it hangs
	kit Kit
	all []*leader.Candidate
}

// open opens all candidates and returns the one that leads.
func (g *group) open(o leader.Options) (i int) {
	g.t.Helper()
	for i := range g.all {
		c := g.kit.Open(i, o)
		g.all[i] = c
		g.t.Cleanup(func() {
			ctx, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			if err := c.Close(ctx); err != nil {
				g.t.Errorf("process %d: Close: %v", i, err)
			}
		})
	}
	return g.leads(-1)
}

// leads waits until a process other than the given one leads and all others know that it leads.
func (g *group) leads(not int) (i int) {
	g.t.Helper()
	g.until("single leader that all processes know", func() bool { i = g.agreed(not); return i >= 0 })
	return i
}

// agreed returns the process that leads if no other process leads and every open process knows it.
// Otherwise, or if the leader is the given process, agreed returns -1.
func (g *group) agreed(not int) int {
	leading := -1
	for i, c := range g.all {
		if c.IsLeader() && leading >= 0 {
			return -1
		}
		if c.IsLeader() {
			leading = i
		}
	}
	if leading < 0 || leading == not {
		return -1
	}
	want, _ := g.all[leading].Leader()
	for _, c := range g.all {
		if got, ok := c.Leader(); !isClosed(c) && (!ok || got != want) {
			return -1
		}
	}
	return leading
}

func isClosed(c *leader.Candidate) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

func (g *group) until(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(patience); !is(); g.pause(10 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// pause lets time pass in the bubble.
func (g *group) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-g.ctx.Done():
	}
}

// run is a single run of the work.
type run struct {
	ctx  context.Context
	term leader.Term
	at   time.Time
}

// worker calls WhileLeader of one candidate.
type worker struct {
	g     *group
	i     int
	began chan run
	ended chan error // of WhileLeader
	stop  context.CancelCauseFunc
}

// work calls WhileLeader of process i until the end of the test.
func (g *group) work(i int, fn func(run) error) *worker {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(g.ctx))
	w := &worker{g, i, make(chan run, 10_000), make(chan error, 1), stop}
	go func() {
		w.ended <- g.all[i].WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
			r := run{ctx, term, time.Now()}
			w.began <- r
			return fn(r)
		})
	}()
	g.t.Cleanup(func() { stop(nil) })
	return w
}

// next waits for the next run of the work.
func (w *worker) next() run {
	w.g.t.Helper()
	return receive(w.g, "run of the work", w.began)
}

// idle fails the test if the work runs within d.
func (w *worker) idle(d time.Duration) {
	w.g.t.Helper()
	select {
	case r := <-w.began:
		w.g.t.Errorf("process %d: the work runs with token %v, but must not run", w.i, r.term.Token())
	case <-time.After(d):
	}
}

func receive[T any](g *group, what string, from <-chan T) (v T) {
	g.t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		g.t.Fatalf("no %s within %v", what, patience)
	}
	return v
}

// lasts is work that continues until its context is done.
func lasts(r run) error {
	<-r.ctx.Done()
	return context.Cause(r.ctx)
}

// wantCause waits until the context of a run ends, and checks its cause.
func (g *group) wantCause(r run, want error) {
	g.t.Helper()
	receive(g, "end of the context", r.ctx.Done())
	if got := context.Cause(r.ctx); !errors.Is(got, want) {
		g.t.Errorf("the context ended with %v, want %v", got, want)
	}
}
