// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"fmt"

	"github.com/athena-go/athena/internal/message"
)

// dispatch hands an admitted event to its flow. Handlers check the rest of the
// receive rule: what depends on version, leader, ballot or query.
func (m *Machine) dispatch(in message.Message) {
	switch b := in.Body.(type) {
	case message.LeaderQuery:
		m.onLeaderQuery(in, b)
	case message.LeaderResponse:
		m.onLeaderResponse(in, b)
	case message.JoinClusterRequest:
		m.onJoinRequest(in, b)
	case message.JoinClusterResponse:
		m.onJoinResponse(in, b)
	case message.MemberStatusUpdate:
		m.onMemberStatusUpdate(in, b)
	case message.ClusterAlignment:
		m.onAlignment(in, b)
	case message.LeaderKeepAlive:
		m.onKeepAlive(in, b)
	case message.LeaderKeepAliveAck:
		m.onKeepAliveAck(in, b)
	case message.SeedKeepAlive:
		m.onSeedKeepAlive(in)
	case message.SeedKeepAliveAck:
		// Its claim is heard with the header; there is nothing else in it.
	case message.LeaderRelieve:
		m.hearFrom(in, b.Winner)
	case message.ReJoinCluster:
		m.onReJoin(in, b)
	case message.LeaderStatusQuery:
		m.onStatusQuery(in, b)
	case message.LeaderStatusQueryResponse:
		m.onStatusResponse(in, b)
	case message.Proposal:
		m.onProposal(in, b)
	case message.Vote:
		m.onVote(in, b)
	case message.LeaderElected:
		m.onElected(in, b)
	case message.MemberLeave:
		m.onMemberLeave(in, b)
	case message.RecordRequest:
		m.onRecordRequest(in, b)
	case message.RecordResponse:
		m.onRecordResponse(in, b)
	case message.RecordUpdate:
		m.onRecordUpdate(in, b)
	default:
		panic(fmt.Sprintf("statemachine: no flow for %T", b))
	}
}
