// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/statemachine"
)

// verb is what a test does with the machine of a node, on its loop.
type verb = func(now time.Time) statemachine.Output

func (w *world) do(n *Node, v verb) {
	w.t.Helper()
	if err := n.do(w.t.Context(), func(now time.Time) (statemachine.Output, error) {
		return v(now), nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// rejoining makes a member ask its leader for its place again, and returns what makes it
// join above its own number: a late answer to what its earlier run asked. The leader does
// not reach the member from then on.
func (w *world) rejoining(leader, n *Node) verb {
	w.t.Helper()
	claim, from := claimOf(leader.look().held), leader.Self().Identity
	known := n.Self().Incarnation
	w.net.Cut(leader.cfg.self, n.cfg.self)
	w.do(n, func(now time.Time) statemachine.Output {
		return n.machine.Refused(now, statemachine.Probe{Leader: from, Version: claim.Version})
	})
	step := func(now time.Time, body message.Body) statemachine.Output {
		return n.machine.Step(now, message.Message{
			From: from, To: n.cfg.self, Claim: claim, Body: body,
		})
	}
	w.do(n, func(now time.Time) statemachine.Output { return step(now, message.SeedKeepAlive{}) })
	return func(now time.Time) statemachine.Output {
		return step(now, message.JoinClusterResponse{
			Reason: message.ReasonOldIncarnation, Known: known,
		})
	}
}

// TestARunThatJoinsAgainIsPublished: a run that joins again above its number is another
// owner from that step on (protocol.md section 10), and that is what all of the node shows.
func TestARunThatJoinsAgainIsPublished(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader := w.leader()
		a, b := w.others(leader)[0], w.others(leader)[1]
		s := a.Session()
		h := acquire(t, s, "k")
		want := a.Self().Identity
		want.Incarnation++
		w.do(a, w.rejoining(leader, a))
		record, err := a.Get("k")
		if err != nil || s.Owns(record) {
			t.Errorf("Get: %v; the session owns %+v, want a record of the run before", err, record)
		}
		for what, got := range map[string]member.Identity{
			"View": a.View().Self, "Self": a.Self().Identity, "Status": a.Status().View.Self,
			"the greet": inbound{a}.Greet().From,
		} {
			if got != want {
				t.Errorf("%s shows %v, want %v", what, got, want)
			}
		}
		if h.Valid() {
			t.Errorf("the holding of the run before is valid as %v", want)
		}
		// The leader drops the record at once, and another may have it.
		other := acquire(t, b.Session(), "k")
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
		if record, err := a.Get("again"); err != nil || !s.Owns(record) || !again.Valid() {
			t.Errorf("Get: %v; the new run holds its record: %t, want it owned and held", err, again.Valid())
		}
	})
}
