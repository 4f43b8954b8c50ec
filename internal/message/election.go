// SPDX-License-Identifier: Apache-2.0

package message

import (
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
}

// Vote answers a proposal.
type Vote struct {
	Stage    Stage
	ID       paxos.ID // the proposal voted on
	Granted  bool
	Reason   Reason         // why the vote was refused
	Promised paxos.ID       // the highest ID that the voter promised
	Accepted paxos.Accepted // zero if none; contains the state only in a granted pre vote
	Held     member.Number
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
