// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"fmt"
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
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
		m.handleClaimFrom(in, b.Winner)
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

// admit is the part of the receive rule that concerns every event: who sends
// it, and in which run. It reports whether the event goes on to its flow.
func (m *Machine) admit(in message.Message) bool {
	switch {
	case in.To != m.self.Address:
		m.drop(in, message.ReasonNotAddressed)
		return false
	case in.From.Address == m.self.Address:
		m.drop(in, message.ReasonOwnAddress)
		return false
	}
	if m.otherCluster(in) {
		m.refuseCluster(in)
		return false
	}
	e, ok := m.durable.Held.Roster.Find(in.From.Address)
	if ok && in.From.Incarnation > e.Incarnation+maxRunJump {
		m.drop(in, message.ReasonVersionJump)
		return false
	}
	if ok && e.StoreID == in.From.StoreID &&
		in.From.Incarnation < e.Incarnation {
		m.drop(in, message.ReasonEarlierRun)
		if in.Body.Kind() == message.KindJoinClusterRequest {
			// It was replaced while it was cut off, and must learn so.
			m.send(in.From.Address, message.JoinClusterResponse{
				Reason: message.ReasonOldIncarnation, Known: e.Incarnation,
			})
		}
		return false
	}
	m.noteRun(in.From)
	m.noteLostVoter(in)
	m.noteResponse(in)
	if m.provesSplitVersion(in) {
		m.becomeStopped(ErrSplitVersion)
		return false
	}
	return true
}

// provesSplitVersion reports a proof of a fault: another leader was chosen for the
// version that this node leads (protocol.md section 7). Only a voter of this
// cluster can prove it: what ends a leader must not be within reach of a process
// that merely knows the secret.
func (m *Machine) provesSplitVersion(in message.Message) bool {
	c := in.Claim
	return c.Chosen && m.role == member.Leading && c.Version == m.leader.Version &&
		c.Leader != m.self.Address && in.Cluster == m.clusterID() &&
		m.durable.Held.Roster.IsVoter(in.From.Voter())
}

// This file decides whose word counts (protocol.md section 3, another cluster, and
// section 7): a process that holds the cluster's secret but is no member of it must not
// be able to depose a leader or to replace a state.

// clusterID is the id of the cluster whose state this node holds; zero for none.
func (m *Machine) clusterID() member.ClusterID { return m.durable.Held.Cluster }

// otherCluster reports whether a message was sent by a node that holds a state of
// another cluster.
func (m *Machine) otherCluster(in message.Message) bool {
	return !m.clusterID().IsZero() && !in.Cluster.IsZero() && in.Cluster != m.clusterID()
}

// refuseCluster drops a message of another cluster. A question is answered, so that its
// sender learns why as well: it may hold the state of a cluster that is gone.
func (m *Machine) refuseCluster(in message.Message) {
	m.noteLostVoter(in)
	m.drop(in, message.ReasonOtherCluster)
	switch in.Body.(type) {
	case message.LeaderQuery, message.JoinClusterRequest, message.LeaderStatusQuery:
		m.send(in.From.Address, message.JoinClusterResponse{Reason: message.ReasonOtherCluster})
	}
}

// isTrustedAddress reports whether a is the address of a node whose states, claims and proposals
// count: a seed, a member of the held roster, or the leader that this node follows or asked
// for a place. A node that has had no chosen leader for TTLTimeout trusts every address: all
// that it knew may have been replaced.
func (m *Machine) isTrustedAddress(a member.Address) bool {
	if _, ok := m.durable.Held.Roster.Find(a); ok {
		return true
	}
	return slices.Contains(m.cfg.Seeds, a) || a == m.leader.Leader || a == m.join.target.Leader ||
		m.outOfTouch()
}

// outOfTouch reports whether this node has had no chosen leader for TTLTimeout.
func (m *Machine) outOfTouch() bool {
	since := m.isolation.noChosenSince
	return !since.IsZero() && m.due(since.Add(m.timing.TTLTimeout))
}

// isTrustedSender reports whether what the sender of a message says about leaders counts. A node
// that holds nothing believes everyone: a leader that is no seed must reach a seed that lost
// its store, before that founds another cluster.
func (m *Machine) isTrustedSender(in message.Message) bool {
	if m.clusterID().IsZero() {
		return true
	}
	return in.Cluster == m.clusterID() && m.isTrustedAddress(in.From.Address)
}
