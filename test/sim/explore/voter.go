// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// voter is a node that consists only of an acceptor and a proposer of package paxos,
// without a leader, a lease or a clock.
type voter struct {
	durable paxos.Durable
	propose paxos.Proposer
	self    member.Identity
	others  []member.Address
	out     statemachine.Output // output of the current step
}

func newVoter(cfg statemachine.Config, d paxos.Durable, r member.Roster) *voter {
	v := &voter{durable: d, self: member.Identity{
		Address: cfg.Address, StoreID: d.StoreID, Incarnation: d.Incarnation,
	}}
	for _, e := range r {
		if e.Address != cfg.Address {
			v.others = append(v.others, e.Address)
		}
	}
	return v
}

// Durable returns the state that survives a crash.
func (v *voter) Durable() paxos.Durable { return v.durable }

// View returns a view without a leader, because a voter never follows a leader.
func (v *voter) View(time.Time) member.View { return member.View{Role: member.Seeking} }

// Check returns nil: the explorer's own checks suffice.
func (v *voter) Check() error { return nil }

// Deadline returns a time in the past: a voter may propose at any time.
func (v *voter) Deadline() time.Time { return time.Unix(1, 0) }

// Advance abandons the current attempt and begins the next attempt.
func (v *voter) Advance(time.Time) statemachine.Output {
	v.out = statemachine.Output{}
	if !v.propose.Attempt.IsZero() {
		v.propose = v.propose.Fail()
	}
	v.propose = v.propose.BeginElection(v.self, v.durable.Acceptor,
		member.Quorum(len(v.others)+1), []member.Address{v.self.Address})
	v.out.Trace = append(v.out.Trace, statemachine.Trace{Kind: statemachine.Proposing})
	v.sendProposal()
	return v.takeOutput()
}

// Step handles a proposal, a vote or the announcement of a chosen leader.
func (v *voter) Step(_ time.Time, in message.Message) statemachine.Output {
	v.out = statemachine.Output{}
	switch b := in.Body.(type) {
	case message.Proposal:
		v.onProposal(in.From, b)
	case message.Vote:
		v.onVote(in.From, b)
	case message.LeaderElected:
		v.takeState(b.State)
	}
	return v.takeOutput()
}

func (v *voter) takeOutput() statemachine.Output {
	out := v.out
	v.out = statemachine.Output{}
	return out
}

// sendProposal sends the proposal to the others and votes on it.
func (v *voter) sendProposal() {
	p := v.propose.Attempt.Proposal(v.durable.Held)
	own, why := v.castVote(p)
	if why != paxos.NotRefused {
		v.propose = v.propose.Fail()
		return
	}
	for _, to := range v.others {
		v.send(to, message.Proposal{
			Stage: p.Stage, ID: p.ID, Held: p.Held, Base: p.Base, State: p.State,
		})
	}
	v.countVote(paxos.Vote{From: v.self, Granted: true, Accepted: own})
}

// castVote votes for p, or returns the reason to refuse it.
func (v *voter) castVote(p paxos.Proposal) (paxos.Accepted, paxos.Refusal) {
	a := v.durable.Acceptor
	var shown paxos.Accepted
	var why paxos.Refusal
	if p.Stage == paxos.Pre {
		if why = a.RefusePromise(p, true); why == paxos.NotRefused {
			v.durable.Acceptor, shown = a.Promise(p)
		}
	} else if why = a.RefuseAcceptance(p, true); why == paxos.NotRefused {
		v.durable.Acceptor = a.Accept(p)
	}
	return shown, why
}

func (v *voter) onProposal(from member.Identity, b message.Proposal) {
	shown, why := v.castVote(paxos.Proposal{
		Stage: b.Stage, ID: b.ID, Held: b.Held, Base: b.Base, State: b.State,
	})
	vote := message.Vote{
		Stage: b.Stage, ID: b.ID, Granted: why == paxos.NotRefused,
		Promised: v.durable.Promised, Accepted: shown, Held: v.durable.Held.Number,
	}
	if b.Held.Less(vote.Held) {
		vote.State = v.durable.Held
	}
	v.send(from.Address, vote)
}

func (v *voter) onVote(from member.Identity, b message.Vote) {
	v.propose = v.propose.SeePromise(b.Promised, v.durable.Held.Version)
	if v.takeState(b.State) || !v.propose.Attempt.Expects(b.ID, b.Stage) {
		return
	}
	v.countVote(paxos.Vote{
		From: from, Granted: b.Granted, Accepted: b.Accepted, Newer: b.State,
	})
}

// countVote counts a vote and takes the next step of the proposal, if any.
func (v *voter) countVote(vote paxos.Vote) {
	next, why := v.propose.Count(vote)
	v.propose = next
	if why != paxos.NotRefused {
		return
	}
	var step paxos.Step
	v.propose, step = v.propose.Next()
	switch step {
	case paxos.Wait:
	case paxos.GiveUp:
		v.propose = v.propose.Fail()
	case paxos.Propose:
		v.sendProposal()
	case paxos.Elect:
		a := v.propose.Attempt
		v.takeState(a.Value.State)
		for _, to := range v.others {
			v.send(to, message.LeaderElected{ID: a.ID, State: a.Value.State})
		}
	}
}

// takeState adopts a newer state of a chosen leader, unless the voter is bound to a later version.
// The voter drops its current proposal, which was built on an older state.
func (v *voter) takeState(s member.State) bool {
	if !v.durable.Held.Less(s.Number) || s.Version < v.durable.Bound() {
		return false
	}
	v.durable.Acceptor = v.durable.Take(s)
	v.propose = v.propose.Drop()
	return true
}

func (v *voter) send(to member.Address, body message.Body) {
	v.out.Send = append(v.out.Send, message.Message{From: v.self, To: to, Body: body})
}
