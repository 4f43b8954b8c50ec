// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/member"
)

// Cause is why a leader was lost, or why there was none, as this node knows it: other nodes
// may have learned of it in another way. It is empty if no leader was lost.
type Cause string

// The causes.
const (
	// CauseStart: this node started, and had no leader before.
	CauseStart Cause = "start"
	// CauseCrash: the host of the leader refused its port, or a message of a later run of
	// its process arrived.
	CauseCrash Cause = "crash"
	// CauseSilence: nothing came from the leader for LeaderTimeout.
	CauseSilence Cause = "silence"
	// CauseHandOver: the leader was told to leave, to hand over or to drain.
	CauseHandOver Cause = "hand-over"
	// CauseLeaseLost: a majority did not answer the leader within its lease, or its
	// process stood still for that time.
	CauseLeaseLost Cause = "lease lost"
	// CauseConflict: two led, and the better claim won (protocol.md section 7);
	// Election.Rule names the rule.
	CauseConflict Cause = "conflict"
	// CauseOutvoted: another leader was elected before this node had missed its own.
	CauseOutvoted Cause = "outvoted"
	// CauseRaised: the same leader had itself elected to a later version, because a
	// member had promised to follow none below it.
	CauseRaised Cause = "raised"
)

// Election is a change of leader as this node saw it. The zero Election is none.
type Election struct {
	Cause Cause // why there was no leader
	// Rule is what made one claim better than the other, of CauseConflict: "chosen" (one
	// leader was chosen, the other declared itself), "version" (the later version) or
	// "address" (the greater address).
	Rule    string
	Version uint64 // of the new leader
	Leader  member.Address
	Before  member.Address // the leader before; zero if this node followed none
	// Voters are the members that voted for the new leader as far as this node knows,
	// sorted. The node that proposed it, mostly the leader itself, knows a majority; any
	// other node knows at most its own vote.
	Voters []member.Address
	// Steps are what this node saw of the election, in the order of time.
	Steps []Step
	Took  time.Duration // without a leader with authority, as this node saw it
	Ended time.Time
}

// Step is one step of an election. A node sees some of these, "followed" and "quorate"
// always:
//
//	started   this node started
//	heard     the last message of the leader before
//	lost      this node does not follow the leader before, or does not lead
//	asked     this node asked whether the others miss the leader too
//	proposed  this node asked for promises (pre)
//	promised  this node promised to another
//	formal    a majority promised, this node asked for votes
//	voted     this node voted for the proposal of another
//	elected   this node counted a majority of votes
//	followed  this node follows the leader, or leads
//	quorate   the leader has a lease, as this node knows
type Step struct {
	Name  string
	After time.Duration // since the first step
}

// electionOf returns an election that package observe has seen.
func electionOf(e observe.Election) Election {
	var steps []Step
	for _, s := range e.Steps {
		steps = append(steps, Step(s))
	}
	return Election{
		Cause: Cause(e.Cause), Rule: e.Rule, Version: e.Version, Leader: e.Leader, Before: e.Before,
		Voters: e.Voters, Steps: steps, Took: e.Took, Ended: e.Ended,
	}
}
