// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// TestEachLossHasItsCause checks that the new leader, the previous one and a third node report the
// right cause for each change of leader.
func TestEachLossHasItsCause(t *testing.T) {
	for _, c := range []struct {
		name          string
		lose          func(*testing.T, *world, *Node)
		before, other Cause // reported by the previous leader, and by the two others
	}{
		{"closed", func(_ *testing.T, w *world, n *Node) { w.end(n) }, "", CauseHandOver},
		{"cut off", func(_ *testing.T, w *world, n *Node) { w.cut(n) }, CauseLeaseLost, CauseSilence},
		{"transfer", func(t *testing.T, w *world, n *Node) {
			if err := n.Transfer(w.within(time.Minute), member.Address{}); err != nil {
				t.Errorf("Transfer: %v", err)
			}
		}, CauseHandOver, CauseHandOver},
		{"drain", func(t *testing.T, w *world, n *Node) {
			if err := n.Drain(w.within(time.Minute)); err != nil {
				t.Errorf("Drain: %v", err)
			}
		}, CauseHandOver, CauseHandOver},
		{"leave", func(t *testing.T, w *world, n *Node) {
			if err := n.Leave(w.within(time.Minute)); err != nil {
				t.Errorf("Leave: %v", err)
			}
		}, "", CauseHandOver},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				was := w.leader()
				others := w.others(was)
				c.lose(t, w, was)
				time.Sleep(5 * time.Second)
				for _, n := range others {
					checkElection(t, n, was, c.other)
				}
				if c.before != "" {
					w.heal(was)
					time.Sleep(5 * time.Second)
					checkElection(t, was, was, c.before)
				}
			})
		})
	}
}

// checkElection checks the last election that n reports: who was the previous leader, and why that
// leader was lost.
func checkElection(t *testing.T, n, was *Node, cause Cause) {
	t.Helper()
	synctest.Wait()
	s := n.Status()
	e := s.LastElection
	// A node may learn of the next leader, by its state or by its claim, before the message from the
	// previous leader arrives.
	early := e.Cause == CauseOutvoted || e.Cause == CauseConflict
	if cause == CauseHandOver && early && e.Leader != n.cfg.self {
		cause = e.Cause
	}
	if e.Cause != cause || e.Before != was.cfg.self || e.Leader != s.View.Leader ||
		e.Version != s.View.Version || e.Took < 0 {
		t.Errorf("%v: got %+v, want a %q of %v", n.cfg.self, e, cause, was.cfg.self)
	}
	if e.Leader == n.cfg.self && len(e.Voters) < s.Quorum &&
		cause != CauseHandOver {
		t.Errorf("the leader %v knows the votes of %v, want a majority", n.cfg.self, e.Voters)
	}
	if !slices.IsSortedFunc(e.Steps, func(a, b Step) int { return int(a.After - b.After) }) ||
		len(e.Steps) < 3 || e.Steps[0].After != 0 || e.Steps[len(e.Steps)-1].Name != "quorate" {
		t.Errorf("%v: got the steps %v, want them in order, quorate the last", n.cfg.self, e.Steps)
	}
	if e.Leader == n.cfg.self && cause != CauseHandOver {
		want := []string{
			"lost", "asked", "proposed", "formal", "elected", "followed", "quorate",
		}
		if i := slices.Index(names(e.Steps), "lost"); i < 0 || !slices.Equal(names(e.Steps)[i:], want) {
			t.Errorf("the leader %v saw the steps %v, want %v", n.cfg.self, e.Steps, want)
		}
	}
	if got := s.Elections[len(s.Elections)-1]; got.Version != e.Version || len(s.Elections) < 2 ||
		s.LeaderChanges[cause] == 0 || s.Leaderless < e.Took {
		t.Errorf("%v: got %d elections, the last of version %d, counts %v, leaderless %v; last %+v",
			n.cfg.self, len(s.Elections), got.Version, s.LeaderChanges, s.Leaderless, e)
	}
}

func names(steps []Step) []string {
	var list []string
	for _, s := range steps {
		list = append(list, s.Name)
	}
	return list
}

// TestPausedMajorityCountsThePause pauses a majority together, with or without the leader. Each
// node must count the time without a leader, also those that notice it afterwards.
func TestPausedMajorityCountsThePause(t *testing.T) {
	for name, withLeader := range map[string]bool{"followers": false, "with the leader": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				time.Sleep(time.Minute)
				const pause = 8 * time.Second
				leader, began, before := w.leader(), time.Now(), map[*Node]time.Duration{}
				for _, n := range w.nodes {
					before[n] = n.Status().Leaderless
				}
				running := w.nodes[slices.IndexFunc(w.nodes, func(n *Node) bool {
					return (n == leader) != withLeader
				})]
				for _, n := range w.nodes {
					if n != running {
						go func() {
							_ = n.runInLoop(t.Context(), func(now time.Time) (statemachine.Output, error) {
								time.Sleep(pause)
								return n.machine.Advance(now), nil
							})
						}()
					}
				}
				time.Sleep(pause + time.Millisecond)
				for _, n := range w.nodes {
					if _, err := n.WaitLeader(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				least, most := pause-leader.cfg.LeaderTimeout, time.Since(began)
				for _, n := range w.nodes {
					if got := n.Status().Leaderless - before[n]; got < least || got > most {
						t.Errorf("paused %v: counted %v, want %v to %v", n != running, got, least, most)
					}
				}
			})
		})
	}
}

// TestVotersOfAHandOver checks the voters after a hand-over. The previous leader knows all votes,
// because it proposed the new leader; the new leader knows its own vote.
func TestVotersOfAHandOver(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		was := w.leader()
		if err := was.Transfer(w.within(time.Minute), member.Address{}); err != nil {
			t.Fatalf("Transfer: %v", err)
		}
		time.Sleep(time.Second)
		now := w.leader()
		if v := was.Status().LastElection.Voters; len(v) < 3 || !slices.Contains(v, was.cfg.self) {
			t.Errorf("the proposer knows the votes of %v, want a majority and its own", v)
		}
		for _, n := range w.others(was) {
			v := n.Status().LastElection.Voters
			if len(v) > 1 || len(v) == 1 && v[0] != n.cfg.self {
				t.Errorf("%v knows the votes of %v, want its own at most", n.cfg.self, v)
			}
		}
		if v := now.Status().LastElection.Voters; len(v) != 1 {
			t.Errorf("the new leader knows the votes of %v, want its own", v)
		}
	})
}

// TestLeaderChangedHasACause checks that the loss of a leader and the next leader are reported with
// the same cause.
func TestLeaderChangedHasACause(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		was := w.leader()
		reader := w.others(was)[0]
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []LeaderChanged
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e := range reader.Events(ctx) {
				if c, ok := e.(LeaderChanged); ok {
					got = append(got, c)
				}
			}
		}()
		w.cut(was)
		time.Sleep(5 * time.Second)
		cancel()
		<-done
		if len(got) < 2 {
			t.Fatalf("got %v, want a loss and a new leader", got)
		}
		for _, c := range got {
			if c.Cause != CauseSilence {
				t.Errorf("%v: got the cause %q, want %q", c, c.Cause, CauseSilence)
			}
		}
	})
}

// TestEveryCauseIsNamed checks that each cause of package diagnosis is a constant of this package.
func TestEveryCauseIsNamed(t *testing.T) {
	o := diagnosis.New(diagnosis.Config{})
	var s Status
	s.setReport(o.ReadReport(time.Now(), diagnosis.State{}))
	want := []Cause{
		CauseConflict, CauseCrash, CauseHandOver, CauseLeaseLost, CauseOutvoted, CauseRaised,
		CauseReplaced, CauseSilence, CauseStart,
	}
	got := slices.Sorted(maps.Keys(s.LeaderChanges))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
