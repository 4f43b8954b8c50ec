// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for fewer than M live members (protocol.md 6).

// With fewer than M live members elections fail, but voters continue to ask and propose. Authority
// still needs M members of the held roster, however long this lasts.
func TestOneOfThreeSurvivesWithoutAuthority(t *testing.T) {
	b := formed(t, 3, 3)
	held := b.nodes[0].durable.Held
	b.crash(1, 2)
	mark := len(b.sent)
	for end := b.now.Add(10 * time.Minute); b.step(end); {
		if v, _ := b.nodes[0].Authority(b.now); v != 0 && b.since() > 10*time.Second {
			t.Fatalf("at %v: got authority for one of three", b.since())
		}
	}
	if got := b.nodes[0].durable.Held; got.Version != held.Version || len(got.Roster) != 3 {
		t.Errorf("got %v held with %d members, want version %d with 3",
			got.Number, len(got.Roster), held.Version)
	}
	if n := len(b.mail(mark, message.KindLeaderStatusQuery)); n < 600 {
		t.Errorf("got %d queries in ten minutes, want them to continue", n)
	}
	b.start(1)
	took := b.settle(2)
	if most := b.timings.LeaseTimeout + 2*b.timings.RetryInterval; took > most {
		t.Errorf("with M again: got a leader after %v, want at most %v", took, most)
	}
}

// A seed that has had no chosen leader for 3 x TTLTimeout declares itself if no answering seed
// names a leader. Otherwise it waits.
func TestASeedThatLearnsOfALeaderDoesNotDeclareItself(t *testing.T) {
	b := aVoter(t, 3)
	for range 200 {
		b.hand(b.answer(1, chosen(5, 2), number(5, 0)))
		b.run(b.timings.RetryInterval)
	}
	if b.since() < 4*b.timings.TTLTimeout {
		t.Fatalf("the test is too short: %v", b.since())
	}
	if v := b.view(0); v.Role != member.Seeking {
		t.Errorf("got role %v, want %v while a leader is named", v.Role, member.Seeking)
	}
}

// A node that is not a seed keeps asking, and joins any leader.
func TestANonSeedJoinsAgain(t *testing.T) {
	b := newBus(t, 3, 1)
	b.nodes[2].durable.Held = state(3, 3, 0, 1)
	b.start(2)
	b.run(4 * b.timings.TTLTimeout)
	in := event(0, provisional(4, 0), message.SeedKeepAlive{})
	in.To = addr(2)
	if got := kinds(b.handTo(2, in).Send); !slices.Contains(got, "n1: JoinClusterRequest") {
		t.Errorf("got %q, want a join at the provisional leader", got)
	}
}

// lostStores returns a cluster without a leader. All nodes stopped at the same instant, and the
// last nodes came back with empty stores.
func lostStores(t *testing.T, size, lost int, memory bool) *bus {
	t.Helper()
	b := formed(t, size, size)
	for i := range size {
		b.crash(i)
	}
	b.run(b.timings.LeaseTimeout)
	for i, n := range b.nodes {
		fresh := i >= size-lost
		n.conf = func(c *statemachine.Config) { c.Volatile, c.JoinOnly = memory, !memory && fresh }
		if fresh {
			n.durable.Held, n.durable.StoreID = member.State{}, member.StoreID{byte(100 + i)}
		}
		b.start(i)
	}
	return b
}

// Some voters return with another store id and hold nothing newer. Once fewer than M voters of the
// held roster are left, the roster can never elect a leader again (ErrRosterLost). A node with a
// durable store then waits.
func TestARosterIsLostWithNMinusMPlusOneStores(t *testing.T) {
	for _, tc := range []struct {
		size, lost int
		want       bool
	}{{3, 1, false}, {3, 2, true}, {4, 1, false}, {4, 2, true}, {5, 2, false}, {5, 3, true}} {
		name := fmt.Sprintf("N=%d, %d stores lost", tc.size, tc.lost)
		b := lostStores(t, tc.size, tc.lost, false)
		b.run(4 * b.timings.TTLTimeout)
		if got := b.nodes[0].RosterLost(); got != tc.want {
			t.Errorf("%s: got RosterLost %v, want %v\n%s", name, got, tc.want, b)
		}
		if got := b.quorate() >= 0; got == tc.want {
			t.Errorf("%s: got a leader: %v, want %v\n%s", name, got, !tc.want, b)
		}
		if held := b.nodes[0].durable.Held; tc.want && held.Version != 1 {
			t.Errorf("%s: got %v held, want it kept", name, held.Number)
		}
	}
}

// A node with a memory store then starts a new run: it draws a new store id and holds nothing, and
// tokens start over.
func TestAMemoryStoreStartsAsANewRunWhenTheRosterIsLost(t *testing.T) {
	b := lostStores(t, 3, 2, true)
	before := b.nodes[0].durable
	b.until(b.timings.TTLTimeout, "new run of n1", func() bool {
		return slices.ContainsFunc(b.nodes[0].trace, func(t statemachine.Trace) bool {
			return t.Kind == statemachine.NewRun
		})
	})
	after := b.nodes[0].durable
	if after.StoreID == before.StoreID || after.Incarnation <= before.Incarnation {
		t.Errorf("got store %v, run %d after store %v, run %d, want both new",
			after.StoreID, after.Incarnation, before.StoreID, before.Incarnation)
	}
	if !after.Held.IsZero() || !after.Promised.IsZero() {
		t.Errorf("got held %v, promised %v, want nothing", after.Held.Number, after.Promised)
	}
	// The new run does not know which leader it supported, so it must wait before it votes.
	found := pre(1, 1)
	found.Founding, found.Held = true, member.Number{}
	votes := bodies[message.Vote](b.hand(event(1, member.Claim{}, found)).Send)
	if len(votes) != 1 || votes[0].Reason != message.ReasonStartWait {
		t.Errorf("got the votes %+v immediately, want one refused: %v", votes, message.ReasonStartWait)
	}
	if got, want := b.nodes[0].VotesAt(), b.now.Add(b.timings.LeaseTimeout); !got.Equal(want) {
		t.Errorf("got votes from %v on, want %v", got, want)
	}
	b.settle(3)
	if v := b.view(0); v.Version != 1 {
		t.Errorf("got version %d, want a founding of version 1", v.Version)
	}
}

// A node that was left out of athena recover stays outside until it is recovered too. It holds a
// state of the cluster that the others have replaced. That state has higher numbers and a leader at
// the same address, but it must not spread at the next election.
func TestAStateOfAForgottenClusterStaysOutside(t *testing.T) {
	b := newBus(t, 5, 3)
	b.start(0, 1, 2, 3, 4)
	b.settle(5)
	for range 3 { // revisions
		b.crash(0)
		b.run(2 * b.timings.HeartbeatTimeout)
		b.start(0)
		b.settle(5)
	}
	old := b.nodes[4].durable.Held
	b.crash(0, 1, 2, 3, 4)
	for i, n := range b.nodes[:4] {
		n.durable.Held, n.durable.StoreID = member.State{}, member.StoreID{byte(100 + i)}
	}
	b.start(0, 1, 2, 3)
	b.settle(4)
	leader := b.quorate()
	now := b.nodes[leader].durable.Held
	if now.Leader != old.Leader || now.Version != old.Version || !now.Number.Less(old.Number) {
		t.Fatalf("the new cluster holds %v of %v, want less than %v of the same leader %v",
			now.Number, now.Leader, old.Number, old.Leader)
	}
	if now.Cluster == old.Cluster {
		t.Fatalf("both clusters have the id %v", now.Cluster)
	}
	b.start(4)
	b.run(4 * b.timings.TTLTimeout)
	if v := b.view(4); v.Role == member.Following || b.nodes[4].durable.Held.Cluster != old.Cluster {
		t.Errorf("n5 is %v and holds %v, want it outside\n%s", v.Role, b.nodes[4].durable.Held.Number, b)
	}
	if !b.nodes[4].RosterLost() {
		t.Error("n5 does not report that its roster is lost")
	}
	b.crash(leader)
	b.until(4*b.timings.LeaderTimeout, "next leader", func() bool { return b.quorate() >= 0 })
	if got := b.nodes[b.quorate()].durable.Held.Cluster; got != now.Cluster {
		t.Errorf("the next leader is of cluster %v, want %v", got, now.Cluster)
	}
}

// A voter counts as lost only until it answers with its old store again.
func TestAStoreThatIsSeenAgainIsNotLost(t *testing.T) {
	b := aVoter(t, 3)
	for _, i := range []int{1, 2} {
		in := event(i, member.Claim{}, message.LeaderQuery{ID: 1})
		in.From = newStore(run(i, 2))
		b.hand(in)
	}
	if !b.nodes[0].RosterLost() {
		t.Fatalf("got the roster not lost after both other stores were\n%s", b)
	}
	b.hand(event(1, member.Claim{}, message.LeaderQuery{
		ID: 1, Held: member.State{Number: number(3, 0)},
	}))
	if b.nodes[0].RosterLost() {
		t.Error("got the roster lost although a voter of it answers")
	}
}

// A provisional leader with a memory store also starts a new run if its roster is lost.
func TestAProvisionalLeaderWithAMemoryStoreStartsAsANewRun(t *testing.T) {
	b := holding(t, 3, state(3, 3, 0, 1))
	b.nodes[0].conf = func(c *statemachine.Config) { c.Volatile = true }
	b.start(0)
	b.run(3*b.timings.TTLTimeout + 1)
	if v := b.view(0); v.Role != member.Provisional {
		t.Fatalf("got no provisional leader\n%s", b)
	}
	var out statemachine.Output
	for _, i := range []int{1, 2} {
		in := event(i, member.Claim{}, message.LeaderQuery{ID: 1})
		in.From = newStore(run(i, 2))
		out = b.hand(in)
	}
	if !traced(out, statemachine.NewRun) || b.view(0).Role != member.Seeking {
		t.Errorf("got traces %+v as %v, want a new run that seeks", out.Trace, b.view(0).Role)
	}
	for _, m := range out.Send {
		if m.From.StoreID == run(0, 1).StoreID {
			t.Errorf("got %v sent in the name of the run that is over", m.Body.Kind())
		}
	}
}

// A node also counts its own lost store. If it and another one of three nodes return without their
// stores, two voters are lost.
func TestTheOwnLostStoreCounts(t *testing.T) {
	b := holding(t, 3, state(3, 3, 0, 1))
	b.nodes[0].durable.StoreID = member.StoreID{77}
	b.start(0)
	if b.nodes[0].RosterLost() {
		t.Error("got the roster lost with one store of three")
	}
	in := event(2, member.Claim{}, message.LeaderQuery{ID: 1})
	in.From = newStore(run(2, 2))
	b.hand(in)
	if !b.nodes[0].RosterLost() {
		t.Errorf("got the roster not lost with two stores of three\n%s", b)
	}
}

// A single member that is cut off from the leader never disturbs the others for long (L3). It does
// not declare itself either, because the others name the leader.
func TestAMemberThatAloneCannotReachTheLeaderDisturbsNoOther(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	lone := b.others(l)[0]
	b.cut = func(m message.Message) bool {
		from, to := m.From.Address, m.To
		return from == addr(l) && to == addr(lone) || from == addr(lone) && to == addr(l)
	}
	for end := b.now.Add(5 * b.timings.TTLTimeout); b.step(end); {
		if b.quorate() != l {
			t.Fatalf("at %v: got n%d leading, want n%d all the time\n%s", b.since(), b.quorate()+1, l+1, b)
		}
		if b.view(lone).Role == member.Provisional {
			t.Fatalf("at %v: n%d declared itself although a leader is named\n%s", b.since(), lone+1, b)
		}
	}
	if got := b.view(l).Version; got != 1 {
		t.Errorf("got version %d, want 1 still", got)
	}
}
