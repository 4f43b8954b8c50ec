// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/leader"
)

// each runs a scenario with every strategy in which members compete for leadership.
func each(t *testing.T, size int, test func(*testing.T, *world, Options)) {
	t.Helper()
	for _, o := range []Options{byQuorum(), byLowest()} {
		t.Run(o.Strategy.String(), func(t *testing.T) {
			inWorld(t, size, func(t *testing.T, w *world) { test(t, w, o) })
		})
	}
}

func TestE01WorkRunsWhereTheLeaderIs(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		var workers []*worker
		for _, e := range all {
			workers = append(workers, work(t, e))
		}
		i := leaderOf(t, all)
		s := workers[i].next(t)
		l, ok := all[i].Leader()
		if s.ctx.Err() != nil || s.term.Token().IsZero() || !ok || l != s.term.Holder() ||
			l.ID != address(i).String() {
			t.Errorf("works with token %v, context %v; Leader: %+v", s.term.Token(), s.ctx.Err(), l)
		}
		for j, o := range workers {
			if j != i {
				o.idle(t, 10*alive)
			}
		}
	})
}

func TestE02LostWhileTheWorkStarts(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		i := leaderOf(t, all)
		slow := workWith(t, all[i], func(context.Context) error { <-release; return nil })
		first := slow.next(t)
		w.cutBetween([]int{i}, without(3, i), true)
		if o.Strategy == Quorum {
			first.ends(t, leader.ErrLeaseEnded)
			leaderOf(t, all, without(3, i)...)
		} else { // each part has a leader; later, the lower leader leads
			leaderOf(t, all, without(3, i)...)
			if first.ctx.Err() != nil {
				t.Errorf("alone, it led no more: %v", context.Cause(first.ctx))
			}
		}
		w.cutBetween([]int{i}, without(3, i), false)
		leaderOf(t, all)
		if first.ctx.Err() == nil != all[i].IsLeader() {
			t.Errorf("context %v, leads %v", first.ctx.Err(), all[i].IsLeader())
		}
		slow.idle(t, 10*alive) // the first call still runs
	})
}

// Work that has returned nil does not run again in the same term, and the member keeps leading.
func TestE03ReturnKeepsLeading(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		once := workWith(t, all[i], func(context.Context) error { return nil })
		s := once.next(t)
		once.idle(t, 10*alive)
		if !all[i].IsLeader() || s.term.Err() != nil {
			t.Fatalf("leads %v; its term ended with %v", all[i].IsLeader(), s.term.Err())
		}
		if err := all[i].Resign(t.Context()); err != nil || s.term.Err() != leader.ErrResigned {
			t.Errorf("Resign: %v; the term ended with %v, want ErrResigned", err, s.term.Err())
		}
		next := leaderOf(t, all)
		for ; next == i; next = leaderOf(t, all) {
			pause(t, sample)
		}
		if l, _ := all[next].Leader(); !s.term.Token().Less(l.Token) {
			t.Errorf("token %v after %v", l.Token, s.term.Token())
		}
		once.idle(t, 2*alive)
	})
}

func TestE03ErrorGivesUp(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		failing := workWith(t, all[i], fails)
		s := failing.next(t)
		<-s.term.Done()
		next := leaderOf(t, all)
		for ; next == i; next = leaderOf(t, all) {
			pause(t, sample)
		}
		if l, _ := all[next].Leader(); !s.term.Token().Less(l.Token) {
			t.Errorf("token %v after %v", l.Token, s.term.Token())
		}
		failing.idle(t, 2*alive)
	})
}

// Work that ends its goroutine gives up leadership too: otherwise the leader would do no work.
func TestE03GoexitGivesUp(t *testing.T) {
	each(t, 2, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		exits := workWith(t, all[i], func(context.Context) error { runtime.Goexit(); return nil })
		if s := exits.next(t); s.term.Err() == nil {
			<-s.term.Done()
		}
		next := leaderOf(t, all)
		for ; next == i; next = leaderOf(t, all) {
			pause(t, sample)
		}
		work(t, all[next]).next(t)
	})
}

// For Quorum, TestGiveUpIsOfOneTerm in package cluster checks the same.
func TestE04ResigningAnOldTermHasNoEffect(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		all := w.openAll("group", byLowest())
		i := leaderOf(t, all)
		source := w.groups[i].open["group"].source
		old, _ := source.State()
		if err := source.Resign(old.Term, nil, 0); err != nil {
			t.Fatal(err)
		}
		j := leaderOf(t, all)
		if j == i {
			t.Fatal("it leads on")
		}
		work(t, all[j]).next(t)
		if err := source.Resign(old.Term, nil, 0); err != nil {
			t.Fatal(err)
		}
		pause(t, alive)
		if !all[j].IsLeader() || all[i].IsLeader() {
			t.Error("the resignation of an old term ended a later one")
		}
	})
}

func TestE05CloseWhileLeading(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		var returned time.Time
		slow := workWith(t, all[i], func(ctx context.Context) error {
			<-ctx.Done()
			pause(t, alive)
			returned = time.Now()
			return nil
		})
		s := slow.next(t)
		w.close(all[i])
		if returned.IsZero() || all[i].IsLeader() {
			t.Errorf("closed before the work returned, or leads: %v", all[i].IsLeader())
		}
		s.ends(t, leader.ErrClosed)
		if err := <-slow.done; !errors.Is(err, leader.ErrClosed) {
			t.Errorf("WhileLeader: %v", err)
		}
		if err := all[i].WhileLeader(t.Context(), nil); !errors.Is(err, leader.ErrClosed) {
			t.Errorf("WhileLeader after Close: %v", err)
		}
		if l, ok := all[i].Leader(); ok {
			t.Errorf("a closed candidate knows %+v", l)
		}
		for range all[i].Changes(t.Context()) {
			t.Error("a closed candidate yields changes")
		}
		if next := leaderOf(t, all, without(3, i)...); next == i {
			t.Error("it leads on")
		}
	})
}

// Close returns after the work has ended, even if it is called twice concurrently. The name is then
// free.
func TestE05CloseAtAnyMoment(t *testing.T) {
	for _, o := range []Options{byQuorum(), byLowest(), {Strategy: Static}, {Strategy: Standby}} {
		t.Run(o.Strategy.String(), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				for i := range 100 {
					e, err := w.groups[0].Open(w.nodes[0], "group", o)
					if err != nil {
						t.Fatal(err)
					}
					ctx, stop := context.WithCancel(t.Context())
					var works atomic.Bool
					var all sync.WaitGroup
					all.Go(func() {
						_ = e.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
							works.Store(true)
							defer works.Store(false)
							if i%3 > 0 {
								<-ctx.Done()
							}
							return ctx.Err()
						})
					})
					pause(t, time.Duration(i)*(sample+campaign)/50)
					if i%2 > 0 {
						all.Go(stop)
					}
					for range 2 {
						all.Go(func() {
							if w.close(e); works.Load() || e.IsLeader() {
								t.Error("works or leads after Close")
							}
						})
					}
					all.Wait()
					stop()
				}
			})
		})
	}
}

// spy implements Peers for one member and records what it sends.
type spy struct {
	sent []lowest.Message
	said func(lowest.Message) // called with each message; nil to ignore them
}

func (s *spy) Self() (string, uint64) { return "a", 1 }
func (s *spy) Members() []string      { return []string{"a", "b"} }
func (s *spy) Send(_ string, m lowest.Message) {
	s.sent = append(s.sent, m)
	if s.said != nil {
		s.said(m)
	}
}

// Before a message announces that a member no longer leads, its work is canceled.
func TestE02ContextEndsBeforeTheWordLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var working atomic.Pointer[start]
		resigned := make(chan error, 1)
		e, deliver, err := Over(&spy{said: func(m lowest.Message) {
			if m.Kind == lowest.Resignation {
				resigned <- working.Load().ctx.Err()
			}
		}}, "group", byLowest())
		if err != nil {
			t.Fatal(err)
		}
		first := work(t, e).next(t)
		working.Store(&first)
		for seq := uint64(1); len(resigned) == 0; seq++ { // a higher member does not see this member
			deliver("b", lowest.Message{Kind: lowest.Declaration, Member: "b", Run: 1, Seq: seq})
			pause(t, alive/2)
		}
		if <-resigned == nil {
			t.Error("it has resigned, but the context of its work has not ended")
		}
		first.ends(t, leader.ErrSuperseded)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestE05NoMessageAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &spy{}
		e, deliver, err := Over(s, "group", byLowest())
		if err != nil {
			t.Fatal(err)
		}
		for !e.IsLeader() {
			pause(t, sample)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last := s.sent[len(s.sent)-1]; last.Kind != lowest.Resignation {
			t.Errorf("its last message was %+v, want a resignation", last)
		}
		before := len(s.sent)
		deliver("b", lowest.Message{Kind: lowest.Proposal, Member: "b", Run: 1, Seq: 1})
		pause(t, 5*alive)
		if len(s.sent) != before {
			t.Errorf("it sent %v after Close", s.sent[before:])
		}
	})
}

// Over supports only Lowest, because other strategies have no timing.
func TestOverWantsLowest(t *testing.T) {
	for _, s := range []Strategy{0, Quorum, Static, Standby} {
		if _, _, err := Over(&spy{}, "group", Options{Strategy: s}); err == nil {
			t.Errorf("%v: no error", s)
		}
	}
}

func TestE06WorkThatBlocks(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		blocked := workWith(t, all[i], func(context.Context) error { <-release; return nil })
		blocked.next(t)
		for range 100 {
			pause(t, alive/10)
			for j, e := range all {
				if e.IsLeader() != (j == i) {
					t.Fatalf("node %d leads: %v", j, e.IsLeader())
				}
			}
		}
	})
}

func TestE07StopAndStartAgain(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		first := work(t, all[i])
		first.next(t)
		if err := all[i].WhileLeader(t.Context(), nil); !errors.Is(err, leader.ErrRunning) {
			t.Errorf("a second WhileLeader: %v, want ErrRunning", err)
		}
		first.stop()
		if err := <-first.done; !errors.Is(err, context.Canceled) {
			t.Errorf("WhileLeader: %v", err)
		}
		if !all[i].IsLeader() {
			t.Error("the end of WhileLeader gave leadership up")
		}
		if err := all[i].Resign(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		for leaderOf(t, all) == i {
			pause(t, sample)
		}
		j := leaderOf(t, all)
		work(t, all[j]).next(t)
		again := work(t, all[i])
		if err := w.nodes[j].Close(); err != nil {
			t.Fatal(err)
		}
		if k := leaderOf(t, all, without(3, j)...); k == i {
			again.next(t)
		} else {
			work(t, all[k]).next(t)
		}
	})
}

func TestE09GroupsAreIndependent(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		// One group is open on nodes 0, 1 and 2, the other on 1, 2 and 3.
		a, b := make([]*leader.Candidate, 3), make([]*leader.Candidate, 4)
		for i := range 3 {
			a[i], b[i+1] = w.open(i, "a", byLowest()), w.open(i+1, "b", byLowest())
		}
		if i, j := leaderOf(t, a), leaderOf(t, b, 1, 2, 3); i != 0 || j != 1 {
			t.Fatalf("nodes %d and %d lead, want the lowest of each group", i, j)
		}
		for _, i := range []int{0, 1} {
			if err := w.nodes[i].Close(); err != nil {
				t.Fatal(err)
			}
		}
		if i, j := leaderOf(t, a, 2), leaderOf(t, b, 2, 3); i != 2 || j != 2 {
			t.Errorf("nodes %d and %d lead, want 2 both", i, j)
		}
		w.close(a[2])
		if !b[2].IsLeader() {
			t.Error("the end of one group ended the other")
		}
	})
}

func TestE10OfAClosedOrForeignGroup(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		e := w.open(0, "group", byLowest())
		leaderOf(t, []*leader.Candidate{e})
		low := groupMessage{
			Group: "group", Kind: lowest.Declaration, Member: address(1).String(), Run: 1 << 60, Seq: 1,
		}
		foreign, long := low, low
		foreign.Group, long.Member = "other", string(make([]byte, maxIDBytes+1))
		for _, l := range []groupMessage{foreign, long} {
			if err := w.groups[0].receiveMessage(t.Context(), w.nodes[1].Self(), l); err != nil {
				t.Error(err)
			}
		}
		stranger := w.nodes[1].Self()
		stranger.Address.Port = 1
		if err := w.groups[0].receiveMessage(t.Context(), stranger, low); err != nil || !e.IsLeader() {
			t.Errorf("leads %v, %v", e.IsLeader(), err)
		}
		w.close(e)
		if err := w.groups[0].receiveMessage(t.Context(), w.nodes[1].Self(), low); err != nil {
			t.Error(err)
		}
		if l, ok := e.Leader(); ok {
			t.Errorf("a closed candidate follows %+v", l)
		}
		again := w.open(0, "group", byLowest()) // the name is free
		if _, err := w.groups[0].Open(w.nodes[0], "group", byLowest()); !errors.Is(err, ErrGroupInUse) {
			t.Errorf("a second Open: %v", err)
		}
		if all := w.groups[0].List(); len(all) != 1 || all[0].Candidate != again {
			t.Errorf("List: %v", all)
		}
	})
}
