// SPDX-License-Identifier: Apache-2.0

package paxos

import "github.com/athena-go/athena/member"

// Stage is a phase of an election.
type Stage uint8

// The stages: Pre asks for promises, Formal for acceptance.
const (
	Pre Stage = iota + 1
	Formal
)

// String returns "pre" or "formal".
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
	Founding bool          // set for an election without any held state
	Held     member.Number // number of the proposer's held state; zero in a founding
	// Base is the state that State continues; formal only.
	Base member.Number
	// State is the value in the formal stage, with the candidate as its leader. In the pre stage it
	// is the state that the proposer holds.
	State member.State
}

// Vote is an answer to a proposal in the form that the proposer counts.
type Vote struct {
	From    member.Identity
	Granted bool
	// Waits is set if the voter refused only because of its wait after a start. Such a voter cannot
	// vote yet, but can lead.
	Waits bool
	// Unable is set if the voter refuses to lead.
	Unable bool
	// Accepted is the last accepted value. It is set only in a granted pre vote.
	Accepted Accepted
	// Newer is the voter's held state if it is newer than the proposer's and plausible; otherwise
	// zero.
	Newer member.State
}

// Refusal is the reason why an acceptor refuses a proposal, or a proposer does not count a vote.
type Refusal uint8

// The refusals; NotRefused is the zero value.
const (
	NotRefused   Refusal = iota
	OldVersion           // the version is not above the one that the acceptor holds
	OldBase              // the value continues an older state than the acceptor holds
	LowBallot            // the acceptor promised a higher ballot
	VersionJump          // no election can have reached that version or round
	HoldsNothing         // the acceptor holds no state, and the proposal is not a founding
	NotVoter             // the sender of the vote is not a voter
	VotedTwice           // the voter has already voted
)
