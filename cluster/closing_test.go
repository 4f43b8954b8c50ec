// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// fullStore is a store that fails once full is set.
type fullStore struct {
	*store.Memory
	full atomic.Bool
}

func (s *fullStore) Save(c store.Content) error {
	if s.full.Load() {
		return errBoom
	}
	return s.Memory.Save(c)
}

// TestStoppedLeaderIsReplacedSoon checks that a leader that ends for any reason gives up its
// leadership: the others elect a leader long before they would miss it.
func TestStoppedLeaderIsReplacedSoon(t *testing.T) {
	for name, end := range map[string]func(n *Node, s *fullStore){
		"closed": func(n *Node, _ *fullStore) { go n.Close() },
		"a save fails": func(n *Node, s *fullStore) {
			s.full.Store(true)
			_ = n.SetLabels(context.Background(), map[string]string{"disk": "full"})
		},
		"its address is taken": func(n *Node, _ *fullStore) { n.stop(ErrAddressInUse) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3)
				defer w.close()
				s := &fullStore{Memory: store.NewMemory([32]byte{})}
				n, err := w.startOn(s, 0, Config{})
				if err != nil {
					t.Fatal(err)
				}
				w.nodes = append(w.nodes, n)
				w.add(1, Config{})
				w.add(2, Config{})
				if err := n.WaitActive(w.within(time.Minute), 3); err != nil {
					t.Fatal(err)
				}
				if l := w.leader(); l != n {
					if err := l.Transfer(w.within(time.Minute), n.cfg.self); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				end(n, s)
				<-n.life.Done()
				begin := time.Now()
				w.nodes = w.others(n)
				for {
					term, err := w.nodes[0].WaitLeader(w.within(time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					if term.Leader() != n.cfg.self.String() {
						break
					}
					<-term.Done()
				}
				if took, most := time.Since(begin), n.cfg.HeartbeatInterval/10; took > most {
					t.Errorf("the next leader after %v, want at most %v", took, most)
				}
				<-n.Done()
			})
		})
	}
}

// TestClosedLeaderWaitsForItsWork checks that a closed leader gives up its leadership only when the
// functions of its term have returned, or half a HeartbeatInterval after their contexts ended.
func TestClosedLeaderWaitsForItsWork(t *testing.T) {
	for _, c := range []struct{ cleanup, most time.Duration }{
		{30 * time.Millisecond, 40 * time.Millisecond},
		{time.Minute, 60 * time.Millisecond},
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			n := w.leader()
			var begun, closed, returned time.Time
			work := make(chan struct{})
			go func() {
				defer close(work)
				_ = n.WhileLeader(t.Context(), func(ctx context.Context, _ leader.Term) error {
					<-ctx.Done()
					time.Sleep(c.cleanup)
					returned = time.Now()
					return nil
				})
			}()
			next, stop := context.WithCancel(t.Context())
			defer stop()
			for _, o := range w.others(n) {
				go o.WhileLeader(next, func(context.Context, leader.Term) error {
					begun = time.Now()
					stop()
					return nil
				})
			}
			time.Sleep(time.Second)
			closed = time.Now()
			go n.Close()
			<-next.Done()
			<-work
			least := min(c.cleanup, n.terms.guard)
			if took := begun.Sub(closed); took < least || took > c.most {
				t.Errorf("work that needs %v to end: the next began after %v, want %v to %v", c.cleanup, took,
					least, c.most)
			}
			if c.cleanup < n.terms.guard && begun.Before(returned) {
				t.Errorf("the next work began %v before the last one returned", returned.Sub(begun))
			}
		})
	}
}

// TestHandOverOfADoneContextChangesNothing checks that calls whose context is done before they
// begin change nothing: the leader's work runs on, and the node does not report itself as drained.
func TestHandOverOfADoneContextChangesNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		n := w.leader()
		time.Sleep(time.Second) // let the leader hear from its members
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range map[string]func() error{
			"Drain":    func() error { return n.Drain(ctx) },
			"Transfer": func() error { return n.Transfer(ctx, member.Address{}) },
			"Prefer":   func() error { return n.Prefer(ctx, member.NeverLeads) },
		} {
			term, _ := n.Leader()
			err := call()
			time.Sleep(10 * time.Second)
			drained, p := n.Status().Drained, n.currentSnapshot().traits.Preference
			if !errors.Is(err, context.Canceled) || !term.Valid() || drained || p != 0 {
				t.Errorf("%s: got %v, the term valid %t, drained %t, preference %v, want no change", name, err,
					term.Valid(), drained, p)
			}
		}
	})
}

// TestUnsavedLeadershipIsNotGivenUp checks that a leader whose store failed does not give up a
// later version than the one that it saved (protocol.md section 6, leaving leader).
func TestUnsavedLeadershipIsNotGivenUp(t *testing.T) {
	for _, saved := range []bool{true, false} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			n := w.leader()
			time.Sleep(time.Second) // let the leader hear from its members
			w.do(n, func(now time.Time) statemachine.Output {
				s := n.machine.Durable().Held
				s.Number = member.Number{Version: s.Version + 1}
				out := n.machine.Step(now, message.Message{
					From: w.others(n)[0].Self().Identity, To: n.cfg.self, Cluster: s.Cluster,
					Body: message.LeaderElected{State: s},
				})
				if got := n.machine.View(now).Version; got != 2 {
					t.Errorf("the machine leads version %d, want 2", got)
				}
				if !saved {
					out = statemachine.Output{}
				}
				out.Stop = errBoom // the node takes no further turn
				return out
			})
			<-n.Done()
			if role := n.machine.View(n.clock()).Role; (role == member.Leading) == saved {
				t.Errorf("saved %t: after its end the machine is %v", saved, role)
			}
		})
	}
}
