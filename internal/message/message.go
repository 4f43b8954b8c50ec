// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"

	"github.com/athena-go/athena/member"
)

// MaxBytes bounds an encoded message, in package wire and in a transport.
const MaxBytes = 5 << 18

// Message is a system event with its header. Every message has From and Claim. From these, the
// receiver detects whether the sender or the receiver has older state.
type Message struct {
	From  member.Identity
	To    member.Address
	Claim member.Claim // the leader that the sender follows; zero if none
	// Cluster is the id of the cluster whose state the sender holds; zero if it holds none.
	Cluster member.ClusterID
	Body    Body
}

// Body is one of the event structs of this package.
type Body interface{ Kind() Kind }

// Kind is the type of an event. The numbers are part of the wire format.
type Kind uint8

// The system events (protocol.md section 2).
const (
	KindGreet Kind = iota + 1
	KindLeaderQuery
	KindLeaderResponse
	KindJoinClusterRequest
	KindJoinClusterResponse
	KindMemberStatusUpdate
	KindClusterAlignment
	KindLeaderKeepAlive
	KindLeaderKeepAliveAck
	KindSeedKeepAlive
	KindSeedKeepAliveAck
	KindLeaderRelieve
	KindReJoinCluster
	KindLeaderStatusQuery
	KindLeaderStatusQueryResponse
	KindProposal
	KindVote
	KindLeaderElected
	KindMemberLeave
	KindRecordRequest
	KindRecordResponse
	KindRecordUpdate
	KindMemberTraits
	KindRunEnded
	KindRelayed
	// Kinds is the number of kinds, including the unused zero.
	Kinds
)

var kindNames = [Kinds]string{
	"None", "Greet", "LeaderQuery", "LeaderResponse", "JoinClusterRequest", "JoinClusterResponse",
	"MemberStatusUpdate", "ClusterAlignment", "LeaderKeepAlive", "LeaderKeepAliveAck",
	"SeedKeepAlive", "SeedKeepAliveAck", "LeaderRelieve", "ReJoinCluster", "LeaderStatusQuery",
	"LeaderStatusQueryResponse", "Proposal", "Vote", "LeaderElected", "MemberLeave",
	"RecordRequest", "RecordResponse", "RecordUpdate", "MemberTraits", "RunEnded",
	"Relayed",
}

// String returns the event's name in protocol.md.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}
