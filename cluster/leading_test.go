// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// shift is one run of a leader's work.
type shift struct {
	node       string
	token      member.Token
	begin, end time.Time
	cause      error
}

// shifts records the shifts of all nodes.
type shifts struct {
	mu   sync.Mutex
	list []shift
}

// work returns a function for WhileLeader that checks that its term is valid and runs until its
// context ends.
func (s *shifts) work(t *testing.T, n *Node) func(context.Context, leader.Term) error {
	return func(ctx context.Context, term leader.Term) error {
		begin := time.Now()
		if !term.Valid() {
			t.Errorf("%s: work begins in a term that is not valid", n.cfg.Name)
		}
		<-ctx.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = append(s.list, shift{n.cfg.Name, term.Token(), begin, time.Now(), context.Cause(ctx)})
		return context.Cause(ctx)
	}
}

// TestOneWorkerAtATime cuts off one leader after the other and checks that the work of each ends
// before the work of the next begins, and that tokens grow.
func TestOneWorkerAtATime(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var s shifts
		var ended sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for _, n := range w.nodes {
			ended.Go(func() {
				if err := n.WhileLeader(ctx, s.work(t, n)); !errors.Is(err, context.Canceled) {
					t.Errorf("WhileLeader: got %v, want the end of its context", err)
				}
			})
		}
		const rounds = 5
		for range rounds {
			cut := w.leader()
			w.cut(cut)
			time.Sleep(5 * time.Second)
			w.heal(cut)
			time.Sleep(5 * time.Second)
		}
		stop()
		ended.Wait()
		if len(s.list) != rounds+1 {
			t.Errorf("got %d shifts %v, want %d", len(s.list), s.list, rounds+1)
		}
		for i := 1; i < len(s.list); i++ {
			last, next := s.list[i-1], s.list[i]
			if next.begin.Before(last.end) {
				t.Errorf("%s begins at %v, before %s ends at %v",
					next.node, next.begin, last.node, last.end)
			}
			if !last.token.Less(next.token) || next.node == last.node {
				t.Errorf("%s has token %v after %s had %v", next.node, next.token, last.node, last.token)
			}
			if last.cause != leader.ErrLeaseEnded {
				t.Errorf("%s was cut off: its work ended by %v, want ErrLeaseEnded", last.node, last.cause)
			}
		}
	})
}

// TestWorkEndsTheGuardBeforeTheLease checks that the work of a leader ends before its lease, at
// least by the guard time, on the leader's clock.
func TestWorkEndsTheGuardBeforeTheLease(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader := w.leader()
		term, _ := leader.Leader()
		w.cut(leader)
		synctest.Wait()
		deadline := term.Deadline()
		<-term.Done()
		if got := time.Until(deadline); got < leader.terms.guard {
			t.Errorf("the term ended %v before its lease, want at least %v", got, leader.terms.guard)
		}
		w.heal(leader)
	})
}

// TestDoneWorkIsNotRepeated checks that finished work does not run again in the same term, but does
// in the next.
func TestDoneWorkIsNotRepeated(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		runs := make(chan member.Token, 100)
		for _, n := range w.nodes {
			go n.WhileLeader(t.Context(), func(_ context.Context, term leader.Term) error {
				runs <- term.Token()
				return nil
			})
		}
		time.Sleep(10 * time.Second)
		if err := w.leader().Transfer(t.Context(), member.Address{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		close(runs)
		var tokens []member.Token
		for token := range runs {
			tokens = append(tokens, token)
		}
		if len(tokens) != 2 || !tokens[0].Less(tokens[1]) {
			t.Errorf("runs: got tokens %v, want two that grow", tokens)
		}
	})
}

// TestFailedWorkYields checks that another member leads after the work of the leader has failed.
func TestFailedWorkYields(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		first := w.leader()
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() {
			_ = first.WhileLeader(ctx, func(context.Context, leader.Term) error { return errBoom })
		})
		begin := time.Now()
		time.Sleep(time.Second)
		next := w.leader()
		if next == first {
			t.Errorf("%v after the error: %s still leads", time.Since(begin), first.cfg.Name)
		}
		// The next leader keeps its leadership.
		time.Sleep(10 * time.Second)
		if w.leader() != next {
			t.Errorf("10s later: %s leads, want %s", w.leader().cfg.Name, next.cfg.Name)
		}
		stop()
		ended.Wait()
		w.book.wants("the leader's work failed; yielding leadership", 1)
	})
}

// TestFailedWorkRunsAgainIfNoOtherCanLead checks that failed work runs again after growing pauses
// if no other member can lead.
func TestFailedWorkRunsAgainIfNoOtherCanLead(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		n := w.nodes[0]
		ctx, stop := context.WithCancelCause(t.Context())
		begin := time.Now()
		var runs []time.Duration
		err := n.WhileLeader(ctx, func(_ context.Context, term leader.Term) error {
			if runs = append(runs, time.Since(begin)); len(runs) == 5 {
				stop(errBoom)
			}
			if !term.Valid() {
				t.Errorf("run %d: the term is not valid", len(runs))
			}
			return errBoom
		})
		ms := time.Millisecond
		want := []time.Duration{0, 100 * ms, 220 * ms, 364 * ms, 536800 * time.Microsecond}
		if !slices.Equal(runs, want) || err != errBoom {
			t.Errorf("got runs after %v and %v, want %v and the end of the context", runs, err, want)
		}
		w.book.wants("could not yield leadership", 4)
	})
}

func TestWhileLeaderOfAnEndedContextRunsNothing(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		err := w.nodes[0].WhileLeader(ctx, func(context.Context, leader.Term) error {
			t.Error("the work runs")
			return nil
		})
		if err != errBoom {
			t.Errorf("got %v, want the cause of the context", err)
		}
	})
}

func TestTransferToTheMemberNamed(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		leader := w.leader()
		for _, to := range w.others(leader) {
			time.Sleep(time.Second) // let the leader hear from its members
			if err := w.leader().Transfer(t.Context(), to.cfg.self); err != nil {
				t.Fatalf("Transfer to %s: %v", to.cfg.Name, err)
			}
			synctest.Wait()
			if got := w.leader(); got != to {
				t.Errorf("Transfer to %s: %s leads", to.cfg.Name, got.cfg.Name)
			}
		}
	})
}

func TestTransferIsRefused(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader := w.leader()
		term, _ := leader.Leader()
		notLeader := w.others(leader)[0].Transfer(t.Context(), leader.cfg.self)
		if e, ok := errors.AsType[*NotLeaderError](notLeader); !ok || e.Leader != leader.cfg.self {
			t.Errorf("on a follower: got %v, want a NotLeaderError with %s", notLeader, leader.cfg.self)
		}
		for _, to := range []member.Address{leader.cfg.self, address(99)} {
			if err := leader.Transfer(t.Context(), to); !errors.Is(err, ErrNotActive) {
				t.Errorf("to %s: got %v, want ErrNotActive", to, err)
			}
		}
		if !term.Valid() {
			t.Error("after transfers that were refused: the term has ended")
		}
	})
}

// TestDrainedNodeNeverLeads checks that a drained node does not lead, even if it is the last
// candidate.
func TestDrainedNodeNeverLeads(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		drained := w.leader()
		if err := drained.Drain(t.Context()); err != nil {
			t.Fatalf("Drain: %v", err)
		}
		if !drained.Status().Drained || drained.Self().Status != member.Active {
			t.Errorf("after Drain: got %+v, want a drained active member", drained.Status())
		}
		for range 4 {
			leader := w.leader()
			if leader == drained {
				t.Fatal("the drained node leads")
			}
			time.Sleep(time.Second) // let the leader hear from its members
			if err := leader.Transfer(t.Context(), member.Address{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
		err := w.leader().Transfer(t.Context(), drained.cfg.self)
		if !errors.Is(err, ErrNotActive) || !strings.Contains(err.Error(), "is drained") {
			t.Errorf("Transfer to the drained node: got %v, want ErrNotActive, and why", err)
		}
	})
}

// TestLastDrainedNodeKeepsLeading checks that the last node to be drained keeps leading, and
// that Drain returns why.
func TestLastDrainedNodeKeepsLeading(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		last := w.leader()
		for _, n := range w.others(last) {
			if err := n.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // let the leader learn of the drained nodes
		err := last.Drain(w.within(10 * time.Second))
		if !errors.Is(err, ErrNotActive) || errors.Is(err, ErrNoQuorum) {
			t.Errorf("Drain: got %v, want ErrNotActive", err)
		}
		if got := w.leader(); got != last {
			t.Errorf("%v leads, want %v", got.cfg.self, last.cfg.self)
		}
	})
}

// TestTermsYieldTheLatest checks that a slow reader of Terms may miss terms, but gets the last one.
func TestTermsYieldTheLatest(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		n := w.nodes[0]
		var tokens []member.Token
		go func() {
			for term := range n.Terms(t.Context()) {
				tokens = append(tokens, term.Token())
				time.Sleep(20 * time.Second)
			}
		}()
		for range 6 {
			time.Sleep(time.Second)
			if err := w.leader().Transfer(t.Context(), member.Address{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		last, _ := n.Leader()
		if len(tokens) != 2 || !slices.IsSortedFunc(tokens, member.Token.Compare) ||
			tokens[len(tokens)-1] != last.Token() {
			t.Errorf("got tokens %v, want the first and %v", tokens, last.Token())
		}
	})
}

func TestWaitLeaderSaysThatThereIsNone(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		n := w.leader()
		w.cut(n)
		time.Sleep(3 * time.Second)
		_, err := n.WaitLeader(w.within(time.Second))
		if !errors.Is(err, ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrNoQuorum and the end of the context", err)
		}
		if _, ok := n.Leader(); ok {
			t.Error("Leader of a node that is cut off: got one")
		}
		w.heal(n)
		if _, err := n.WaitLeader(w.within(time.Minute)); err != nil {
			t.Errorf("after the heal: got %v, want nil", err)
		}
	})
}

// TestTokensNameOneLeader checks that all nodes see the same leader for a token, and that tokens
// grow on each node.
func TestTokensNameOneLeader(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		var mu sync.Mutex
		leaders := map[member.Token]string{}
		for _, n := range w.nodes {
			go func() {
				var last member.Token
				for term := range n.Terms(t.Context()) {
					mu.Lock()
					addr, known := leaders[term.Token()]
					if known && addr != term.Leader() {
						t.Errorf("%s: token %v is of %s, and of %s", n.cfg.Name, term.Token(), addr,
							term.Leader())
					}
					leaders[term.Token()] = term.Leader()
					mu.Unlock()
					if term.Token().Less(last) {
						t.Errorf("%s: token %v after %v", n.cfg.Name, term.Token(), last)
					}
					last = term.Token()
				}
			}()
		}
		for range 4 {
			time.Sleep(2 * time.Second)
			if err := w.leader().Transfer(t.Context(), member.Address{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			cut := w.leader()
			w.cut(cut)
			time.Sleep(5 * time.Second)
			w.heal(cut)
		}
	})
}
