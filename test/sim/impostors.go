// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// This file contains the fault of a process that knows the secret and the id of the cluster but has
// the store of no member. It sends messages with great numbers, or in the name of the leader, from
// an address of its own or from that of a member. They reach machines directly, past the rule for
// connections, and must change nothing.

// The kinds of messages of impostors.
const (
	joinBound     = iota // a join with a bound above the version
	joinHeld             // a join with a held state above the version
	joinRun              // a join in a run far above all others
	keepBound            // a keep-alive with a bound above the version
	betterClaim          // a claim of a later version
	laterElected         // an election to a later version
	laterState           // the state of a later version
	voteState            // a vote that shows the state of a later version
	proposePre           // proposals for a later version
	proposeFormal        //
	givesUp              // gives up the leadership of the leader
	leaves               // leaves as the leader
	nextRevision         // the next revision of the leader's state
	query                // shows a later state
	answer               // answers a join, with any reason
	named                // names a later leader in answer to a query
	earlierRuns          // states that its run is later than all that are known
	impostorKinds
)

// farRun is how far above the leader's run the run of an impostor may be. A joiner above half of it
// is refused. Messages of runs above it are dropped, and prove nothing about joiners.
const farRun = 1 << 44

// drawImpostor draws the messages of an impostor: Args[0] is the number of the process whose
// address it has, or -1. Two numbers for each message follow: its kind and by how much its numbers
// are raised. Lasts is the time between two messages.
func (x *chaos) drawImpostor(f *Fault) {
	f.Who, f.Lasts = x.drawVictim(), int64(x.drawUpTo(x.plan.Setup.Timings.HeartbeatInterval))
	f.Args = []int64{x.rand.Int64N(int64(x.plan.Setup.Processes+1)) - 1}
	for range 1 + x.rand.IntN(16) {
		up := int64(drawSpread(x.rand, 1, float64(longest)))
		f.Args = append(f.Args, x.rand.Int64N(impostorKinds), up)
	}
}

// sendImpostor schedules the messages of an impostor. It counts those that arrive.
func (x *chaos) sendImpostor(f Fault) bool {
	if len(f.Args) == 0 || f.Args[0] < -1 || f.Args[0] >= int64(x.plan.Setup.Processes) {
		return false
	}
	for i, at := 1, time.Duration(0); i+1 < len(f.Args); i, at = i+2, at+time.Duration(f.Lasts) {
		kind, up := f.Args[i], max(f.Args[i+1], 1)
		x.callLater(at, func() {
			if x.c.impersonate(f.Who, int(f.Args[0]), kind, uint64(up)) {
				x.countFault(Impostors)
			}
		})
	}
	return false
}

// impostor returns the identity of an impostor with the address of process i, or with an address of
// its own if i is negative.
func (c *Cluster) impostor(i int) member.Identity {
	id := member.Identity{
		Address: member.Address{Host: "stranger", Port: 7000}, StoreID: member.StoreID{0xee},
		Incarnation: 1,
	}
	if i >= 0 {
		id.Address, id.Incarnation = c.Address(i), c.procs[i].nextIncarnation+1
		id.StoreID[1] = byte(i + 1)
	}
	return id
}

// impersonate delivers a message of an impostor to a process that has a quorate leader, or leads.
// Without a leader, the process takes messages only from an impostor with an address of its own,
// because the connections prove addresses. The message must change nothing. impersonate reports
// whether the message was delivered.
func (c *Cluster) impersonate(to, as int, kind int64, up uint64) bool {
	p := c.procs[to]
	c.advanceMachine(p) // one action can allow another one, which has no deadline
	if c.advanceMachine(p); to == as || !p.takesInput() || p.store.Held.IsZero() || p.clockSetForward {
		return false
	}
	held := p.store.Held
	// What is still due now would be done in the same step as the message.
	v := p.machine.View(p.clock.at(c.now))
	m := forge(c.impostor(as), held, kind, up)
	isKnown := as >= 0 || m.From.Address != c.impostor(as).Address
	if p.wake <= c.now || !v.Quorate && isKnown {
		return false
	}
	if m.To, m.Cluster = p.cfg.Address, held.Cluster; m.From.Address == m.To {
		return false
	}
	c.emitRecord(Record{Process: to, From: -1, Kind: Delivered, Message: m})
	out := p.machine.Step(p.clock.at(c.now), m)
	c.mixHash(uint64(c.now) ^ uint64(to)<<56 ^ uint64(kind)<<40)
	for _, answer := range out.Send {
		if answer.To != m.From.Address {
			c.check.noteViolation("impostor", "%s sends %v to %v because of %s",
				p.cfg.Name, answer.Body.Kind(), answer.To, formatMessage(m))
		}
	}
	if out.Persist != nil || out.Changed || out.Stop != nil {
		c.check.noteViolation("impostor", "%s at %v, led by %v, changes because of %s from %v (%v)",
			p.cfg.Name, held.Number, held.Leader, formatMessage(m), m.From, out.Trace)
	}
	c.recordTraces(p, out.Trace)
	c.setWake(p)
	return true
}

// forge returns a message of an impostor to a process that holds the state of a chosen leader. up
// is by how much its numbers are raised.
func forge(as member.Identity, held member.State, kind int64, up uint64) message.Message {
	later := min(held.Version+up, member.MaxCount-1)
	own := member.Member{Identity: as, Status: member.Active}
	next := held
	next.Number = member.Number{Version: held.Version + 1 + up%paxos.MaxVersionJump}
	next.Leader = as.Address
	next.Roster = held.Roster.Without(held.Leader).With(own)
	id := paxos.ID{Version: next.Version, Ballot: paxos.Ballot{
		Round: 1 + up%(1<<40), Proposer: as.Address, Incarnation: as.Incarnation, StoreID: as.StoreID,
	}}
	m := message.Message{From: as, Claim: held.Claim()}
	far := held.LeaderIdentity().Incarnation + farRun/2 + 1 + up%(farRun/4)
	switch kind {
	case joinBound: // far too, because the leader may exceed this version already
		m.From.Incarnation, m.Body = far, message.JoinClusterRequest{Bound: later}
	case joinHeld:
		m.From.Incarnation = far
		m.Body = message.JoinClusterRequest{Held: member.Number{Version: later}}
	case joinRun:
		m.From.Incarnation, m.Body = far, message.JoinClusterRequest{}
	case keepBound:
		m.Body = message.LeaderKeepAlive{Number: held.Number, Digest: held.Digest(), Bound: later}
	case betterClaim:
		m.Claim, m.Body = next.Claim(), message.SeedKeepAlive{}
	case laterElected:
		m.Claim, m.Body = member.Claim{}, message.LeaderElected{ID: id, State: next}
	case laterState:
		m.Claim, m.Body = next.Claim(), message.ClusterAlignment{State: next}
	case voteState:
		m.Body = message.Vote{Stage: message.Pre, ID: id, Held: next.Number, State: next}
	case proposePre:
		m.Body = message.Proposal{Stage: message.Pre, ID: id, Held: next.Number, State: next}
	case proposeFormal:
		m.Body = message.Proposal{
			Stage: message.Formal, ID: id, Held: held.Number, Base: held.Number, State: next,
		}
	case givesUp:
		m.From.Address = held.Leader
		m.Body = message.ReJoinCluster{GivenUp: held.Claim(), Winner: next.Claim()}
	case leaves:
		m.From.Address = held.Leader
		m.Body = message.MemberLeave{GivenUp: held.Claim()}
	case nextRevision:
		m.From.Address = held.Leader
		m.Body = message.MemberStatusUpdate{
			Number: member.Number{Version: held.Version, Revision: held.Revision + 1}, Member: own,
		}
	case query:
		m.Body = message.LeaderQuery{Held: next}
	case answer:
		m.Body = message.JoinClusterResponse{
			Reason: message.Reason(up % uint64(message.Reasons)), Known: far, Accepted: up%7 == 0,
		}
	case named:
		m.Claim, m.Body = next.Claim(), message.LeaderResponse{Held: next.Number}
	default:
		m.From.Address, m.From.Incarnation = held.Leader, m.From.Incarnation+up%(farRun/4)
		m.Body = message.SeedKeepAliveAck{}
	}
	return m
}
