// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// TestEachLossHasItsCause: what the new leader, the one before and a third node say of
// a change of leader.
func TestEachLossHasItsCause(t *testing.T) {
	for _, c := range []struct {
		name          string
		lose          func(*testing.T, *world, *Node)
		before, other Cause // as the leader before, and the two others, name it
	}{
		{"closed", func(_ *testing.T, w *world, n *Node) { w.end(n) }, "", CauseSilence},
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

// checkElection holds the last election of n, in which was lost its leadership,
// against what the node can know.
func checkElection(t *testing.T, n, was *Node, cause Cause) {
	t.Helper()
	synctest.Wait()
	s := n.Status()
	e := s.LastElection
	// Who is told of the next leader before the word of the old one says so too.
	if cause == CauseHandOver && e.Cause == CauseOutvoted && e.Leader != n.cfg.self {
		cause = CauseOutvoted
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
		len(e.Steps) < 3 || e.Steps[0].After != 0 || e.Steps[len(e.Steps)-1].Name != StepQuorate {
		t.Errorf("%v: got the steps %v, want them in order, quorate the last", n.cfg.self, e.Steps)
	}
	if e.Leader == n.cfg.self && cause != CauseHandOver {
		want := []string{
			StepLost, StepAsked, StepProposed, StepFormal, StepElected, StepFollowed, StepQuorate,
		}
		if i := slices.Index(names(e.Steps), StepLost); i < 0 || !slices.Equal(names(e.Steps)[i:], want) {
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

// TestVotersOfAHandOver: the leader before proposed, so it knows the votes; the new
// one knows its own.
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

// TestLeaderChangedHasACause: the loss and the new leader name the same one.
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

// TestElectionsAreBounded: the history keeps the newest.
func TestElectionsAreBounded(t *testing.T) {
	var es elections
	es.start(address(0), time.Unix(0, 0))
	for v := range uint64(MaxElections + 3) {
		view := member.View{Leader: address(1), Version: v + 1, Quorate: true}
		es.leads(time.Unix(int64(v), 0), view, &tenure{token: v + 1, leader: memberAt(view, address(1))})
	}
	var s Status
	es.report(time.Unix(100, 0), &s)
	if n := len(s.Elections); n != MaxElections || s.Elections[0].Version != 4 ||
		s.LastElection.Version != MaxElections+3 {
		t.Errorf("got %d elections, %+v first, last %+v", n, s.Elections[0], s.LastElection)
	}
	if s.LeaderChanges[CauseStart] != 1 || s.LeaderChanges[CauseRaised] != MaxElections+2 {
		t.Errorf("got the counts %v", s.LeaderChanges)
	}
}

// TestAConflictNamesItsRule, and the first cause is the one that is told.
func TestAConflictNamesItsRule(t *testing.T) {
	var w why
	now := time.Unix(5, 0)
	w.quorate(member.View{Leader: address(1), Version: 3})
	w.traced(now, []statemachine.Trace{
		{Kind: statemachine.SteppedDown, Cause: statemachine.CauseVersion},
		{Kind: statemachine.LostAuthority},
	})
	e := w.election(now, &tenure{token: 7, leader: memberAt(member.View{}, address(2))})
	if e.Cause != CauseConflict || e.Rule != RuleVersion || e.Before != address(1) {
		t.Errorf("got %+v, want a conflict by version", e)
	}
	w = why{}
	w.traced(now, []statemachine.Trace{
		{Kind: statemachine.Suspected, Cause: statemachine.CauseCrash},
		{Kind: statemachine.SteppedDown, Cause: statemachine.CauseLease},
	})
	if w.cause != CauseCrash {
		t.Errorf("got %q, want the first cause, %q", w.cause, CauseCrash)
	}
}

// TestEveryCauseOfTheMachineHasAName here.
func TestEveryCauseOfTheMachineHasAName(t *testing.T) {
	for c := statemachine.CauseNone + 1; c < statemachine.Causes; c++ {
		if !slices.Contains(everyCause, causes[c].cause) ||
			causes[c].rule != "" && !slices.Contains(everyRule, causes[c].rule) {
			t.Errorf("%v has no name", c)
		}
	}
}
