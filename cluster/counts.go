// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Counts are what a node counted since its start, for monitoring. A key that is a name, an
// address or a Transition is missing until it occurs; all other keys are there from the
// start, with 0.
type Counts struct {
	// Elections counts the elections that this node saw: it "won", it "followed" another
	// node, or its own proposal "failed", after which there may be another one.
	Elections map[string]uint64
	// Proposals counts the proposals of this node.
	Proposals map[Proposal]uint64
	// Votes counts the answers of this node to the proposals of others.
	Votes map[Vote]uint64
	// Conflicts counts leaders left or given up for a better claim, by Election.Rule.
	Conflicts map[string]uint64
	// Missed counts late heartbeats, by the member that was late: of the leader at its
	// members, and of members at the leader. A member that is removed is left out.
	Missed map[member.Address]uint64
	// Transitions counts the changes of members that this node saw.
	Transitions map[Transition]uint64
	// Lagged counts how often a reader of Events had lagged.
	Lagged uint64
	// ClockSteps counts how often the wall clock was set forward. After that this node had
	// no authority and trusted no record until the others had confirmed both.
	ClockSteps uint64
	// Elected are the times without a leader at each change of leader, the start of the
	// node aside.
	Elected receiver.Durations
	// Saved are the times that the store took to save.
	Saved receiver.Durations
	// Requests counts the requests of this node, by type and outcome.
	Requests map[Requested]uint64
}

// Proposal is a proposal at a stage, and its result: "won", "lost", or "overtaken" by
// another election.
type Proposal struct{ Stage, Result string }

// Vote is an answer to a proposal at a stage.
type Vote struct {
	Stage   string
	Granted bool
}

// Transition is a change of the status of a member.
type Transition struct{ From, To member.Status }

// countsOf returns what package observe has counted.
func countsOf(c observe.Counts) Counts {
	return Counts{
		Elections: c.Elections,
		Proposals: convertKeys(c.Proposals, func(p observe.Proposal) Proposal { return Proposal(p) }),
		Votes:     convertKeys(c.Votes, func(v observe.Vote) Vote { return Vote(v) }),
		Conflicts: c.Conflicts,
		Missed:    c.Missed,
		Transitions: convertKeys(c.Transitions,
			func(t observe.Transition) Transition { return Transition(t) }),
		ClockSteps: c.ClockSteps,
		Elected:    receiver.Durations(c.Elected),
		Saved:      receiver.Durations(c.Saved),
	}
}

// convertKeys returns a copy of m with keys of another type.
func convertKeys[To, From comparable](m map[From]uint64, convert func(From) To) map[To]uint64 {
	out := make(map[To]uint64, len(m))
	for key, n := range m {
		out[convert(key)] = n
	}
	return out
}
