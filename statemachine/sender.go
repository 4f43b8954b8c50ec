// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// This file decides whose word counts (protocol.md section 3, another cluster, and
// section 7): a process that holds the cluster's secret but is no member of it must not
// be able to depose a leader or to replace a state.

// cluster is the id of the cluster whose state this node holds; zero for none.
func (m *Machine) cluster() member.ClusterID { return m.durable.Held.Cluster }

// otherCluster reports whether a message was sent by a node that holds a state of
// another cluster.
func (m *Machine) otherCluster(in message.Message) bool {
	return !m.cluster().IsZero() && !in.Cluster.IsZero() && in.Cluster != m.cluster()
}

// refuseCluster drops a message of another cluster. A question is answered, so that its
// sender learns why as well: it may hold the state of a cluster that is gone.
func (m *Machine) refuseCluster(in message.Message) {
	m.noteLost(in)
	m.drop(in, message.ReasonOtherCluster)
	switch in.Body.(type) {
	case message.LeaderQuery, message.JoinClusterRequest, message.LeaderStatusQuery:
		m.send(in.From.Address, message.JoinClusterResponse{Reason: message.ReasonOtherCluster})
	}
}

// trustsAddress reports whether a is the address of a node whose states, claims and proposals
// count: a seed, a member of the held roster, or the leader that this node follows or asked
// for a place. A node that has had no chosen leader for TTLTimeout trusts every address: all
// that it knew may have been replaced.
func (m *Machine) trustsAddress(a member.Address) bool {
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

// believes reports whether what the sender of a message says about leaders counts. A node
// that holds nothing believes everyone: a leader that is no seed must reach a seed that lost
// its store, before that founds another cluster.
func (m *Machine) believes(in message.Message) bool {
	if m.cluster().IsZero() {
		return true
	}
	return in.Cluster == m.cluster() && m.trustsAddress(in.From.Address)
}
