// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// A false leader raised the run of an empty store so far above the run that members know at its
// address that they drop its messages. They say so, and it returns with the number of its clock.
func TestARaisedRunReturnsToItsPlace(t *testing.T) {
	b := formed(t, 3, 3)
	i := b.others(b.leads())[0]
	b.crash(i)
	b.run(time.Second)
	n := b.nodes[i]
	n.durable.Acceptor, n.durable.Incarnation = paxos.Acceptor{}, 0
	n.durable.StoreID[1]++
	const clock = 1 << 40
	n.conf = func(c *statemachine.Config) { c.JoinOnly, c.Clock = true, clock }
	b.start(i)
	in := event(stranger, chosen(900, stranger), message.SeedKeepAlive{})
	in.To = addr(i)
	b.handTo(i, in)
	in.Body = message.JoinClusterResponse{
		Reason: message.ReasonOldIncarnation, Known: clock + 1<<44,
	}
	b.handTo(i, in)
	if got := n.durable.Incarnation; got != clock+1<<44+1 {
		t.Fatalf("got run %d, want one above the run that the false leader knows", got)
	}
	b.run(time.Minute)
	if !b.settled(3) {
		t.Errorf("the node is not back after a minute\n%s", b)
	}
}

// A voter asks the leader of its state, which is dead, for a place, because another voter still
// names it. A process at that address has another store: nothing is taken from it.
func TestAnotherStoreAtTheAddressOfTheAskedLeader(t *testing.T) {
	asking := func() *bus {
		b := aVoter(t, 3)
		b.hand(event(2, chosen(3, 1), message.SeedKeepAlive{}))
		return b
	}
	b := asking()
	in := event(1, chosen(900, 1), message.JoinClusterResponse{Accepted: true})
	in.From = newStore(in.From)
	if b.hand(in); b.view(0).Role != member.Seeking {
		t.Errorf("the voter follows %v", b.view(0).Leader)
	}
	s := state(3, 900, 0, 1)
	s.Roster = s.Roster.With(member.Member{Identity: in.From, Seed: true, Status: member.Active})
	in.Body = message.ClusterAlignment{State: s}
	if b.hand(in); b.nodes[0].durable.Held.Version != 3 {
		t.Errorf("the voter holds %v", b.nodes[0].durable.Held)
	}
	b = asking()
	before := b.nodes[0].durable.StoreID
	in.Claim = chosen(3, 1)
	in.Body = message.JoinClusterResponse{Reason: message.ReasonRestored, Known: 5}
	if b.hand(in); b.nodes[0].durable.StoreID != before {
		t.Error("the voter gave its store up")
	}
}

// A process that is no voter shows a leader a later state: the leader does not begin to wait, so it
// does not raise its version immediately when a voter shows one.
func TestALaterStateOfAStrangerIsIgnored(t *testing.T) {
	b := aQuorateLeader(t, 3)
	later := message.LeaderQuery{ID: 1, Held: state(3, 9, 0, 2)}
	b.hand(event(stranger, member.Claim{}, later))
	for range 15 {
		b.run(100 * time.Millisecond)
		b.keepQuorate(3)
	}
	if out := b.hand(event(2, member.Claim{}, later)); traced(out, statemachine.FoundLater) {
		t.Error("the wait began when a stranger showed the state")
	}
}

// A seed that holds a state declares itself although a stranger names a leader in its queries.
func TestAStrangerKeepsNoSeedFromDeclaringItself(t *testing.T) {
	b := formed(t, 3, 3)
	i := b.others(b.leads())[0]
	b.isolate(i)
	in := event(stranger, chosen(900, stranger), message.LeaderQuery{ID: 1})
	in.To, in.Cluster = addr(i), b.nodes[i].durable.Held.Cluster
	for range 100 {
		b.run(b.timings.TTLTimeout / 25)
		if b.view(i).Role == member.Provisional {
			return
		}
		b.handTo(i, in)
	}
	t.Errorf("the seed is no provisional leader after four times TTLTimeout\n%s", b)
}
