// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// seededBy replaces the seeds of nodes.
func (b *bus) seededBy(seeds []int, nodes ...int) {
	var list []member.Address
	for _, i := range seeds {
		list = append(list, addr(i))
	}
	for _, i := range nodes {
		b.nodes[i].conf = func(c *statemachine.Config) { c.Seeds = list }
	}
}

// twoClusters returns a bus with two clusters, n1 to n3 and n4 to n6. Each has a leader, and both
// have the same number of members, name and version.
func twoClusters(t *testing.T) *bus {
	t.Helper()
	b := newBus(t, 3, 3)
	for i := 3; i < 6; i++ {
		b.add(i)
	}
	b.seededBy([]int{0, 1, 2}, 0, 1, 2)
	b.seededBy([]int{3, 4, 5}, 3, 4, 5)
	b.start(0, 1, 2, 3, 4, 5)
	b.until(10*b.timings.TTLTimeout, "two leaders", func() bool {
		return b.follow(0, 1, 2) && b.follow(3, 4, 5)
	})
	return b
}

// follow reports whether nodes agree on one of them as their quorate leader.
func (b *bus) follow(nodes ...int) bool {
	leader := b.view(nodes[0]).Leader
	return !slices.ContainsFunc(nodes, func(i int) bool {
		n := b.nodes[i]
		return !n.up || !b.view(i).Quorate || b.view(i).Leader != leader
	}) && slices.ContainsFunc(nodes, func(i int) bool { return addr(i) == leader })
}

// The founding creates the cluster id. Every later state keeps it, across elections, restarts and
// new members. A new founding creates a new id.
func TestAClusterKeepsTheIDOfItsFounding(t *testing.T) {
	b := twoClusters(t)
	id := b.nodes[0].durable.Held.Cluster
	if other := b.nodes[3].durable.Held.Cluster; id.IsZero() || other.IsZero() || id == other {
		t.Fatalf("two foundings have the ids %v and %v, want two", id, other)
	}
	for range 3 {
		i := slices.IndexFunc(b.nodes, func(n *node) bool { return n.addr == b.view(0).Leader })
		b.crash(i)
		b.run(3 * b.timings.LeaderTimeout)
		b.start(i)
		b.until(b.timings.TTLTimeout, "cluster of three", func() bool { return b.follow(0, 1, 2) })
		for _, n := range b.nodes[:3] {
			if got := n.durable.Held.Cluster; got != id {
				t.Fatalf("%v holds a state of cluster %v, want %v", n.addr, got, id)
			}
		}
	}
}

// Two clusters have the same secret, the default name and equal sizes. A node of the first restarts
// with a seed of the second in its list. No node stops, the second cluster keeps its leader and
// version, and the node returns to its own cluster.
func TestASeedOfAnotherClusterChangesNothing(t *testing.T) {
	for _, i := range []int{0, 1, 2} {
		b := twoClusters(t)
		before := b.view(3)
		b.crash(i)
		b.seededBy([]int{0, 1, 2, 3}, i) // more seeds than members: invalid for a cluster
		b.start(i)
		b.until(2*b.timings.TTLTimeout, "both clusters as before", func() bool {
			return b.follow(0, 1, 2) && b.follow(3, 4, 5)
		})
		b.run(2 * b.timings.TTLTimeout)
		for j, n := range b.nodes {
			if n.stop != nil {
				t.Errorf("n%d was started with a seed of the others: n%d ended: %v", i+1, j+1, n.stop)
			}
		}
		if after := b.view(3); after.Leader != before.Leader || after.Version != before.Version {
			t.Errorf("the other cluster went from %v of version %d to %v of version %d",
				before.Leader, before.Version, after.Leader, after.Version)
		}
		if !b.follow(0, 1, 2) || !b.follow(3, 4, 5) {
			t.Errorf("n%d with a seed of the others: no two clusters\n%s", i+1, b)
		}
	}
}

// hostile lists messages from a process that knows the secret but is not a member. In earlier
// versions, each of them did lasting harm.
func hostile() map[string]message.Message {
	forged := event(7, chosen(4, 7), message.SeedKeepAlive{})
	relieve := event(7, member.Claim{}, message.LeaderRelieve{Winner: chosen(5, 7)})
	elected := event(7, member.Claim{}, message.LeaderElected{State: state(3, 9, 0, 1)})
	alone := event(7, chosen(9, 7), message.ClusterAlignment{State: withMember(state(0, 9, 0, 7), 7)})
	vote := event(7, member.Claim{}, message.Vote{Stage: message.Pre, State: state(3, 9, 0, 1)})
	bound := event(7, member.Claim{}, message.JoinClusterRequest{Bound: member.MaxCount - 2})
	holds := event(7, member.Claim{}, message.JoinClusterRequest{
		Held: number(member.MaxCount-2, 0),
	})
	propose := event(7, member.Claim{}, pre(7, member.MaxCount-2))
	frames := map[string]message.Message{
		"a claim for the version of the leader": forged, "a better claim": relieve,
		"a leader elected": elected, "a state with a roster of one": alone, "a vote": vote,
		"a joiner that is bound": bound, "a joiner that holds a state": holds,
		"a proposal": propose,
	}
	all := map[string]message.Message{}
	for name, in := range frames {
		all[name+", of this cluster"] = in
		in.Cluster = member.ClusterID{}
		all[name+", of no cluster"] = in
		in.Cluster = otherCluster
		all[name+", of another cluster"] = in
	}
	return all
}

// One message from a process that is not a member does no lasting harm: the leader keeps leading, a
// follower keeps its state, and a voter proposes the next version.
func TestOneFrameOfAStrangerDoesNoHarm(t *testing.T) {
	for name, in := range hostile() {
		b := aQuorateLeader(t, 5) // not full
		held := b.nodes[0].durable.Held
		b.hand(in)
		b.keepQuorate(5)
		b.run(b.timings.HeartbeatInterval)
		v := b.view(0)
		if b.nodes[0].stop != nil || v.Role != member.Leading || v.Version != held.Version {
			t.Errorf("leader, %s: got %v of version %d, stopped: %v, want it to lead %d",
				name, v.Role, v.Version, b.nodes[0].stop, held.Version)
		}
		f := aFollower(t, 3)
		f.hand(in)
		if got := f.nodes[0].durable.Held; got.Number != number(3, 1) || f.view(0).Leader != addr(1) {
			t.Errorf("follower, %s: holds %v and follows %v, want 3.1 and n2", name, got.Number,
				f.view(0).Leader)
		}
		n := aVoter(t, 3)
		n.hand(in)
		if got := n.proposes(3); got.ID.Version != 4 {
			t.Errorf("voter, %s: proposes version %d, want 4", name, got.ID.Version)
		}
	}
}

// A voter misses so many elections that no proposal may skip all their versions. It still votes
// afterwards, because it trusts the state that another voter shows.
func TestAVoterThatWasAwayForLongVotes(t *testing.T) {
	b := aVoter(t, 3)
	p := pre(2, 1<<20)
	p.Held = number(1<<20-1, 7)
	votes := bodies[message.Vote](b.hand(event(2, member.Claim{}, p)).Send)
	if len(votes) != 1 || !votes[0].Granted {
		t.Errorf("got the votes %+v, want one that is granted", votes)
	}
}

// A node with a memory store holds the state of an old cluster. The others have founded a new
// cluster since. The answers to the node's queries show this, and it starts a new run.
func TestAMemoryStoreLearnsThatItsClusterIsGone(t *testing.T) {
	b := formed(t, 3, 3)
	for _, n := range b.nodes {
		n.conf = func(c *statemachine.Config) { c.Volatile = true }
	}
	b.crash(0, 1, 2)
	b.start(0)
	for i, n := range b.nodes[1:] {
		n.durable.Held, n.durable.StoreID = member.State{}, member.StoreID{byte(100 + i)}
	}
	b.cut = func(m message.Message) bool { return m.From.Address == addr(0) || m.To == addr(0) }
	b.start(1, 2)
	b.until(2*b.timings.TTLTimeout, "a new cluster of two", func() bool { return b.follow(1, 2) })
	b.cut = nil
	b.until(4*b.timings.TTLTimeout, "n1 in the new cluster", func() bool { return b.follow(0, 1, 2) })
	if got, want := b.nodes[0].durable.Held.Cluster, b.nodes[1].durable.Held.Cluster; got != want {
		t.Errorf("n1 is of cluster %v, want %v", got, want)
	}
}

// Two clusters list the same seed, which holds nothing and hears the leaders of both. The seed
// passes their claims on, but the claims depose no leader that holds a state.
func TestAClaimFromASeedWithoutAStateDoesNotCount(t *testing.T) {
	b := aQuorateLeader(t, 3)
	for _, body := range []message.Body{
		message.SeedKeepAlive{}, message.LeaderRelieve{Winner: chosen(9, 7)},
	} {
		in := event(1, chosen(9, 7), body)
		in.Cluster = member.ClusterID{}
		b.hand(in)
		if v := b.view(0); v.Role != member.Leading {
			t.Errorf("%v: got %v, want it to lead", body.Kind(), v.Role)
		}
	}
}
