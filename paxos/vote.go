// SPDX-License-Identifier: Apache-2.0

package paxos

import "github.com/athena-go/athena/member"

// Stage tells the two phases of an election apart.
type Stage uint8

// The stages: Pre asks for promises, Formal for acceptance.
const (
	Pre Stage = iota + 1
	Formal
)

// String is "pre" or "formal".
func (s Stage) String() string {
	if s == Pre {
		return "pre"
	}
	return "formal"
}

// Proposal asks an acceptor for its vote.
type Proposal struct {
	Stage    Stage
	ID       ID
	Founding bool          // an election without any held state
	Held     member.Number // of the state that the proposer holds; zero in a founding
	// Base is the state that State continues; formal only.
	Base member.Number
	// State is the value in the formal stage: its leader is the candidate. In the pre stage it is
	// the state that the proposer holds.
	State member.State
}

// Vote is the answer to a proposal as the proposer counts it.
type Vote struct {
	From    member.Identity
	Granted bool
	// Waits says that the voter refused only because it started a moment ago. It cannot vote yet,
	// and can lead.
	Waits bool
	// Accepted is the value that the voter accepted last; in a granted pre vote only.
	Accepted Accepted
	// Newer is the state that the voter holds, if it is newer than the one that the proposer
	// holds and a cluster like this one can have made it; otherwise zero.
	Newer member.State
}

// Refusal says why an acceptor refuses a proposal, or a proposer does not count a vote.
type Refusal uint8

// The refusals; NotRefused is the zero value.
const (
	NotRefused Refusal = iota
	// OldVersion: the version is not above the one that the acceptor holds.
	OldVersion
	// OldBase: the value continues an older state than the acceptor holds.
	OldBase
	// LowBallot: the acceptor promised a higher ballot.
	LowBallot
	// VersionJump: no election can have reached that version or round.
	VersionJump
	// HoldsNothing: the acceptor holds no state, and the proposal is no founding.
	HoldsNothing
	// NotVoter: the vote comes from a node that has none.
	NotVoter
	// VotedTwice: this voter's vote was counted before.
	VotedTwice
)
