// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
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

// trusts reports whether a is the address of a node whose states this node takes: a seed,
// a member of the held roster, or the leader that it follows or asked for a place.
func (m *Machine) trusts(a member.Address) bool {
	if _, ok := m.durable.Held.Roster.Find(a); ok {
		return true
	}
	return slices.Contains(m.cfg.Seeds, a) || a == m.leader.Leader || a == m.seek.target.Leader
}

// believes reports whether what the sender of a message says about leaders counts. A node
// that holds nothing believes everyone. One that holds a state wants a sender that holds a
// state of the same cluster; while it has a leader, one that it also trusts. A node that
// looks for a leader may ask any that it hears of: that risks one round at most.
func (m *Machine) believes(in message.Message) bool {
	switch {
	case m.cluster().IsZero():
		return true
	case in.Cluster != m.cluster():
		return false
	}
	return m.role == member.Seeking || m.trusts(in.From.Address)
}
