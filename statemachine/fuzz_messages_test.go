// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"encoding/binary"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// script decodes bytes into decisions. After the last byte every decision is 0.
type script struct{ b []byte }

func (s *script) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	first := s.b[0]
	s.b = s.b[1:]
	return first
}

// pick returns a number below n.
func (s *script) pick(n int) int { return int(s.byte()) % n }

// seldom returns true in one of 16 cases.
func (s *script) seldom() bool { return s.byte() >= 0xf0 }

// near returns v or a number next to v, or occasionally any number that the wire format allows.
func (s *script) near(v uint64) uint64 {
	k := s.byte()
	if k >= 0xfe {
		var wide [8]byte
		s.b = s.b[copy(wide[:], s.b):]
		return binary.LittleEndian.Uint64(wide[:]) % (member.MaxCount + 1)
	}
	switch k & 7 {
	case 5:
		return v + 1
	case 6:
		return v + 2
	case 7:
		return max(v, 1) - 1
	}
	return v
}

// who returns another node, mostly in the run that the held state lists.
func (p *pair) who() member.Identity {
	i := p.in.pick(p.cfg.Size + nodesBeyond)
	if i == p.self && !p.in.seldom() {
		i = (i + 1) % (p.cfg.Size + nodesBeyond)
	}
	id := p.known(addr(i), i)
	switch k := p.in.byte(); {
	case k >= 0xf0:
		return newStore(id)
	case k >= 0xe0:
		id.Incarnation = p.in.near(id.Incarnation)
	}
	return id
}

// known returns the run of node i that the held state lists, or its first run.
func (p *pair) known(a member.Address, i int) member.Identity {
	if p.one != nil {
		if e, ok := p.one.Durable().Held.Roster.Find(a); ok {
			return e.Identity
		}
	}
	return run(i, 1)
}

// runAt returns the run of the node at address a.
func (p *pair) runAt(a member.Address) member.Identity {
	for i := range p.cfg.Size + nodesBeyond {
		if addr(i) == a {
			return p.known(a, i)
		}
	}
	return member.Identity{Address: a}
}

func (p *pair) held() member.State {
	if p.one == nil {
		return member.State{}
	}
	return p.one.Durable().Held
}

func (p *pair) number(base member.Number) member.Number {
	return member.Number{Version: p.in.near(base.Version), Revision: p.in.near(base.Revision)}
}

// state returns a state that a node could show: base, a successor of base, or another state.
func (p *pair) state(base member.State) member.State {
	s, held := base, p.held()
	s.Cluster = p.cluster()
	kind := p.in.pick(8)
	switch {
	case len(base.Roster) == 0 || kind >= 6:
		s.Roster = p.roster()
	case kind >= 3:
		s = base.Next(base.Roster.With(p.entry(p.who())))
	}
	s.Number = p.number(s.Number)
	if len(s.Roster) == 0 {
		return s
	}
	if _, ok := s.Roster.Find(s.Leader); !ok || kind == 2 || kind == 7 {
		s.Leader = s.Roster[p.in.pick(len(s.Roster))].Address
	}
	if e, ok := s.Roster.Find(s.Leader); ok && !p.in.seldom() {
		e.Status, e.Gone, e.Resigned = member.Active, false, false
		s.Roster = s.Roster.With(e)
	}
	if s.Leader != held.Leader && s.Version == held.Version && !p.in.seldom() {
		s.Version++
	}
	return s
}

func (p *pair) roster() member.Roster {
	var r member.Roster
	for i := range p.cfg.Size + nodesBeyond {
		if len(r) == p.cfg.Size || p.in.pick(4) == 0 {
			continue
		}
		id := run(i, 1)
		if i == p.self && p.one != nil {
			id = p.one.View(p.now).Self
		}
		r = r.With(p.entry(id))
	}
	return r
}

func (p *pair) entry(id member.Identity) member.Member {
	e := member.Member{Identity: id, Name: id.Address.Host, Status: member.Active}
	if p.in.pick(4) == 0 {
		e.Status = member.Joining + member.Status(p.in.pick(4))
		e.Gone, e.Resigned = p.in.seldom(), p.in.seldom()
	}
	return e
}

// claim returns no claim, the claim of the shown leader or of the held state, or the claim of a
// node that may not be in the roster.
func (p *pair) claim() member.Claim {
	held := p.held()
	v := p.one.View(p.now)
	switch p.in.pick(8) {
	case 0:
		return member.Claim{}
	case 1, 2:
		return member.Claim{
			Chosen:  v.Role != member.Provisional && v.Version == held.Version,
			Version: v.Version, Leader: v.Leader,
		}
	case 3:
		return held.Claim()
	}
	return member.Claim{
		Chosen: p.in.pick(3) != 0, Version: p.in.near(held.Version), Leader: p.who().Address,
	}
}

func (p *pair) proposalID(version uint64, proposer member.Identity) paxos.ID {
	return paxos.ID{Version: p.in.near(version), Ballot: paxos.Ballot{
		Round: p.in.near(1), Proposer: proposer.Address,
		Incarnation: proposer.Incarnation, StoreID: proposer.StoreID,
	}}
}

func (p *pair) stamp(version, incarnation uint64) message.Stamp {
	s := message.Stamp{
		Version: p.in.near(version), Incarnation: p.in.near(incarnation), Clock: p.now.UnixNano(),
	}
	switch k := p.in.byte(); {
	case k >= 0xf8:
		above, below := p.in.near(0), p.in.near(0)
		s.Clock = int64(above) - int64(below)
	case k >= 0xe0:
		s.Clock += int64(p.cfg.Timings.HeartbeatInterval) * int64(p.in.pick(64)-32)
	}
	return s
}

// message returns a message without a body to the node, from a node of its cluster.
func (p *pair) message(from member.Identity, claim member.Claim) message.Message {
	return message.Message{From: from, To: p.cfg.Address, Claim: claim, Cluster: p.cluster()}
}

// cluster returns the id of the node's cluster, or the one that it finds if it holds no state.
func (p *pair) cluster() member.ClusterID {
	if id := p.held().Cluster; !id.IsZero() {
		return id
	}
	return ourCluster
}

// arbitrary returns a message of any kind.
func (p *pair) arbitrary() message.Message {
	in := p.message(p.who(), p.claim())
	if p.in.seldom() {
		in.To = p.who().Address
	}
	if p.in.pick(4) == 0 {
		// The sender is the leader of the state.
		in.Claim.Leader = in.From.Address
	}
	in.Body = p.body(message.KindLeaderQuery+message.Kind(p.in.pick(int(message.Kinds)-2)), &in)
	return in
}

// body returns a body that a machine can receive, which excludes Greet.
func (p *pair) body(k message.Kind, in *message.Message) message.Body {
	held := p.held()
	switch k {
	case message.KindLeaderQuery:
		return message.LeaderQuery{ID: p.in.near(0), Held: p.state(held)}
	case message.KindLeaderResponse:
		return message.LeaderResponse{ID: p.in.near(0), Held: p.number(held.Number)}
	case message.KindJoinClusterRequest:
		return message.JoinClusterRequest{
			Name: "n", Seed: p.in.seldom(), Held: p.number(held.Number), Bound: p.in.near(0),
		}
	case message.KindJoinClusterResponse:
		return message.JoinClusterResponse{
			Accepted: p.in.pick(2) == 0, Reason: message.Reason(p.in.byte()), Known: p.in.near(4),
		}
	case message.KindMemberStatusUpdate:
		e := p.entry(p.who())
		return message.MemberStatusUpdate{Number: p.number(held.Next(nil).Number), Member: e}
	case message.KindClusterAlignment:
		s := p.state(held)
		in.Claim.Version = s.Version
		return message.ClusterAlignment{State: s}
	case message.KindLeaderKeepAlive:
		return message.LeaderKeepAlive{
			Number: p.number(held.Number), Bound: p.in.near(0), Drained: p.in.seldom(),
			Echo: p.stamp(held.Version, p.saved.Incarnation), Stamp: p.stamp(held.Version, 1),
		}
	case message.KindLeaderKeepAliveAck:
		return message.LeaderKeepAliveAck{
			Echo: p.stamp(0, 0), Stamp: p.stamp(in.Claim.Version, in.From.Incarnation),
			Healthy: p.in.pick(2) == 0, Quorate: p.in.pick(2) == 0,
		}
	case message.KindSeedKeepAlive:
		return message.SeedKeepAlive{}
	case message.KindSeedKeepAliveAck:
		return message.SeedKeepAliveAck{}
	case message.KindLeaderRelieve:
		return message.LeaderRelieve{Winner: p.claim()}
	case message.KindReJoinCluster:
		return message.ReJoinCluster{GivenUp: p.claim(), Winner: p.claim()}
	case message.KindMemberLeave:
		return message.MemberLeave{GivenUp: p.claim(), Successor: p.target(), Stays: p.in.seldom()}
	}
	return p.ofElection(k, in)
}

func (p *pair) ofElection(k message.Kind, in *message.Message) message.Body {
	held := p.held()
	switch k {
	case message.KindLeaderStatusQuery:
		return message.LeaderStatusQuery{ID: p.in.near(1), Version: p.in.near(held.Version)}
	case message.KindLeaderStatusQueryResponse:
		return message.LeaderStatusQueryResponse{
			ID: p.in.near(1), Healthy: p.in.pick(2) == 0, Held: p.number(held.Number),
		}
	case message.KindVote:
		return message.Vote{
			Stage: message.Pre + message.Stage(p.in.pick(2)), ID: p.proposalID(held.Version+1, p.who()),
			Granted: p.in.pick(2) == 0, Reason: message.Reason(p.in.byte()),
			Promised: p.proposalID(held.Version, p.who()), Accepted: p.accepted(in.From),
			Held: p.number(held.Number), State: p.state(held),
		}
	case message.KindLeaderElected:
		s := p.state(held)
		return message.LeaderElected{ID: p.proposalID(s.Version, in.From), State: s}
	}
	b := message.Proposal{
		Stage: message.Pre + message.Stage(p.in.pick(2)), ID: p.proposalID(held.Version+1, in.From),
		Founding: p.in.pick(4) == 0, SeedDigest: statemachine.SeedDigest(p.cfg.Seeds),
		Held: p.number(held.Number), Base: p.number(held.Number), State: p.state(held),
	}
	if b.Stage == message.Formal && !p.in.seldom() {
		b.State.Number = member.Number{Version: b.ID.Version}
	}
	return b
}

func (p *pair) accepted(from member.Identity) paxos.Accepted {
	if p.in.pick(4) != 0 {
		return paxos.Accepted{}
	}
	held := p.held()
	a := paxos.Accepted{ID: p.proposalID(held.Version+1, from), Base: p.number(held.Number)}
	a.State = p.led(held)
	if p.in.seldom() {
		return a
	}
	return p.at(a, a.ID.Version)
}

// at sets the version of a value. Nodes accept only values with a version.
func (p *pair) at(a paxos.Accepted, version uint64) paxos.Accepted {
	a.ID.Version, a.State.Number = version, member.Number{Version: version}
	return a
}

// answer returns a possible answer to a sent message, or any message.
func (p *pair) answer() message.Message {
	if len(p.sent) == 0 {
		return p.arbitrary()
	}
	// The newest messages are the most relevant.
	back := p.in.pick(len(p.sent))
	asked := p.sent[len(p.sent)-1-back]
	in := p.message(p.runAt(asked.To), asked.Claim)
	in.Body = p.reply(asked, &in)
	if in.Body == nil {
		return p.arbitrary()
	}
	return in
}

func (p *pair) reply(asked message.Message, in *message.Message) message.Body {
	shown := p.one.View(p.now)
	follow := message.LeaderKeepAlive{
		Number: p.number(number(shown.Version, shown.Revision)), Bound: asked.Claim.Version,
		Stamp: p.stamp(asked.Claim.Version, in.From.Incarnation), Drained: p.in.seldom(),
	}
	switch b := asked.Body.(type) {
	case message.LeaderQuery:
		in.Claim = p.claim()
		return message.LeaderResponse{ID: b.ID, Held: p.number(b.Held.Number)}
	case message.JoinClusterRequest:
		in.Claim = member.Claim{
			Chosen: p.in.pick(4) != 0, Version: p.in.near(b.Held.Version), Leader: asked.To,
		}
		r := message.JoinClusterResponse{Accepted: p.in.pick(2) == 0}
		if !r.Accepted {
			r.Reason, r.Known = message.Reason(p.in.byte()), p.in.near(asked.From.Incarnation)
		}
		return r
	case message.LeaderStatusQuery:
		in.Claim = p.claim()
		return message.LeaderStatusQueryResponse{
			ID: b.ID, Healthy: p.in.seldom(), Held: p.number(p.held().Number),
		}
	case message.Proposal:
		v := message.Vote{Stage: b.Stage, ID: b.ID, Granted: p.in.pick(4) != 0, Held: b.Held}
		v.Promised, v.Accepted = b.ID, p.accepted(in.From)
		if v.Accepted.ID.Version != 0 && p.in.pick(2) == 0 {
			v.Accepted = p.at(v.Accepted, b.ID.Version)
		}
		if p.in.seldom() {
			v.Held, v.State = p.number(b.Held), p.state(p.held())
		}
		return v
	case message.LeaderKeepAlive:
		return message.LeaderKeepAliveAck{
			Echo: b.Stamp, Stamp: p.stamp(asked.Claim.Version, in.From.Incarnation),
			Healthy: p.in.pick(4) != 0, Quorate: p.in.pick(2) == 0,
		}
	case message.LeaderKeepAliveAck:
		follow.Echo = b.Stamp
		return follow
	case message.ClusterAlignment, message.LeaderElected, message.MemberStatusUpdate:
		return follow
	case message.SeedKeepAlive:
		return message.SeedKeepAliveAck{}
	case message.MemberLeave, message.ReJoinCluster:
		return message.LeaderRelieve{Winner: p.claim()}
	}
	return nil
}
