// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// stranger is the index of n8, which knows the secret but is neither a member nor a seed.
const stranger = 7

// strange returns a message of the stranger to node i, with the cluster id that i holds.
func (b *bus) strange(i int, claim member.Claim, body message.Body) message.Message {
	in := event(stranger, claim, body)
	in.To, in.Cluster = addr(i), b.nodes[i].durable.Held.Cluster
	return in
}

// leads returns the index of the quorate leader.
func (b *bus) leads() int {
	b.t.Helper()
	l := b.quorate()
	if l < 0 {
		b.t.Fatalf("got no leader\n%s", b)
	}
	return l
}

// forged returns s with all members except the leader replaced by nodes that do not exist.
func forged(s member.State, leader int, version uint64) member.State {
	e, _ := s.Roster.Find(addr(leader))
	out := member.State{Number: number(version, 0), Cluster: s.Cluster, Leader: addr(leader)}
	out.Roster = out.Roster.With(e)
	for i := 8; i < 7+len(s.Roster); i++ {
		out.Roster = out.Roster.With(member.Member{Identity: run(i, 1), Status: member.Active})
	}
	return out
}

// aProposal returns a formal proposal of the stranger.
func aProposal(version, round uint64, base member.Number, s member.State) message.Proposal {
	return message.Proposal{
		Stage: message.Formal, ID: ballot(stranger, version, round), Held: base, Base: base, State: s,
	}
}

// A stranger formally proposes a forged roster with the leader as the candidate. If the leader
// accepted it, it would be bound, and would adopt the roster in its own proposal. The cluster would
// then consist of processes that do not exist.
func TestStrangerForgedValueAdopted(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.leads()
	held := b.nodes[l].durable.Held
	w := held.Version + 1
	b.handTo(l, b.strange(l, member.Claim{}, aProposal(w, 1, held.Number, forged(held, l, w))))
	b.run(6 * b.timings.TTLTimeout)
	for i, n := range b.nodes {
		for j := range 3 {
			if _, ok := n.durable.Held.Roster.Find(addr(j)); !ok {
				t.Errorf("n%d holds a state without n%d", i+1, j+1)
			}
		}
	}
	if !b.settled(3) {
		t.Errorf("got no cluster of three\n%s", b)
	}
}

// A stranger sends a formal proposal at the limits, above which no node may propose.
func TestStrangerBoundAtTheLimit(t *testing.T) {
	for name, tc := range map[string]struct{ jump, round uint64 }{
		"version": {1 << 16, 1}, "round": {1, 1 << 40},
	} {
		for at, infect := range map[string]func(*bus, int) []int{
			"the leader": func(_ *bus, l int) []int { return []int{l} },
			"a follower": func(b *bus, l int) []int { return b.others(l)[:1] },
			"followers":  func(b *bus, l int) []int { return b.others(l) },
		} {
			b := formed(t, 3, 3)
			l := b.leads()
			held := b.nodes[l].durable.Held
			s := held
			s.Number = number(held.Version+tc.jump, 0)
			// The base does not exist, so no node ever adopts the value.
			p := aProposal(s.Version, tc.round, number(held.Version, held.Revision+100), s)
			p.State.Leader = addr(l)
			for _, i := range infect(b, l) {
				b.handTo(i, b.strange(i, member.Claim{}, p))
			}
			b.run(6 * b.timings.TTLTimeout)
			if !b.settled(3) {
				t.Errorf("%s at the limit, sent to %s: got no cluster of three a minute later\n%s",
					name, at, b)
				continue
			}
			l = b.leads()
			if bound := b.nodes[l].durable.Bound(); bound > b.nodes[l].durable.Held.Version {
				t.Errorf("%s at the limit, sent to %s: the leader of version %d is bound to %d",
					name, at, b.nodes[l].durable.Held.Version, bound)
			}
		}
	}
}

// A voter joins that is bound as far above the leader as a leader accepts. The leader is elected
// above that version, with few proposals.
func TestAVoterBoundAtTheLimit(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.leads()
	v := b.view(l).Version
	in := b.strange(l, member.Claim{}, message.JoinClusterRequest{Bound: v + 1<<16, Seed: true})
	in.From = b.nodes[b.others(l)[0]].View(b.now).Self
	b.handTo(l, in)
	b.run(b.timings.TTLTimeout)
	failed := b.count(l, statemachine.GaveUpProposal, addr(l))
	if got := b.view(l).Version; failed > 5 || b.quorate() != l || got != v+1<<16+1 {
		t.Errorf("the leader gave up %d proposals within %v and leads version %d, want it elected for %d",
			failed, b.timings.TTLTimeout, got, v+1<<16+1)
	}
}

// A stranger sends a founding proposal with a round at the limit.
func TestStrangerFoundingRound(t *testing.T) {
	for _, round := range []uint64{1 << 40, 1<<40 + 1, member.MaxCount} {
		b := newBus(t, 3, 3)
		b.start(0, 1, 2)
		for i := range 2 { // not the founder
			p := message.Proposal{
				Stage: message.Pre, ID: ballot(stranger, 1, round), Founding: true,
				SeedDigest: statemachine.SeedDigest(b.seeds),
			}
			b.handTo(i, b.strange(i, member.Claim{}, p))
		}
		b.run(6 * b.timings.TTLTimeout)
		if b.quorate() < 0 {
			t.Errorf("round %d: got no leader within a minute\n%s", round, b)
		}
	}
}

// A stranger sends one founding proposal to one fresh seed. If the seed accepted it, all nodes
// would adopt it.
func TestStrangerFoundingForged(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0, 1, 2)
	s := member.State{Number: number(1, 0), Cluster: ourCluster, Leader: addr(stranger)}
	for i := stranger; i < stranger+3; i++ {
		s.Roster = s.Roster.With(member.Member{Identity: run(i, 1), Status: member.Active})
	}
	p := message.Proposal{
		Stage: message.Formal, ID: ballot(stranger, 1, 1), Founding: true,
		SeedDigest: statemachine.SeedDigest(b.seeds), State: s,
	}
	b.handTo(2, b.strange(2, member.Claim{}, p))
	b.run(6 * b.timings.TTLTimeout)
	if !b.settled(3) {
		t.Errorf("got no cluster of three a minute later\n%s", b)
	}
}

// A node without a leader gets a state from a stranger. It may have asked the stranger for a place.
func TestStrangerStateWhileSeeking(t *testing.T) {
	s := forged(withMember(state(2, 3, 0, 1), stranger), stranger, 9)
	for name, first := range map[string]message.Body{
		"claims itself": message.SeedKeepAlive{},
		"accepts":       message.JoinClusterResponse{Accepted: true},
	} {
		b := aVoter(t, 3)
		b.hand(b.strange(0, chosen(9, stranger), first))
		b.hand(b.strange(0, chosen(9, stranger), message.ClusterAlignment{State: s}))
		if got := b.nodes[0].durable.Held; got.Number != number(3, 0) {
			t.Errorf("the stranger %s: n1 holds %v with %v", name, got.Number, got.Roster)
		}
	}
}

// (S) A follower that takes a stamped ack of a chosen leader supports that leader. If a node could
// follow a stranger briefly, it would support a version that has no leader. From then on it could
// support no real leader.
func TestStrangerSupportWorn(t *testing.T) {
	b := aVoter(t, 3)
	huge := uint64(member.MaxCount - 1)
	c := member.Claim{Chosen: true, Version: huge, Leader: addr(stranger)}
	b.hand(b.strange(0, c, message.JoinClusterResponse{Accepted: true}))
	b.hand(b.strange(0, c, message.LeaderKeepAliveAck{
		Stamp: message.Stamp{Version: huge, Incarnation: 1, Clock: 1},
	}))
	b.hand(b.strange(0, member.Claim{}, message.ReJoinCluster{GivenUp: provisional(1, stranger)}))
	b.run(2 * b.timings.LeaderTimeout)
	b.hand(event(1, chosen(3, 1), message.JoinClusterResponse{Accepted: true}))
	b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}))
	if v := b.view(0); v.Role != member.Following || v.Leader != addr(1) {
		t.Fatalf("got no follower of n2\n%s", b)
	}
	b.hand(event(1, chosen(3, 1), b.ack(b.now.UnixNano())))
	votes := bodies[message.Vote](b.hand(event(2, member.Claim{},
		formal(2, 4, state(3, 4, 0, 2)))).Send)
	if len(votes) != 1 || votes[0].Granted {
		t.Errorf("n1 took an ack of n2 this moment, and votes for n3: %+v", votes)
	}
}

// A seed that declared itself leader, and whose known members have other stores now, must still
// accept a leader's claim.
func TestStrangerProvisionalAcceptsANewLeader(t *testing.T) {
	b := provisionalWithRoster(t)
	in := event(2, chosen(5, 4), message.SeedKeepAlive{})
	in.From = newStore(in.From)
	b.hand(in)
	if v := b.view(0); v.Role == member.Provisional {
		t.Errorf("got %v after the claim of a chosen leader of its cluster, want it to join", v.Role)
	}
}

// A new run must not keep versions of the cluster that it forgot. Those versions would be so high
// that voters of the new cluster would refuse them, and the run could never win an election.
func TestStrangerNewRunKeepsVersions(t *testing.T) {
	b := lostStores(t, 3, 2, true)
	n := b.nodes[0]
	const high = 1 << 18
	b.crash(0)
	n.durable.Held.Version = high
	b.start(0)
	// Its last proposal in the old cluster failed: n2's old run had promised a later version.
	in := event(1, member.Claim{}, message.Vote{
		Promised: ballot(1, high+3, 1), Reason: message.ReasonPromised,
	})
	in.Cluster = n.durable.Held.Cluster
	b.hand(in)
	b.settle(3)
	id := n.durable.Held.Cluster
	b.crash(b.leads())
	b.cut = func(m message.Message) bool { // Only n1 may propose.
		return m.Body.Kind() == message.KindProposal && m.From.Address != addr(0)
	}
	b.run(2 * b.timings.TTLTimeout)
	if got := b.quorate(); got != 0 || n.durable.Held.Cluster != id {
		t.Errorf("got n%d as the leader, want n1\n%s", got+1, b)
	}
}

// During a failover, a stranger that claims to hold a newer state sends a pre proposal with a high
// round.
func TestStrangerPreProposalRound(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.leads()
	b.crash(l)
	i := b.others(l)[0]
	b.until(b.timings.TTLTimeout, "node without a leader", func() bool {
		return b.view(i).Leader.IsZero()
	})
	held := b.nodes[i].durable.Held
	p := message.Proposal{
		Stage: message.Pre, ID: ballot(stranger, held.Version+1, 1<<40),
		Held: number(held.Version, held.Revision+1),
	}
	out := b.handTo(i, b.strange(i, member.Claim{}, p))
	t.Logf("votes %+v", bodies[message.Vote](out.Send))
	b.run(6 * b.timings.TTLTimeout)
	if b.quorate() < 0 {
		t.Errorf("got no leader a minute later\n%s", b)
	}
}

// The complete sequence: a seed is cut off while the members that it knows are replaced. Then a
// second seed dies, but the third one, n6, is a member.
func TestStrangerSeedCutOffDuringReplacement(t *testing.T) {
	b := newBus(t, 5, 2)
	b.seeds = append(b.seeds, addr(5))
	for i := 5; i < 9; i++ {
		b.add(i)
	}
	b.start(0, 1, 2, 3, 4)
	b.settle(5)
	b.isolate(0)
	b.run(4 * b.timings.TTLTimeout)
	if v := b.view(0); v.Role != member.Provisional {
		t.Fatalf("got %v, want n1 to lead provisionally\n%s", v.Role, b)
	}
	for i := 2; i < 5; i++ {
		b.take(b.nodes[i], b.nodes[i].Leave(b.now))
		b.run(4 * b.timings.LeaderTimeout)
		b.start(i + 3)
		b.run(2 * b.timings.TTLTimeout)
	}
	b.start(8)
	b.run(2 * b.timings.TTLTimeout)
	b.crash(1)
	b.run(2 * b.timings.TTLTimeout)
	l := b.quorate()
	if l < 5 {
		t.Fatalf("got no leader of the new members\n%s", b)
	}
	b.heal()
	b.run(6 * b.timings.TTLTimeout)
	if v := b.view(0); v.Leader != addr(l) {
		t.Errorf("n1 does not follow n%d a minute after it can hear it\n%s", l+1, b)
	}
}

// One message from the address of a dead member, with its store id and a later run, must not lock
// the real process out.
func TestStrangerRunOfADeadMember(t *testing.T) {
	for _, run := range []uint64{member.MaxCount, member.MaxCount - 1} {
		b := formed(t, 3, 3)
		l := b.leads()
		i := b.others(l)[0]
		b.crash(i)
		b.run(b.timings.HeartbeatTimeout)
		in := event(i, member.Claim{}, message.JoinClusterRequest{Seed: true})
		in.To, in.Cluster, in.From.Incarnation = addr(l), b.nodes[l].durable.Held.Cluster, run
		b.handTo(l, in)
		b.start(i)
		b.run(6 * b.timings.TTLTimeout)
		if got := b.nodes[i].durable.Incarnation; !b.settled(3) || got >= member.MaxCount {
			t.Errorf("run %d: got no cluster of three, or a run that cannot be followed: %d\n%s",
				run, got, b)
		}
	}
}

// A reject names the greatest possible run.
func TestStrangerKnownRun(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(2, chosen(4, 2), message.SeedKeepAlive{}))
	b.hand(event(2, chosen(4, 2), message.JoinClusterResponse{
		Reason: message.ReasonOldIncarnation, Known: member.MaxCount - 1,
	}))
	if got := b.nodes[0].durable.Incarnation; got >= member.MaxCount {
		t.Errorf("got run %d: no node reads the number of the next", got)
	}
}

// The same as TestStrangerForgedValueAdopted, but from the address of a dead member.
func TestStrangerForgedValueOfADeadMember(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.leads()
	i := b.others(l)[0]
	b.crash(i)
	b.run(2 * b.timings.HeartbeatTimeout)
	held := b.nodes[l].durable.Held
	w := held.Version + 1
	p := aProposal(w, 1, held.Number, forged(held, l, w))
	p.ID.Ballot.Proposer, p.ID.Ballot.StoreID = addr(i), run(i, 1).StoreID
	in := b.strange(l, member.Claim{}, p)
	in.From = run(i, 1)
	b.handTo(l, in)
	b.run(b.timings.TTLTimeout)
	b.start(i)
	b.run(5 * b.timings.TTLTimeout)
	if !b.settled(3) {
		t.Errorf("got no cluster of three\n%s", b)
	}
}
