// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// Greet is the first event of either side on a connection (protocol.md
// section 8). The dialer's is active, the answer passive.
type Greet struct {
	Active      bool
	Name        string
	Cluster     string
	Size        int
	SeedDigest  uint64 // of the sorted list of seeds; a difference is a warning
	Timings     Timings
	MinProtocol uint16
	MaxProtocol uint16
	ClusterID   member.ClusterID // of the held state; zero for none, and in memory stores
}

// LeaderQuery asks who leads.
type LeaderQuery struct {
	ID   uint64
	Held member.State // zero when the asker holds nothing
}

// LeaderResponse answers LeaderQuery with the claim of its header; no claim
// there means that the answering node is leaderless.
type LeaderResponse struct {
	ID   uint64
	Held member.Number
}

// JoinClusterRequest asks a leader for a place in the roster.
type JoinClusterRequest struct {
	Name  string
	Seed  bool
	Held  member.Number
	Bound uint64 // version that the joiner is bound to, 0 for none
}

// JoinClusterResponse accepts or names the reason why not. The right leader,
// where the answering node knows one, is the claim of the header.
type JoinClusterResponse struct {
	Accepted bool
	Reason   Reason
	// Known is the incarnation in the roster that the joiner must exceed; set
	// with ReasonOldIncarnation.
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
