// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

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
	m.noteLost(in)
	m.noteHearing(in)
	if m.splitVersion(in) {
		m.becomeStopped(ErrSplitVersion)
		return false
	}
	return true
}

// noteRun draws what follows from hearing a run of a peer: an earlier run of
// it is over, and with it its leadership (protocol.md section 5, support).
func (m *Machine) noteRun(from member.Identity) {
	s := &m.support
	if s.leader.Voter() == from.Voter() && from.Incarnation > s.leader.Incarnation {
		*s = supportState{}
	}
	f := &m.follow
	if m.role == member.Following && f.leader.Address == from.Address &&
		from.Incarnation > f.leader.Incarnation && f.leader.Incarnation != 0 {
		m.suspect(Trace{Cause: CauseCrash}, 0)
	}
}

// splitVersion reports a proof of a fault: another leader was chosen for the
// version that this node leads (protocol.md section 7). Only a voter of this
// cluster can prove it: what ends a leader must not be within reach of a process
// that merely knows the secret.
func (m *Machine) splitVersion(in message.Message) bool {
	c := in.Claim
	return c.Chosen && m.role == member.Leading && c.Version == m.leader.Version &&
		c.Leader != m.self.Address && in.Cluster == m.cluster() &&
		m.durable.Held.Roster.IsVoter(in.From.Voter())
}
