// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
)

// guest has the clocks of a virtual machine that can be paused.
type guest struct {
	mu      sync.Mutex
	stopped time.Time // when the clocks were stopped; zero while they run
	clock   time.Duration
	wall    time.Duration
}

func (g *guest) now(lost *time.Duration) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := time.Now()
	if !g.stopped.IsZero() {
		at = g.stopped
	}
	return at.Add(-*lost)
}

func (g *guest) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = time.Now()
}

func (g *guest) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	lost := time.Since(g.stopped)
	g.clock, g.wall, g.stopped = g.clock+lost, g.wall+lost, time.Time{}
}

// setForward corrects the wall clock.
func (g *guest) setForward() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wall = 0
}

func (g *guest) option() Option {
	return func(o *options) {
		o.clock = func() time.Time { return g.now(&g.clock) }
		o.wall = func() time.Time { return g.now(&g.wall) }
	}
}

// inGuests runs a test with three nodes that have formed a cluster, each in its own guest.
func inGuests(t *testing.T, test func(t *testing.T, w *world, of func(*Node) *guest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var guests [3]guest
		w := newWorld(t, len(guests))
		w.own = func(i int) Option { return guests[i].option() }
		defer w.close()
		w.form()
		test(t, w, func(n *Node) *guest { return &guests[slices.Index(w.nodes, n)] })
	})
}

const clockStepped = "the wall clock was set forward: " +
	"lease and records are invalid until confirmed"

// TestStoppedGuest checks that a leader whose clocks were stopped relies on its lease and its
// records only until its wall clock is set forward (protocol.md section 5).
func TestStoppedGuest(t *testing.T) {
	inGuests(t, func(t *testing.T, w *world, of func(*Node) *guest) {
		old := w.leader()
		g := of(old)
		h := acquire(t, session(old), "k")
		term, _ := old.Leader()
		w.cut(old)
		g.stop()
		time.Sleep(5 * time.Second)
		g.resume()
		if !term.Valid() || !h.Valid() {
			t.Fatal("it knows how late it is, and nothing is shown")
		}
		g.setForward()
		time.Sleep(old.cfg.HeartbeatInterval + time.Millisecond)
		if term.Valid() || h.Valid() || old.HoldRemaining() > 0 {
			t.Errorf("term valid %v, record valid %v, want neither", term.Valid(), h.Valid())
		}
		for _, err := range []error{term.Err(), h.Err()} {
			if !errors.Is(err, leader.ErrLeaseEnded) {
				t.Errorf("ended by %v, want %v", err, leader.ErrLeaseEnded)
			}
		}
		w.book.wants(clockStepped, 1)
		if got := old.Status().Counts.ClockSteps; got != 1 {
			t.Errorf("counted %d steps, want 1", got)
		}
		w.heal(old)
		if err := old.WaitActive(t.Context(), 3); err != nil {
			t.Error(err)
		}
	})
}

// TestStepOfTheWallClock checks a leader whose wall clock is set forward although it was not
// stopped: it loses its authority for an interval, but not its leadership.
func TestStepOfTheWallClock(t *testing.T) {
	inGuests(t, func(t *testing.T, w *world, of func(*Node) *guest) {
		time.Sleep(time.Minute)
		leader := w.leader()
		before, _ := leader.Leader()
		g := of(leader)
		g.mu.Lock()
		g.wall -= time.Hour
		g.mu.Unlock()
		began := time.Now()
		select {
		case <-before.Done():
		case <-time.After(time.Minute):
			t.Fatal("its term has not ended")
		}
		after, err := leader.WaitLeader(t.Context())
		if err != nil || after.Token() != before.Token() || !after.Valid() {
			t.Errorf("got token %v, valid %v, %v; want it to lead by %d again",
				after.Token(), after.Valid(), err, before.Token())
		}
		if took := time.Since(began); took > 2*leader.cfg.HeartbeatInterval {
			t.Errorf("authority again after %v, want two intervals at most", took)
		}
		w.book.wants("lost the leader", 0)
	})
}
