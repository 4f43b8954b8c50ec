// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// This file learns of a leader whose process died from its host, which refuses
// the port (protocol.md section 6, a process that died).

// probeAt is when the host of a chosen leader is asked whether the process is
// there: its ack is late by a tenth of an interval, and from then on every
// quarter. Zero for never.
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

// Refused says that the host of p refused a packet that was sent when the machine
// asked for it. (S) It counts for that very run and version only. The view of it
// ends at once, and support of it where refusals are trusted.
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
