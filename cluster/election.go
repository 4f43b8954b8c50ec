// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/member"
)

// Cause is why a leader was lost, or why there was no leader, as this node saw it. Other nodes may
// report another cause. It is empty if no leader was lost.
type Cause string

// The causes.
const (
	// CauseStart means that this node has just started and had no leader before.
	CauseStart Cause = "start"
	// CauseCrash means that the host of the leader refused packets to its port, or that a later run
	// of its process sent a message.
	CauseCrash Cause = "crash"
	// CauseSilence means that no message from the leader arrived for LeaderTimeout.
	CauseSilence Cause = "silence"
	// CauseReplaced is CauseSilence of a leader at whose address another store answers.
	CauseReplaced Cause = "replaced"
	// CauseHandOver means that the leader was asked to leave, to hand over or to drain, or stopped.
	CauseHandOver Cause = "hand-over"
	// CauseLeaseLost means that a majority did not answer the leader before its lease ended, or that
	// its process was paused until then.
	CauseLeaseLost Cause = "lease lost"
	// CauseConflict means that two members led and the better claim won (protocol.md
	// section 7). Election.Rule names the rule.
	CauseConflict Cause = "conflict"
	// CauseOutvoted means that another leader was elected before this node noticed the loss of the
	// previous leader.
	CauseOutvoted Cause = "outvoted"
	// CauseRaised means that the same leader was elected again with a later version. A member had
	// promised to follow no leader with an earlier version.
	CauseRaised Cause = "raised"
)

// Election is a change of leader as this node saw it. The zero Election means that the leader has
// not changed.
type Election struct {
	Cause Cause // why there was no leader
	// If Cause is CauseConflict, Rule is why one claim was better than the other: "chosen" (one
	// leader was elected, the other declared itself), "version" (the later version) or "address"
	// (the higher address).
	Rule    string
	Version uint64 // version of the new leader
	Leader  member.Address
	Before  member.Address // the previous leader; zero if this node followed none
	// Voters are the members that are known to have voted for the new leader, sorted. The node that
	// proposed the leader, usually the leader itself, knows the votes of a majority. Any other node
	// knows at most its own vote.
	Voters []member.Address
	Steps  []Step        // what this node saw of the election, in chronological order
	Took   time.Duration // how long this node knew no leader with authority
	Ended  time.Time
}

// Step is one step of an election. A node sees only some of them; "followed" and "quorate" always
// occur:
//
//	started   this node started
//	heard     the last message of the previous leader
//	lost      this node stopped following the previous leader, or stopped leading
//	asked     this node asked whether the others miss the leader too
//	proposed  this node asked for promises (pre)
//	promised  this node promised to another
//	formal    a majority promised, and this node asked for votes
//	voted     this node voted for the proposal of another
//	elected   this node counted a majority of votes
//	followed  this node follows the leader, or leads
//	quorate   this node learned that the leader has a lease
type Step struct {
	Name  string
	After time.Duration // since the first step
}

// electionOf converts an election of package diagnosis.
func electionOf(e diagnosis.Election) Election {
	var steps []Step
	for _, s := range e.Steps {
		steps = append(steps, Step(s))
	}
	return Election{
		Cause: Cause(e.Cause), Rule: e.Rule, Version: e.Version, Leader: e.Leader, Before: e.Before,
		Voters: e.Voters, Steps: steps, Took: e.Took, Ended: e.Ended,
	}
}
