// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// TestNodesFormOneCluster checks that all nodes see the same leader and members, and that only the
// leader's term is valid.
func TestNodesFormOneCluster(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leading := w.leader()
		want, _ := leading.Leader()
		for _, n := range w.nodes {
			got, ok := n.Leader()
			if !ok || got.Token() != want.Token() || got.Leader() != leading.cfg.self.String() {
				t.Errorf("%s: Leader: got %v %v, want %v %v", n.cfg.Name, got.Leader(), got.Token(),
					want.Leader(), want.Token())
			}
			if got.Valid() != (n == leading) {
				t.Errorf("%s: Valid: got %v, want it on %s only", n.cfg.Name, got.Valid(), leading.cfg.Name)
			}
			if self := n.Self(); self.Status != member.Active || self.Name != n.cfg.Name || !self.Seed {
				t.Errorf("%s: Self: got %+v, want an active seed of this name", n.cfg.Name, self)
			}
			s := n.Status()
			if s.Token != want.Token() || s.View.Members.Count(member.Active) != 3 || s.Quorum != 2 ||
				s.Uptime <= 0 || s.TermSince.IsZero() || s.LastElection.Cause != CauseStart ||
				s.LastElection.Version != want.Token().Version ||
				s.Transport.Received[transport.System].Messages == 0 {
				t.Errorf("%s: Status: got %+v", n.cfg.Name, s)
			}
			if (s.LeaseRemaining > 0) != (n == leading) {
				t.Errorf("%s: LeaseRemaining: got %v", n.cfg.Name, s.LeaseRemaining)
			}
		}
	})
}

// TestVoteWait checks that VoteWait counts down from LeaseTimeout after the start of a node whose
// previous run may have supported a leader.
func TestVoteWait(t *testing.T) {
	for _, durable := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { testVoteWait(t, durable) })
	}
}

func testVoteWait(t *testing.T, durable bool) {
	w := newWorld(t, 3)
	defer w.close()
	if durable {
		w.durable()
	}
	check := func(i int, waits bool) {
		t.Helper()
		s, want := w.nodes[i].Status(), time.Duration(0)
		if waits {
			want = max(0, w.nodes[i].cfg.LeaseTimeout-s.Uptime)
		}
		if s.VoteWait != want {
			t.Errorf("durable %v: node %d waits for %v at %v, want %v",
				durable, i+1, s.VoteWait, s.Uptime, want)
		}
	}
	w.add(0, Config{})
	check(0, !durable)
	w.close()
	w.form()
	leader := slices.Index(w.nodes, w.leader())
	for i := range w.nodes {
		time.Sleep(time.Minute)
		w.end(w.nodes[i])
		var err error
		if w.nodes[i], err = w.start(i, Config{}); err != nil {
			t.Fatal(err)
		}
		check(i, !durable || i != leader)
		time.Sleep(w.nodes[i].Status().VoteWait)
		check(i, false)
	}
}

// TestViewIsACopy checks that changes to a returned view do not affect the node.
func TestViewIsACopy(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		n := w.nodes[0]
		for _, members := range [][]member.Member{
			n.Members(), n.View().Members, n.Status().View.Members,
		} {
			members[0].Status = member.Leaving
		}
		for e := range n.Events(t.Context()) {
			e.(Snapshot).View.Members[0].Status = member.Leaving
			break
		}
		if got := n.Self().Status; got != member.Active {
			t.Errorf("after changing copies: got status %v, want active", got)
		}
	})
}

// TestOneNodeIsACluster checks that a node with Size 1 leads without any message.
func TestOneNodeIsACluster(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		n := w.nodes[0]
		term, _ := n.Leader()
		time.Sleep(time.Minute)
		if !term.Valid() || n.Status().Token.Version != 1 {
			t.Errorf("after a minute: got valid %v, token %v; want true, 1000000000000",
				term.Valid(), n.Status().Token)
		}
		if err := n.Transfer(t.Context(), member.Address{}); !errors.Is(err, ErrNotActive) {
			t.Errorf("Transfer: got %v, want ErrNotActive", err)
		}
		if !term.Valid() {
			t.Error("a Transfer that was refused has ended the term")
		}
		if err := n.Leave(t.Context()); err != nil {
			t.Errorf("Leave: got %v, want nil", err)
		}
	})
}

// TestEventsLeadToTheView checks that the first Snapshot and all later events add up to the view.
func TestEventsLeadToTheView(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		watched, leader := w.others(w.leader())[0], w.leader()
		statuses, led := map[member.Address]member.Status{}, LeaderChanged{}
		lost := 0
		go func() {
			for e := range watched.Events(t.Context()) {
				switch e := e.(type) {
				case Snapshot:
					for _, m := range e.View.Members {
						statuses[m.Address] = m.Status
					}
					led = leaderOf(e.View)
				case MemberChanged:
					if got := statuses[e.Member.Address]; got != e.Before.Status {
						t.Errorf("%v: it was %v before", e, got)
					}
					statuses[e.Member.Address] = e.Member.Status
				case LeaderChanged:
					led = e
					led.Cause = "" // a view has no cause
					if !e.Quorate {
						lost++
					}
				default:
					t.Errorf("got %T", e)
				}
			}
		}()
		synctest.Wait()
		w.end(leader)
		time.Sleep(20 * time.Second) // a fail-over, and the removal of the dead member
		synctest.Wait()
		for _, m := range watched.Members() {
			if statuses[m.Address] != m.Status {
				t.Errorf("%s: events say %v, the view %v", m.Address, statuses[m.Address], m.Status)
			}
		}
		if statuses[leader.cfg.self] != member.Removed {
			t.Errorf("dead member: got %v, want removed", statuses[leader.cfg.self])
		}
		if now := leaderOf(watched.View()); led != now || !led.Quorate || lost == 0 {
			t.Errorf("leader: events say %v, the view %v; lost %d times, want at least one", led, now, lost)
		}
	})
}

func TestLeaveTellsTheOthers(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, leads := range []bool{false, true} {
			leader := w.leader()
			leaver := leader
			if !leads {
				leaver = w.others(leader)[0]
			}
			begin := time.Now()
			if err := leaver.Leave(t.Context()); err != nil {
				t.Errorf("Leave: got %v, want nil", err)
			}
			if took := time.Since(begin); took > leaver.cfg.LeaderTimeout {
				t.Errorf("Leave took %v, want at most LeaderTimeout", took)
			}
			if err := leaver.Err(); err != ErrLeft {
				t.Errorf("Err: got %v, want ErrLeft", err)
			}
			w.nodes = w.others(leaver)
			time.Sleep(leaver.cfg.HeartbeatInterval * 4)
			term, ok := w.nodes[0].Leader()
			if !leads && (!ok || term.Leader() != leader.cfg.self.String()) {
				t.Errorf("a follower left: got leader %v, want it unchanged", term.Leader())
			}
			if m, _ := w.nodes[0].View().Member(leaver.cfg.self); m.Status < member.Leaving {
				t.Errorf("%s left: got status %v, want leaving or removed", leaver.cfg.Name, m.Status)
			}
		}
	})
}

// TestLeavingLeaderHandsOver checks that a leader that leaves hands over long before the others
// would miss it.
func TestLeavingLeaderHandsOver(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader := w.leader()
		begin := time.Now()
		if err := leader.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.nodes = w.others(leader)
		if _, err := w.nodes[0].WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > leader.cfg.HeartbeatTimeout {
			t.Errorf("next leader after %v, want at most HeartbeatTimeout", took)
		}
	})
}

func TestLeaveEndsWithItsContext(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		n := w.others(w.leader())[0]
		w.cut(n)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := n.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Leave of a node that is cut off: got %v, want the end of its context", err)
		}
		select {
		case <-n.Done():
		default:
			t.Error("the node still runs")
		}
		w.heal(n)
	})
}

// TestCloseEndsEverything checks that Close makes blocked calls return and later ones fail
// immediately.
func TestCloseEndsEverything(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		n := w.nodes[0]
		ended := make(chan error)
		for _, call := range []func() error{
			func() error { return n.WaitActive(t.Context(), 99) },
			func() error {
				return n.WhileLeader(t.Context(), func(ctx context.Context, _ leader.Term) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
			},
			func() error {
				for range n.Events(t.Context()) {
				}
				return n.Err()
			},
			func() error {
				for range n.Terms(t.Context()) {
				}
				return n.Err()
			},
		} {
			go func() { ended <- call() }()
		}
		synctest.Wait()
		term, _ := n.Leader()
		if err := n.Close(); err != nil {
			t.Errorf("Close: got %v, want nil", err)
		}
		for range 4 {
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Errorf("a waiting call: got %v, want ErrClosed", err)
			}
		}
		<-term.Done()
		if _, ok := n.Leader(); ok || term.Valid() {
			t.Error("after Close: there is still a term")
		}
		for name, err := range map[string]error{
			"Close":     errors.Join(ErrClosed, n.Close()),
			"Err":       n.Err(),
			"Send":      n.Send(t.Context(), address(1), 1),
			"Broadcast": n.Broadcast(t.Context(), 1),
			"Drain":     n.Drain(t.Context()),
			"Leave":     n.Leave(t.Context()),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close: got %v, want ErrClosed", name, err)
			}
		}
	})
}

// TestStatusIsOneSnapshot checks that authority, token, lease and the reason for a missing leader
// agree in each status, even between the end of a term and the end of its lease.
func TestStatusIsOneSnapshot(t *testing.T) {
	for name, end := range map[string]func(*world, *Node){
		"cut off": func(w *world, n *Node) { w.cut(n) },
		"hand-over": func(w *world, n *Node) {
			go func() { _ = n.Transfer(w.t.Context(), member.Address{}) }()
		},
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			old, lost := w.leader(), false
			end(w, old)
			for range 3000 {
				time.Sleep(time.Millisecond)
				for _, n := range w.nodes {
					s := n.Status()
					leads := !s.Token.IsZero()
					lost = lost || n == old && (!leads || s.View.Role != member.Leading)
					if s.View.Quorate != leads || s.TermSince.IsZero() == leads ||
						(s.NoLeader == "") != leads ||
						(s.LeaseRemaining > 0) != (leads && s.View.Role == member.Leading) {
						t.Fatalf("%s: %v: quorate %v, token %v, since %v, lease %v, no leader %q", name,
							s.View.Role, s.View.Quorate, s.Token, s.TermSince, s.LeaseRemaining, s.NoLeader)
					}
				}
			}
			if !lost {
				t.Errorf("%s: the node leads on: the test saw nothing", name)
			}
			if name == "cut off" {
				wantSilence(t, w, old)
			}
		})
	}
}

// wantSilence checks a node that was cut off for three seconds. The node must report all other
// nodes as silent, and how long it has had no leader. The other nodes must report only that node as
// silent.
func wantSilence(t *testing.T, w *world, cut *Node) {
	t.Helper()
	for _, n := range w.nodes {
		var want []member.Address
		for _, o := range w.others(n) {
			if n == cut || o == cut {
				want = append(want, o.cfg.self)
			}
		}
		s := n.Status()
		if !slices.Equal(s.Silent, want) {
			t.Errorf("%v: silent are %v, want %v", n.cfg.self, s.Silent, want)
		}
		since := time.Since(s.LeaderlessSince)
		if n == cut && (since < time.Second || since > 3*time.Second) ||
			n != cut && !s.LeaderlessSince.IsZero() {
			t.Errorf("%v: without a leader since %v", n.cfg.self, s.LeaderlessSince)
		}
	}
}
