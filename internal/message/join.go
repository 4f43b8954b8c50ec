// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// Protocol is the version of the protocol that this program speaks. Version 1 had another digest
// for the states that followers acknowledge, and version 2 had no proof of the store in a greeting.
const Protocol = 3

// Greet is the first event from each side of a connection (protocol.md section 8). Active is set
// only by the dialer.
type Greet struct {
	Active      bool
	Name        string
	Cluster     string
	Size        int
	SeedDigest  uint64 // digest of the sorted list of seeds; a difference causes a warning
	Timings     Timings
	MinProtocol uint16
	MaxProtocol uint16
	ClusterID   member.ClusterID // cluster of the state held; zero without state or in a memory store
	// OtherTimings are accepted in addition to Timings; zero for none.
	OtherTimings Timings
	// StoreKey is the public key whose hash is the store id of the sender. Proof is the signature by
	// which the sender proves for this connection that it holds the store (package storekey).
	StoreKey [32]byte
	Proof    [64]byte
}

// LeaderQuery asks which node leads.
type LeaderQuery struct {
	ID   uint64
	Held member.State // zero if the sender holds no state
	Runs Runs
}

// Runs are two runs of a store between which it made no other, so that others can find out that it
// was restored from a copy. Both are zero if the sender has a new store.
type Runs struct {
	Last  uint64 // incarnation that the store held when the process of the sender started
	First uint64 // incarnation with which that process started
}

// LeaderResponse answers LeaderQuery with the claim in its header. No claim means that the sender
// has no leader.
type LeaderResponse struct {
	ID   uint64
	Held member.Number
}

// JoinClusterRequest asks a leader for a seat in the roster.
type JoinClusterRequest struct {
	Name  string
	Seed  bool
	Held  member.Number
	Bound uint64 // version that the joiner is bound to, 0 if none
	member.Traits
	Runs Runs
}

// JoinClusterResponse accepts a join, or refuses it with a reason. If the sender knows the right
// leader, the header contains that leader's claim.
type JoinClusterResponse struct {
	Accepted bool
	Reason   Reason
	// Known is the incarnation in the roster, which the joiner must exceed (ReasonOldIncarnation), or
	// the version that the sender holds (ReasonRestored, ReasonLaterState).
	Known uint64
}

// Kind implements Body.
func (Greet) Kind() Kind { return KindGreet }

// Kind implements Body.
func (LeaderQuery) Kind() Kind { return KindLeaderQuery }

// Kind implements Body.
func (LeaderResponse) Kind() Kind { return KindLeaderResponse }

// Kind implements Body.
func (JoinClusterRequest) Kind() Kind { return KindJoinClusterRequest }

// Kind implements Body.
func (JoinClusterResponse) Kind() Kind { return KindJoinClusterResponse }
