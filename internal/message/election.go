// SPDX-License-Identifier: Apache-2.0

package message

import (
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Stage is the stage of an election that a proposal or vote belongs to.
type Stage = paxos.Stage

// The stages.
const (
	Pre    = paxos.Pre
	Formal = paxos.Formal
)

// LeaderStatusQuery asks a voter whether its leader is healthy. It precedes a proposal, so
// that a node that was cut off does not disturb the others.
type LeaderStatusQuery struct {
	ID      uint64
	Version uint64 // version of the state that the asker holds
}

// LeaderStatusQueryResponse answers LeaderStatusQuery. Healthy refers to the leader in the header's
// claim.
type LeaderStatusQueryResponse struct {
	ID      uint64
	Healthy bool
	Held    member.Number
	// Save is how long the latest saves of the sender took. It is 0 if it has not saved lately, or if
	// its release does not say.
	Save time.Duration
}

// Proposal asks for a vote. In the formal stage State is the proposed value, built on Base, and its
// leader is the candidate. In the pre stage State is the state that the proposer holds, for voters
// without a state. State is zero in the pre stage of a founding.
type Proposal struct {
	Stage      Stage
	ID         paxos.ID
	Founding   bool
	SeedDigest uint64        // digest of the proposer's seeds; checked in a founding
	Held       member.Number // number of the state that the proposer holds; zero in a founding
	Base       member.Number // formal only
	State      member.State
	// Successors are set if a leader that hands over proposes one of them, and they must hear M voters
	// before they vote; pre only, at most MaxSuccessors. Other voters send each a message.
	Successors []member.Address
}

// MaxSuccessors is the maximum number of Successors in a Proposal.
const MaxSuccessors = 3

// Vote answers a proposal.
type Vote struct {
	Stage    Stage
	ID       paxos.ID // the proposal voted on
	Granted  bool
	Reason   Reason         // why the vote was refused
	Promised paxos.ID       // the highest ID that the voter promised
	Accepted paxos.Accepted // zero if none; contains the state only in a granted pre vote
	Held     member.Number
	// Unable means that the voter must not be proposed as the leader; pre only.
	Unable bool
	// State is the state that the voter holds if it is newer than the state of the proposer. Otherwise
	// State is zero.
	State member.State
}

// LeaderElected announces the chosen leader and its initial state.
type LeaderElected struct {
	ID    paxos.ID
	State member.State
}

// Kind implements Body.
func (LeaderStatusQuery) Kind() Kind { return KindLeaderStatusQuery }

// Kind implements Body.
func (LeaderStatusQueryResponse) Kind() Kind { return KindLeaderStatusQueryResponse }

// Kind implements Body.
func (Proposal) Kind() Kind { return KindProposal }

// Kind implements Body.
func (Vote) Kind() Kind { return KindVote }

// Kind implements Body.
func (LeaderElected) Kind() Kind { return KindLeaderElected }
