// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"fmt"
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// dispatch calls the handler of an admitted message. Handlers check the part of the receive rule
// that depends on version, leader, ballot or query.
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
	case message.MemberTraits:
		m.onMemberTraits(in, b)
	case message.ClusterAlignment:
		m.onAlignment(in, b)
	case message.LeaderKeepAlive:
		m.onKeepAlive(in, b)
	case message.LeaderKeepAliveAck:
		m.onKeepAliveAck(in, b)
	case message.RunEnded:
		m.noteEnded(in.From) // another member relayed it, so no one waits for an answer
	case message.SeedKeepAlive:
		m.onSeedKeepAlive(in)
	case message.SeedKeepAliveAck:
		// The message contains only the claim in its header, which Step handles.
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
	case message.Relayed:
		m.onRelayed(in, b)
	default:
		panic(fmt.Sprintf("statemachine: no handler for %T", b))
	}
}

// admit applies the part of the receive rule that is common to all messages: it checks the sender,
// its cluster and its run. It reports whether to dispatch the message.
func (m *Machine) admit(in message.Message) bool {
	switch {
	case in.To != m.self.Address:
		m.drop(in, message.ReasonNotAddressed)
		return false
	case in.From.Address.IsObserver(): // the messages of workers are relayed
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
		switch in.Body.(type) {
		case message.LeaderQuery, message.JoinClusterRequest: // a false leader may have raised its run
			m.send(in.From.Address, message.JoinClusterResponse{Reason: message.ReasonRunJump})
		}
		return false
	}
	if ok && e.StoreID == in.From.StoreID &&
		in.From.Incarnation < e.Incarnation {
		m.drop(in, message.ReasonEarlierRun)
		if in.Body.Kind() == message.KindJoinClusterRequest {
			// The sender's run was replaced while it was cut off, and the sender must learn that.
			m.send(in.From.Address, message.JoinClusterResponse{
				Reason: message.ReasonOldIncarnation, Known: e.Incarnation,
			})
		}
		return false
	}
	if m.refusesCopy(in) {
		return false
	}
	m.noteRun(in.From)
	m.noteHeard(in.From.Voter())
	m.noteLostVoter(in)
	m.noteResponse(in)
	if m.provesSplitVersion(in) {
		m.becomeStopped(ErrSplitVersion)
		return false
	}
	return true
}

// provesSplitVersion reports whether the message proves a fault: another leader was chosen for
// the version that this node leads (protocol.md 7). Only a voter of this cluster can prove it,
// because a process that merely knows the secret must not be able to stop a leader.
func (m *Machine) provesSplitVersion(in message.Message) bool {
	c := in.Claim
	return c.Chosen && m.role == member.Leading && c.Version == m.claim().Version &&
		c.Leader != m.self.Address && in.Cluster == m.clusterID() &&
		m.durable.Held.Roster.IsVoter(in.From.Voter())
}

// The functions below decide which senders are trusted (protocol.md 3, another cluster, and 7). A
// process that knows the cluster's secret but is not a member must not be able to depose a leader
// or to replace a state.

// clusterID returns the id of the cluster whose state this node holds; zero if it holds no state.
func (m *Machine) clusterID() member.ClusterID { return m.durable.Held.Cluster }

// otherCluster reports whether the sender holds a state of another cluster.
func (m *Machine) otherCluster(in message.Message) bool {
	return !m.clusterID().IsZero() && !in.Cluster.IsZero() && in.Cluster != m.clusterID()
}

// refuseCluster drops a message from another cluster. It answers queries, so that the sender learns
// the reason. The sender may hold the state of a cluster that no longer exists.
func (m *Machine) refuseCluster(in message.Message) {
	m.noteLostVoter(in)
	m.drop(in, message.ReasonOtherCluster)
	switch in.Body.(type) {
	case message.LeaderQuery, message.JoinClusterRequest, message.LeaderStatusQuery:
		m.send(in.From.Address, message.JoinClusterResponse{Reason: message.ReasonOtherCluster})
	}
}

// isTrusted reports whether this node accepts states, claims and proposals from a process. It must
// be a voter of the held roster, or the leader that this node follows or asked for a place. An
// address alone proves nothing: any process that knows the secret can claim it, or join. A node
// that holds no state trusts every process, since it knows none. A node that has had no chosen
// leader for TTLTimeout trusts the processes at the addresses of seeds and of the held roster,
// because all stores that it knew may have been replaced.
func (m *Machine) isTrusted(id member.Identity) bool {
	e, known := m.durable.Held.Roster.Find(id.Address)
	return known && e.IsVoter() && e.StoreID == id.StoreID || m.follows(id) ||
		m.isAsked(id.Address) || m.clusterID().IsZero() ||
		m.outOfTouch() && (known || m.isSeedAt(id.Address))
}

// isSeedAt reports whether a seed has the address.
func (m *Machine) isSeedAt(a member.Address) bool { return slices.Contains(m.cfg.Seeds, a) }

// isAsked reports whether this node asked the process at an address for a place. For the leader of
// the held state the result is false: its store is known.
func (m *Machine) isAsked(a member.Address) bool {
	return m.join.target.Leader == a && m.join.target != m.durable.Held.Claim()
}

// follows reports whether a process has the store of the leader that this node follows.
func (m *Machine) follows(id member.Identity) bool {
	return m.role == member.Following && m.follow.leader.Voter() == id.Voter()
}

// outOfTouch reports whether this node has had no chosen leader for TTLTimeout.
func (m *Machine) outOfTouch() bool {
	since := m.isolation.noChosenSince
	return !since.IsZero() && m.due(since.Add(m.timing.TTLTimeout))
}

// isTrustedSender reports whether this node accepts the claims in the message. A node that holds no
// state may be a seed that lost its store. A leader that is not a seed must be able to reach this
// seed before it founds another cluster.
func (m *Machine) isTrustedSender(in message.Message) bool {
	return m.clusterID().IsZero() || in.Cluster == m.clusterID() && m.isTrusted(in.From)
}
