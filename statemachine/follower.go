// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// followerState is what a follower knows of the leader it follows. It is kept when the leader
// is lost, so that following the same version again restarts no timer.
type followerState struct {
	leader member.Identity
	claim  member.Claim
	since  time.Time // following began
	// healthyAt is when a healthy ack or the first state of this version came;
	// for a provisional leader, when any ack came.
	healthyAt time.Time
	quorateAt time.Time // newest ack that said quorate; zero when the newest did not
	heardAt   time.Time // newest ack
	probedAt  time.Time // newest probe since then; zero for none
	sentAt    time.Time // newest keep-alive
	echo      message.Stamp
	// askedGap is the newest update that did not fit: each asks only once for
	// alignment at once.
	askedGap member.Number
}

// unaskedAt is when a follower sends a keep-alive unasked, because its leader's ack is late.
func (m *Machine) unaskedAt() time.Time {
	return m.follow.sentAt.Add(m.timing.unaskedTimeout())
}

// tickFollow sends the keep-alive that is due and gives up a silent leader.
func (m *Machine) tickFollow() {
	if m.role != member.Following {
		return
	}
	if m.due(m.lostAt()) {
		m.suspectLeader(Trace{Cause: m.lossCause()}, 0)
		return
	}
	if m.due(m.probeAt()) {
		m.follow.probedAt = m.now
		m.out.Probe = &Probe{m.follow.leader, m.leader.Version}
	}
	if m.due(m.unaskedAt()) {
		if !m.follow.heardAt.IsZero() {
			m.trace(Trace{Kind: Missed, Peer: m.leader.Leader})
		}
		m.sendKeepAlive()
	}
}

func (m *Machine) followDeadline(d *deadline) {
	if m.role != member.Following {
		return
	}
	d.add(m.lostAt())
	d.add(m.unaskedAt())
	d.add(m.probeAt())
	if m.followsQuorate(m.now) {
		d.add(m.follow.quorateAt.Add(m.timing.LeaderTimeout))
	}
}

// lostAt is when the leader followed is given up (protocol.md section 6, 1).
func (m *Machine) lostAt() time.Time {
	last := m.follow.healthyAt
	if m.follow.since.After(last) {
		last = m.follow.since
	}
	return last.Add(m.timing.LeaderTimeout)
}

// followsHealthy reports whether the chosen leader followed is healthy.
func (m *Machine) followsHealthy() bool {
	return m.role == member.Following && m.leader.Chosen && !m.follow.healthyAt.IsZero() &&
		m.now.Before(m.follow.healthyAt.Add(m.timing.LeaderTimeout))
}

// followsQuorate reports whether, as far as acks tell, the leader is quorate.
func (m *Machine) followsQuorate(now time.Time) bool {
	return m.role == member.Following && m.shownState().Version == m.leader.Version &&
		!m.follow.quorateAt.IsZero() &&
		now.Before(m.follow.quorateAt.Add(m.timing.LeaderTimeout))
}

// showsQuorate is what View shows as Quorate.
func (m *Machine) showsQuorate() bool { return m.isQuorate(m.now) || m.followsQuorate(m.now) }

// lossCause tells apart a leader that is silent and one whose acks say that it has no
// majority.
func (m *Machine) lossCause() Cause {
	if m.follow.heardAt.After(m.follow.healthyAt) {
		return CauseLease
	}
	return CauseSilence
}

// overruleLeader leaves the leader followed, which is not suspected, for a better one.
func (m *Machine) overruleLeader(cause Cause) {
	m.trace(Trace{
		Kind: Overruled, Cause: cause, Peer: m.leader.Leader, Version: m.leader.Version,
		Heard: m.follow.heardAt,
	})
	m.forgetLeader()
}

// suspectLeader leaves the leader followed: the view names none, and an election starts after a
// pause. t has the cause, and the event that brought it about, if any.
func (m *Machine) suspectLeader(t Trace, pause time.Duration) {
	t.Kind, t.Peer, t.Version = Suspected, m.leader.Leader, m.leader.Version
	t.Heard = m.follow.heardAt
	m.trace(t)
	m.forgetLeader()
	m.inquiry.nextAt, m.inquiry.fails = m.now.Add(pause+m.turnDelay()), 0
	// A voter asks the other voters first. A node without a vote has only the seeds.
	m.join.nextAt = m.now.Add(pause)
	if m.isVoter() {
		if m.support.until.After(m.join.nextAt) {
			m.join.nextAt = m.support.until
		}
		m.join.nextAt = m.join.nextAt.Add(m.timing.HeartbeatInterval)
	}
}

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
		m.suspectLeader(Trace{Reason: message.ReasonPortRefused, Cause: CauseCrash}, m.timing.refusedTurn())
	}
	return m.endCall()
}
