// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// stranger is a process that knows the secret and the id of the cluster but is not a
// member.
var stranger = member.Identity{
	Address: member.Address{Host: "stranger", Port: 7000},
	StoreID: member.StoreID{0xee}, Incarnation: 1,
}

// hear delivers one message of the stranger to a process.
func (c *Cluster) hear(i int, claim member.Claim, body message.Body) {
	c.hearFrom(stranger, i, claim, body)
}

// hearFrom delivers one message, of any sender, to a process.
func (c *Cluster) hearFrom(from member.Identity, i int, claim member.Claim, body message.Body) {
	p := c.procs[i]
	m := message.Message{
		From: from, To: p.cfg.Address, Claim: claim, Cluster: p.store.Held.Cluster, Body: body,
	}
	c.noteInput(p, steplog.Step{Event: steplog.Deliver, Message: (*steplog.Message)(&m)})
	c.settleStep(p, p.machine.Step(p.clock.at(c.now), m))
}

// invented returns a state that the stranger made for another version. The leader is active, and
// all other members are invented.
func invented(held member.State, leader member.Member, version uint64) member.State {
	s := member.State{
		Number: member.Number{Version: version}, Cluster: held.Cluster, Leader: leader.Address,
	}
	s.Roster = s.Roster.With(leader)
	for i := range len(held.Roster) - 1 {
		s.Roster = s.Roster.With(member.Member{
			Identity: member.Identity{
				Address: member.Address{Host: "x", Port: uint16(i + 1)}, StoreID: member.StoreID{byte(i + 1)},
			},
			Status: member.Active,
		})
	}
	return s
}

// frames returns messages for a cluster that holds a state. The stranger sends them one at a time.
func frames(held member.State, leader member.Member) map[string]message.Message {
	own := member.Member{Identity: stranger, Status: member.Active}
	next := held.Version + 1
	claim := func(version uint64) member.Claim {
		return member.Claim{Chosen: true, Version: version, Leader: stranger.Address}
	}
	formal := message.Proposal{
		Stage: message.Formal, Held: held.Number, Base: held.Number,
		State: invented(held, leader, next),
		ID: paxos.ID{Version: next, Ballot: paxos.Ballot{
			Round: 1, Proposer: stranger.Address, Incarnation: 1, StoreID: stranger.StoreID,
		}},
	}
	alone := member.State{
		Number: member.Number{Version: next}, Cluster: held.Cluster, Leader: stranger.Address,
		Roster: member.Roster{own},
	}
	state := invented(held, own, next)
	return map[string]message.Message{
		"a rival claim":          {Claim: claim(held.Version), Body: message.SeedKeepAlive{}},
		"a better claim":         {Claim: claim(next), Body: message.SeedKeepAlive{}},
		"a leader elected":       {Body: message.LeaderElected{State: state}},
		"a state":                {Claim: claim(next), Body: message.ClusterAlignment{State: state}},
		"a roster of one":        {Claim: claim(next), Body: message.ClusterAlignment{State: alone}},
		"a bound":                {Body: message.JoinClusterRequest{Bound: held.Version + 1<<15}},
		"a bound of no election": {Body: message.JoinClusterRequest{Bound: member.MaxCount - 1}},
		"a proposal":             {Body: formal},
	}
}

// TestStrangersDoNoHarm tests protocol.md section 3. No single message of a stranger, to
// the leader, to a follower, or to a follower that was cut off, changes the leader or its version.
func TestStrangersDoNoHarm(t *testing.T) {
	held := member.State{}
	for name := range frames(held, member.Member{}) {
		for _, to := range []string{"leader", "follower", "follower that was cut off"} {
			c := formed(t, steady(3))
			l := c.Leader()
			held = c.Durable(l).Held
			leader, _ := held.Roster.Find(held.Leader)
			i := l
			if to != "leader" {
				i = (l + 1) % 3
			}
			in := frames(held, leader)[name]
			if to == "follower that was cut off" {
				c.Isolate(i)
				c.RunFor(2 * c.setup.Timings.TTLTimeout)
			}
			c.hear(i, in.Claim, in.Body)
			c.RunFor(c.setup.Timings.LeaderTimeout)
			c.Heal()
			c.RunFor(4 * c.setup.Timings.LeaderTimeout)
			sound(t, c)
			if c.Leader() != l || c.Authority(l) != held.Version || !c.Settled() {
				t.Fatalf("L3 at %v: %s, to the %s: got another leader or version%s",
					c.Now(), name, to, c.Describe())
			}
		}
	}
}

// TestAForgedValueIsNotAdopted tests protocol.md section 6, step 4. A voter accepts an invented
// value, because the value comes from the address of a member that is down. The value must not
// spread.
func TestAForgedValueIsNotAdopted(t *testing.T) {
	c := formed(t, steady(3))
	l := c.Leader()
	held := c.Durable(l).Held
	leader, _ := held.Roster.Find(held.Leader)
	down := (l + 1) % 3
	from := c.procs[down].identity()
	c.Crash(down)
	p := frames(held, leader)["a proposal"].Body.(message.Proposal)
	p.ID.Ballot.Proposer, p.ID.Ballot.StoreID = from.Address, from.StoreID
	p.ID.Ballot.Incarnation = from.Incarnation
	c.hearFrom(from, l, member.Claim{}, p)
	c.Start(down)
	if !c.RunUntil(4*c.setup.Timings.TTLTimeout, c.Settled) {
		t.Fatalf("L2 at %v: no cluster of three%s", c.Now(), c.Describe())
	}
}

// TestAStoreWithoutAVoteIsPromisedNothing tests protocol.md section 6, step 3. The leader has died,
// and a process at its address that has another store proposes again and again. If the voters
// promised anything to this process, they would never elect a new leader.
func TestAStoreWithoutAVoteIsPromisedNothing(t *testing.T) {
	c := formed(t, steady(3))
	l, tm := c.Leader(), c.setup.Timings
	held := c.Durable(l).Held
	from := c.procs[l].identity()
	from.StoreID = stranger.StoreID
	c.Crash(l)
	c.RunFor(tm.LeaderTimeout)
	id := paxos.ID{Version: held.Version + 1, Ballot: paxos.Ballot{
		Proposer: from.Address, StoreID: from.StoreID, Incarnation: from.Incarnation,
	}}
	for end := c.Now() + 2*tm.TTLTimeout; c.Leader() < 0; {
		if c.Now() > end {
			t.Fatalf("L1 at %v: no voter leads%s", c.Now(), c.Describe())
		}
		id.Ballot.Round++
		for i := range c.Processes() {
			if i != l {
				c.hearFrom(from, i, member.Claim{}, message.Proposal{
					Stage: message.Pre, ID: id, Held: held.Number, State: held,
				})
			}
		}
		c.RunFor(tm.HeartbeatInterval / 2)
	}
}

// raise sends the leader a keep-alive of a follower that is bound to a version.
func (c *Cluster) raise(leader int, bound uint64) {
	held := c.Durable(leader).Held
	from := c.procs[(leader+1)%c.setup.Size].identity()
	c.hearFrom(from, leader, held.Claim(), message.LeaderKeepAlive{
		Number: held.Number, Digest: held.Digest(), Bound: bound,
	})
}

// TestAVoterRaisesTheVersionSlowly tests protocol.md section 3. A leader exceeds the version to
// which a voter is bound at most once in TTLTimeout, and by at most 2^16.
func TestAVoterRaisesTheVersionSlowly(t *testing.T) {
	c := formed(t, steady(3))
	l, tm := c.Leader(), c.setup.Timings
	first, end := c.leaderVersion(), c.Now()+2*tm.TTLTimeout
	for c.Now() < end {
		c.raise(l, c.Durable(l).Held.Version+paxos.MaxVersionJump+1)
		c.raise(l, c.Durable(l).Held.Version+1)
		c.RunFor(tm.HeartbeatInterval)
	}
	sound(t, c)
	if got := c.leaderVersion() - first; got < 2 || got > 3*2 || c.Leader() != l {
		t.Errorf("L3 at %v: raised by %d in 2 x TTLTimeout, want 2 to 6 and the same leader%s",
			c.Now(), got, c.Describe())
	}
}

// TestNoVersionExceedsTheGreatestToken tests protocol.md section 3. A voter raises the version up
// to the greatest one that a token has room for. After that, neither a voter nor an election
// exceeds it.
func TestNoVersionExceedsTheGreatestToken(t *testing.T) {
	s := steady(3)
	s.Timings.TTLTimeout = s.Timings.LeaderTimeout
	s.Floors = []uint64{paxos.MaxFloor, paxos.MaxFloor, paxos.MaxFloor}
	c := formed(t, s)
	l := c.Leader()
	for range 2 * (member.MaxVersion - paxos.MaxFloor) / paxos.MaxVersionJump {
		v := c.Durable(l).Held.Version
		c.raise(l, v+paxos.MaxVersionJump)
		c.raise(l, min(v+paxos.MaxVersionJump, member.MaxVersion-1))
		c.RunFor(s.Timings.TTLTimeout + s.Timings.HeartbeatInterval)
	}
	got := c.leaderVersion()
	c.Crash(l)
	c.RunFor(4 * s.Timings.TTLTimeout)
	for _, v := range c.check.order {
		got = max(got, v)
	}
	if got != member.MaxVersion {
		t.Errorf("I3 at %v: the greatest version was %d, want %d",
			c.Now(), got, uint64(member.MaxVersion))
	}
	sound(t, c)
}
