// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// A member that hears fewer than M voters could be elected, but would get no authority. So a leader
// hands over only to a member that hears M voters (protocol.md 6, leaving leader and preference).
// Followers hear only their leader. They exchange messages for this only before a hand-over.

// heardVoter is a voter and when its newest message arrived.
type heardVoter struct {
	voter member.Voter
	at    time.Time
}

// noteHeard records the arrival of a message from a voter. A leader does not need this.
func (m *Machine) noteHeard(from member.Voter) {
	if m.role != member.Leading && m.durable.Held.Roster.IsVoter(from) {
		m.reach = slices.DeleteFunc(m.reach, func(h heardVoter) bool { return h.voter == from })
		m.reach = append(m.reach, heardVoter{from, m.now})
	}
}

// countReached returns how many voters this node has heard within livelySilence, itself included.
func (m *Machine) countReached() int {
	m.reach = slices.DeleteFunc(m.reach, func(h heardVoter) bool {
		return m.now.Sub(h.at) >= m.timing.livelySilence() || !m.durable.Held.Roster.IsVoter(h.voter)
	})
	return 1 + len(m.reach)
}

// askReach makes the other voters send a message to this node, unless it hears M voters already.
// Every release answers a SeedKeepAlive.
func (m *Machine) askReach() {
	if m.countReached() >= m.quorum {
		return
	}
	for _, e := range m.durable.Held.Roster {
		if e.IsVoter() {
			m.send(e.Address, message.SeedKeepAlive{})
		}
	}
}

// hearsQuorum reports whether the member hears M voters, or does not say how many it hears because
// its release is an earlier one.
func (m *Machine) hearsQuorum(p *peer) bool { return p.reaches == 0 || p.reaches >= m.quorum }
