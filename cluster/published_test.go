// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// verb is an operation of a test on the machine of a node, called in its event loop.
type verb = func(now time.Time) statemachine.Output

func (w *world) do(n *Node, v verb) {
	w.t.Helper()
	if err := n.runInLoop(w.t.Context(), func(now time.Time) (statemachine.Output, error) {
		return v(now), nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// rejoining cuts a member off from its leader and makes it ask to join again. It returns a verb
// that simulates a late answer to an earlier run of the member. The member then joins again under a
// higher number.
func (w *world) rejoining(leader, n *Node) verb {
	w.t.Helper()
	claim, from := claimOf(leader.currentSnapshot().held), leader.Self().Identity
	known := n.Self().Incarnation
	w.net.Cut(leader.cfg.self, n.cfg.self)
	w.do(n, func(now time.Time) statemachine.Output {
		return n.machine.Refused(now, statemachine.Probe{Leader: from, Version: claim.Version})
	})
	step := func(now time.Time, body message.Body) statemachine.Output {
		return n.machine.Step(now, message.Message{
			From: from, To: n.cfg.self, Claim: claim, Cluster: n.machine.Durable().Held.Cluster,
			Body: body,
		})
	}
	w.do(n, func(now time.Time) statemachine.Output { return step(now, message.SeedKeepAlive{}) })
	return func(now time.Time) statemachine.Output {
		return step(now, message.JoinClusterResponse{
			Reason: message.ReasonOldIncarnation, Known: known,
		})
	}
}

// TestARunThatJoinsAgainIsPublished checks that a run that joins again under a higher number
// immediately counts as another owner (protocol.md section 10). All data that the node shows must
// agree with that.
func TestARunThatJoinsAgainIsPublished(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader := w.leader()
		a, b := w.others(leader)[0], w.others(leader)[1]
		s := session(a)
		h := acquire(t, s, "k")
		want := a.Self().Identity
		want.Incarnation++
		w.do(a, w.rejoining(leader, a))
		r, err := record.Get(t.Context(), a.Records(), "k")
		if err != nil || s.Owns(r) {
			t.Errorf("Get: %v; the session owns %+v, want a record of the run before", err, r)
		}
		for what, got := range map[string]member.Identity{
			"View": a.View().Self, "Self": a.Self().Identity, "Status": a.Status().View.Self,
			"the greet": inbound{n: a}.Greet().From,
		} {
			if got != want {
				t.Errorf("%s shows %v, want %v", what, got, want)
			}
		}
		if h.Valid() {
			t.Errorf("the holding of the run before is valid as %v", want)
		}
		// The leader drops the record immediately, so another member may set it.
		synctest.Wait() // until the leader has received the request to join
		other := acquire(t, session(b), "k")
		if h.Valid() || !other.Valid() {
			t.Errorf("held by %v: %t, by %v: %t; want the later one alone (I10)",
				h.Token(), h.Valid(), other.Token(), other.Valid())
		}
		w.net.Heal(leader.cfg.self, a.cfg.self)
		if err := a.WaitActive(w.within(time.Minute), 3); err != nil {
			t.Fatal(err)
		}
		again := acquire(t, s, "again")
		time.Sleep(a.cfg.timings.HoldTimeout())
		r, err = record.Get(t.Context(), a.Records(), "again")
		if err != nil || !s.Owns(r) || !again.Valid() {
			t.Errorf("Get: %v; the new run holds its record: %t, want it owned and held", err, again.Valid())
		}
	})
}

// TestTrustEndsBeforeMessagesLeave checks that a term of this node ends before the messages of the
// same step leave, because a message may allow other nodes to act.
func TestTrustEndsBeforeMessagesLeave(t *testing.T) {
	for _, c := range []struct {
		name string
		// begin returns a node, its term as the leader or as the owner of a record, and the operation
		// that ends the term.
		begin func(t *testing.T, w *world) (*Node, leader.Term, verb)
	}{
		{"a leader that hands over", func(t *testing.T, w *world) (*Node, leader.Term, verb) {
			n := w.leader()
			term, _ := n.Leader()
			return n, term, func(now time.Time) statemachine.Output {
				out, err := n.machine.Transfer(now, w.others(n)[0].cfg.self)
				if err != nil {
					t.Errorf("Transfer: %v", err)
				}
				return out
			}
		}},
		{"an owner that drops", func(t *testing.T, w *world) (*Node, leader.Term, verb) {
			n := w.followers()[0]
			h := acquire(t, session(n), "k")
			return n, h, func(now time.Time) statemachine.Output {
				return n.machine.Commit(now, message.RecordRequest{
					ID: 1 << 40, Changes: []message.Change{{Key: "k", Drop: true}},
				})
			}
		}},
		{"a run that joins again", func(t *testing.T, w *world) (*Node, leader.Term, verb) {
			n := w.followers()[0]
			h := acquire(t, session(n), "k")
			return n, h, w.rejoining(w.leader(), n)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				time.Sleep(time.Second) // let the leader hear from its members
				n, held, step := c.begin(t, w)
				endsBeforeMessagesLeave(t, w, n, held, step)
			})
		})
	}
}

// hookedContext calls canceled when a context derived from it is canceled. The cancel function of
// the derived context returns only after that call.
type hookedContext struct {
	context.Context
	done     chan struct{}
	canceled func()
}

func (h hookedContext) Done() <-chan struct{} { return h.done }

func (h hookedContext) AfterFunc(func()) (stop func() bool) {
	return func() bool {
		h.canceled()
		return true
	}
}

// endsBeforeMessagesLeave blocks the loop at the moment when the term ends, for long enough to
// write a message. It checks that no message has left.
func endsBeforeMessagesLeave(t *testing.T, w *world, n *Node, held leader.Term, step verb) {
	t.Helper()
	written := func() uint64 {
		time.Sleep(time.Millisecond) // lets queued messages be written, in virtual time
		return n.net.Stats().Sent[transport.System].Messages
	}
	var before, atTheEnd uint64
	ctx := hookedContext{context.Background(), make(chan struct{}), func() { atTheEnd = written() }}
	finish, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		_ = held.Do(ctx, func(context.Context) error { <-finish; return nil })
	}()
	synctest.Wait()
	w.do(n, func(time.Time) statemachine.Output {
		before = written()
		return step(n.clock())
	})
	after := written()
	close(finish)
	<-finished
	if atTheEnd != before || after == before {
		t.Errorf("%d messages had left before, %d when the trust ended, %d after the step; "+
			"want those of the step after the end", before, atTheEnd, after)
	}
}

// TestTheClockIsReadAfterTheWait checks that the loop reads the clock after it has waited for an
// input. The wait may be longer than a lease, so a lease that starts at a time read before the wait
// may already be over. The test uses a single node, which extends its own lease with each step. It
// does not test the timer, because a turn whose time is too early does nothing and is repeated
// immediately.
func TestTheClockIsReadAfterTheWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		input func(w *world, n *Node)
	}{
		{"a message", func(_ *world, n *Node) {
			n.inbox <- inboxEntry{Message: message.Message{
				From: member.Identity{Address: address(1)}, To: n.cfg.self, Body: message.LeaderQuery{ID: 1},
			}}
		}},
		{"a port that is refused", func(_ *world, n *Node) {
			n.refusals <- statemachine.Probe{Leader: member.Identity{Address: address(1)}}
		}},
		{"a call", func(w *world, n *Node) { w.do(n, n.machine.Advance) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				n := w.nodes[0]
				term, _ := n.Leader()
				deadline := func() time.Duration {
					synctest.Wait()
					return time.Until(term.Deadline())
				}
				time.Sleep(time.Minute + time.Millisecond)
				margin := message.LeaseMargin(n.cfg.timings.LeaseTimeout)
				if got := deadline(); got >= margin {
					t.Fatalf("%v of the lease are left before the input, want less than %v", got, margin)
				}
				c.input(w, n)
				if got := deadline(); got != margin {
					t.Errorf("%v of the lease are left after the input, want %v", got, margin)
				}
			})
		})
	}
}
