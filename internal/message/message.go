// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"

	"github.com/athena-go/athena/member"
)

// MaxBytes bounds a message, encoded: what package wire accepts and makes, and a transport
// carries.
const MaxBytes = 1 << 20

// Message is one system event under way. From and Claim are the header that
// every event carries, so that a receiver sees at once who is behind.
type Message struct {
	From  member.Identity
	To    member.Address
	Claim member.Claim // of the leader that the sender follows; zero for none
	// Cluster is that of the state which the sender holds; zero where it holds none.
	Cluster member.ClusterID
	Body    Body
}

// Body is one of the event structs of this package.
type Body interface{ Kind() Kind }

// Kind numbers the events. The numbers are part of the wire format.
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
	// Kinds counts the kinds, the unused zero included.
	Kinds
)

var kindNames = [Kinds]string{
	"None", "Greet", "LeaderQuery", "LeaderResponse", "JoinClusterRequest", "JoinClusterResponse",
	"MemberStatusUpdate", "ClusterAlignment", "LeaderKeepAlive", "LeaderKeepAliveAck",
	"SeedKeepAlive", "SeedKeepAliveAck", "LeaderRelieve", "ReJoinCluster", "LeaderStatusQuery",
	"LeaderStatusQueryResponse", "Proposal", "Vote", "LeaderElected", "MemberLeave",
	"RecordRequest", "RecordResponse", "RecordUpdate",
}

// String is the name of the event as documents write it.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}
