// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// This file notices that a leader's process died when its host refuses the port (protocol.md
// section 6, a process that died).

// probeAt is when the host of a chosen leader is asked next whether the process is there; zero
// for never.
func (m *Machine) probeAt() time.Time {
	f := &m.follow
	switch {
	case m.role != member.Following || !m.leader.Chosen || f.heardAt.IsZero():
		return time.Time{}
	case !f.probedAt.IsZero():
		return f.probedAt.Add(m.timing.probeInterval())
	}
	return f.heardAt.Add(m.timing.probeTimeout())
}

// Refused takes the report that the host of p refused the packet of a Probe. (S) It counts
// for that very run and version only. A view of that leadership ends; so does support of it
// if refusals are trusted.
func (m *Machine) Refused(now time.Time, p Probe) Output {
	m.beginCall(now)
	if m.stopped {
		return m.endCall()
	}
	if m.cfg.TrustRefusal {
		m.freeSupport(p.Leader, member.Claim{
			Chosen: true, Version: p.Version, Leader: p.Leader.Address,
		})
	}
	if m.role == member.Following && m.leader.Chosen && m.leader.Version == p.Version &&
		m.follow.leader == p.Leader {
		// The others learn of it at about the same time.
		m.suspect(Trace{Reason: message.ReasonPortRefused, Cause: CauseCrash}, m.timing.toldTurn())
	}
	return m.endCall()
}
