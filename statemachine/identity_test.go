// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"reflect"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for "whose word counts" (protocol.md 3). An address proves nothing, because any process can
// greet from any address; a store is proved.

// impostor returns a message to n1 of a process with another store at the address of node i, in the
// given run.
func impostor(i int, incarnation uint64, claim member.Claim, body message.Body) message.Message {
	in := event(i, claim, body)
	in.From = newStore(run(i, incarnation))
	return in
}

// ofRun returns a message to n1 of the given run of node i.
func ofRun(i int, incarnation uint64, claim member.Claim, body message.Body) message.Message {
	in := event(i, claim, body)
	in.From.Incarnation = incarnation
	return in
}

// A message of a later incarnation of the leader's store shows that the run of the leader is over.
// A process with another store at the leader's address proves nothing about that run (protocol.md
// 5, support).
func TestOnlyALaterRunOfItsStoreEndsALeader(t *testing.T) {
	query, claims := message.LeaderQuery{}, message.SeedKeepAlive{}
	for name, tc := range map[string]struct {
		in   message.Message
		ends bool
	}{
		"another store":                {impostor(1, 1, member.Claim{}, query), false},
		"a later run of another store": {impostor(1, 9, member.Claim{}, query), false},
		"another store that declares":  {impostor(1, 9, provisional(4, 1), claims), false},
		"the run that leads":           {ofRun(1, 1, chosen(3, 1), claims), false},
		"a later run":                  {ofRun(1, 2, member.Claim{}, query), true},
	} {
		b := aVoter(t, 3) // the wait after its start is over
		b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}))
		b.hand(event(1, chosen(3, 1), b.ack(1)))
		out := b.hand(tc.in)
		if got := traced(out, statemachine.Suspected); got != tc.ends {
			t.Errorf("%s: suspects its leader: got %v, want %v, traces %+v", name, got, tc.ends, out.Trace)
		}
		if follows := b.view(0).Role == member.Following; follows == tc.ends {
			t.Errorf("%s: follows its leader: got %v, want %v\n%s", name, follows, !tc.ends, b)
		}
		votes := bodies[message.Vote](b.hand(event(2, member.Claim{},
			formal(2, 4, state(3, 4, 0, 2)))).Send)
		if len(votes) != 1 || votes[0].Granted != tc.ends {
			t.Errorf("%s: votes for another: got %+v, want granted %v", name, votes, tc.ends)
		}
	}
}

// lies lists messages of a process with another store at the address of node i. From a member with
// its store, each of them would change a follower or a leader of the given version.
func lies(i int, version uint64) map[string]message.Message {
	v, own := version+1, chosen(version, i)
	none, next := member.Claim{}, state(3, v, 0, i)
	propose := func(stage message.Stage) message.Proposal {
		id := newStore(run(i, 1))
		p := message.Proposal{Stage: stage, ID: ballot(i, v, 1), Held: number(version, 5)}
		p.ID.Ballot.StoreID, p.Base, p.State = id.StoreID, p.Held, next
		return p
	}
	later := next
	later.Roster = later.Roster.With(
		member.Member{Identity: newStore(run(i, 1)), Status: member.Active})
	all := map[string]message.Message{
		"a better claim":         impostor(i, 1, chosen(v, i), message.SeedKeepAlive{}),
		"a better claim, acked":  impostor(i, 1, chosen(v, i), message.SeedKeepAliveAck{}),
		"the claim of another":   impostor(i, 1, chosen(v, 7), message.LeaderQuery{}),
		"LeaderRelieve":          impostor(i, 1, none, message.LeaderRelieve{Winner: chosen(v, i)}),
		"ReJoinCluster":          impostor(i, 1, none, message.ReJoinCluster{GivenUp: own}),
		"MemberLeave, as leader": impostor(i, 1, none, message.MemberLeave{GivenUp: own}),
		"MemberLeave":            impostor(i, 1, own, message.MemberLeave{}),
		"a later state":          impostor(i, 1, chosen(v, i), message.ClusterAlignment{State: next}),
		"a later state of its":   impostor(i, 1, chosen(v, i), message.ClusterAlignment{State: later}),
		"the next revision": impostor(i, 1, own,
			message.ClusterAlignment{State: state(3, version, 9, i)}),
		"an update": impostor(i, 1, own, message.MemberStatusUpdate{
			Number: number(version, 2), Member: state(3, version, 2, i).Roster[2],
		}),
		"LeaderElected":     impostor(i, 1, none, message.LeaderElected{State: next}),
		"LeaderElected, it": impostor(i, 1, none, message.LeaderElected{State: later}),
		"a vote": impostor(i, 1, none,
			message.Vote{Stage: message.Pre, Held: next.Number, State: next}),
		"an acceptance":     impostor(i, 1, chosen(v, i), message.JoinClusterResponse{Accepted: true}),
		"a pre proposal":    impostor(i, 1, none, propose(message.Pre)),
		"a formal proposal": impostor(i, 1, none, propose(message.Formal)),
	}
	all["ReJoinCluster for a winner"] = impostor(i, 1, none,
		message.ReJoinCluster{GivenUp: own, Winner: chosen(v, 7)})
	return all
}

// A process that knows the secret but is not a member must not depose a leader or replace a state.
// It does so from no address, neither of a member nor of the leader.
func TestAnotherStoreAtAMembersAddressIsNotBelieved(t *testing.T) {
	unmoved := func(role, name string, b *bus, in message.Message) {
		t.Helper()
		before, saved := b.view(0), b.nodes[0].Durable()
		out := b.hand(in)
		after := b.view(0)
		if after.Role != before.Role || after.Leader != before.Leader ||
			after.Version != before.Version || after.Revision != before.Revision ||
			out.Persist != nil || b.nodes[0].stop != nil {
			t.Errorf("%s, %s from another store at %v: got %v under %v at %d.%d, persist %v, stop %v, "+
				"want %v under %v at %d.%d\ntraces %+v", role, name, in.From.Address,
				after.Role, after.Leader, after.Version, after.Revision, out.Persist, b.nodes[0].stop,
				before.Role, before.Leader, before.Version, before.Revision, out.Trace)
		}
		if got := b.nodes[0].Durable(); !reflect.DeepEqual(got, saved) {
			t.Errorf("%s, %s: holds %+v, want %+v", role, name, got, saved)
		}
	}
	for i := 1; i < 3; i++ {
		for name, in := range lies(i, 3) {
			unmoved("a follower", name, aFollower(t, 3), in)
			unmoved("a supporter", name, supporter(t), in)
		}
		for name, in := range lies(i, 4) {
			unmoved("a leader", name, aQuorateLeader(t, 3), in)
		}
	}
	// n2 leads version 9 provisionally. A process with another store at its address cannot replace
	// the state that n1 shows.
	for name, s := range map[string]member.State{
		"a provisional state": state(3, 9, 7, 1), "a provisional state without it": state(0, 9, 7, 1),
	} {
		if name == "a provisional state without it" {
			s.Roster = state(3, 9, 7, 1).Roster.Without(addr(0))
		}
		unmoved("a follower of a provisional leader", name, softFollower(t),
			impostor(1, 1, provisional(9, 1), message.ClusterAlignment{State: s}))
	}
}

// A node that lost its leader asks the voters. It believes an answer that names a healthy leader
// only if it trusts the sender (protocol.md 6, 2).
func TestAnAnswerOfAnotherStoreNamesNoLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		from   member.Identity
		wanted bool
	}{
		"a voter": {run(2, 1), true}, "another store at its address": {newStore(run(2, 1)), false},
		"a stranger": {run(7, 1), false},
	} {
		b := aVoter(t, 3)
		b.untilSent(2*b.timings.LeaderTimeout, message.KindLeaderStatusQuery)
		in := event(2, chosen(4, 8), message.LeaderStatusQueryResponse{
			ID: last[message.LeaderStatusQuery](b).ID, Healthy: true, Held: number(4, 0),
		})
		in.From = tc.from
		out := b.hand(in)
		if got := len(bodies[message.JoinClusterRequest](out.Send)) > 0; got != tc.wanted {
			t.Errorf("the answer of %s: asks the leader that it names for a place: got %v, want %v",
				name, got, tc.wanted)
		}
	}
}

// A node that holds nothing has no protection: it takes the state that any process shows. So a seed
// without a leader takes the state of a founding in which it had no part (protocol.md 2,
// LeaderElected).
func TestASeedThatHoldsNothingTakesTheStateOfTheFounding(t *testing.T) {
	b := newBus(t, 5, 5)
	b.start(0)
	s := state(5, 1, 0, 4)
	s.Roster = s.Roster.Without(addr(0)).Without(addr(1))
	b.hand(event(4, member.Claim{}, message.LeaderElected{ID: ballot(4, 1, 1), State: s}))
	if got := b.nodes[0].durable.Held.Number; got != s.Number {
		t.Errorf("holds %v, want %v\n%s", got, s.Number, b)
	}
}

// AskPeer sends a message that every node answers, whatever its role.
func TestEveryNodeAnswersAskPeer(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.leads()
	asker := b.others(l)[0]
	other := b.others(l)[1]
	for i, what := range map[int]string{l: "the leader", other: "a follower"} {
		mark := len(b.sent)
		b.take(b.nodes[asker], b.nodes[asker].AskPeer(b.now, addr(i), member.StoreID{}))
		b.run(3 * b.latency)
		var answered bool
		for _, f := range b.mail(mark, message.KindSeedKeepAliveAck) {
			answered = answered || f.msg.From.Address == addr(i) && f.msg.To == addr(asker)
		}
		if !answered {
			t.Errorf("asked %s: got no answer\n%s", what, b)
		}
	}
	n := aVoter(t, 3)
	out := n.hand(event(1, chosen(3, 1), message.SeedKeepAlive{}))
	if len(bodies[message.SeedKeepAliveAck](out.Send)) != 1 {
		t.Errorf("asked a node without a leader: sent %q, want an answer", kinds(out.Send))
	}
}

// A joiner is no voter: the claim in its request does not depose the leader that gives it a place.
func TestTheClaimOfAJoinerDeposesNoLeader(t *testing.T) {
	b := newBus(t, 3, 3)
	b.nodes[0].durable.Held = state(2, 3, 0, 1)
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(2, 4, 0, 0)}))
	in := event(2, chosen(9, 2), message.JoinClusterRequest{})
	in.Cluster = b.nodes[0].Durable().Held.Cluster
	out := b.hand(in)
	if r := bodies[message.JoinClusterResponse](out.Send); len(r) != 1 || !r[0].Accepted {
		t.Fatalf("got %+v, want a place\n%s", r, b)
	}
	if v := b.view(0); v.Role != member.Leading || v.Version != 4 {
		t.Errorf("got role %v at version %d, want it to lead version 4\n%s", v.Role, v.Version, b)
	}
}
