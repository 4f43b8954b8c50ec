// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// followerState is the state of a follower. It is kept after the leader is lost, so that following
// the same version again does not restart a timer.
type followerState struct {
	leader member.Identity
	claim  member.Claim
	since  time.Time // when following began
	// healthyAt is the time at which the last healthy ack or the first state of this version arrived.
	// For a provisional leader it is the arrival of the last ack.
	healthyAt  time.Time
	quorateAt  time.Time     // arrival of the newest ack if it showed a quorate leader; otherwise zero
	heardAt    time.Time     // when the newest ack arrived
	replaced   bool          // another store has sent a message from its address since heardAt
	probedAt   time.Time     // when the newest probe since the last ack was sent; zero for none
	sentAt     time.Time     // when the newest keep-alive was sent
	echo       message.Stamp // the greatest stamp of its acks
	echoed     int64         // Clock of the greatest stamp that was echoed
	behind     bool          // a worker must show a later state before its trust is extended
	askReachAt time.Time     // when this node may next ask which voters it hears
	// askedGap is the newest update that did not follow the held revision. Each gap triggers one
	// keep-alive, which asks for the whole state.
	askedGap member.Number
	// announcedAt is when this node last announced its traits to the leader.
	announcedAt time.Time
}

// unaskedAt returns the time at which a keep-alive is due if no ack triggers it earlier.
func (m *Machine) unaskedAt() time.Time {
	return m.follow.sentAt.Add(m.timing.unaskedTimeout())
}

// tickFollow gives up a silent leader, and sends a keep-alive and a probe when they are due.
func (m *Machine) tickFollow() {
	if m.role != member.Following {
		return
	}
	if m.due(m.lostAt()) {
		cause := CauseSilence
		if m.follow.replaced {
			cause = CauseReplaced
		}
		if m.follow.heardAt.After(m.follow.healthyAt) {
			cause = CauseLease // its acks show that it has no majority
		}
		m.suspectLeader(Trace{Cause: cause}, leaderLost)
		return
	}
	if m.due(m.probeAt()) {
		m.follow.probedAt = m.now
		m.out.Probe = &Probe{m.follow.leader, m.claim().Version}
	}
	if m.due(m.unaskedAt()) {
		if !m.follow.heardAt.IsZero() {
			m.trace(Trace{Kind: Missed, Peer: m.claim().Leader})
		}
		m.sendKeepAlive()
	}
	if m.due(m.announceAt()) {
		m.follow.announcedAt = m.now
		m.send(m.claim().Leader, message.MemberTraits{Traits: m.traits})
	}
}

// announceAt returns when this node next announces its traits to the leader. It returns zero if the
// leader's state already shows them.
func (m *Machine) announceAt() time.Time {
	s := m.shownState()
	e, _ := s.Roster.Find(m.self.Address)
	if s.Version != m.claim().Version || e.Identity != m.self || e.Traits == m.traits {
		return time.Time{}
	}
	return m.follow.announcedAt.Add(m.timing.HeartbeatInterval)
}

func (m *Machine) followDeadline(d *deadline) {
	if m.role != member.Following {
		return
	}
	d.add(m.lostAt())
	d.add(m.unaskedAt())
	d.add(m.probeAt())
	d.add(m.announceAt())
	if m.followsQuorate(m.now) {
		d.add(m.follow.quorateAt.Add(m.timing.LeaderTimeout))
	}
}

// lostAt returns the time at which this node considers the leader lost (protocol.md 6, 1).
func (m *Machine) lostAt() time.Time {
	return latest(m.follow.healthyAt, m.follow.since).Add(m.outlastSaves(m.timing.LeaderTimeout))
}

// followsHealthy reports whether this node follows a chosen leader that is healthy.
func (m *Machine) followsHealthy() bool { return m.followsHealthyFor(m.timing.LeaderTimeout) }

func (m *Machine) followsHealthyFor(d time.Duration) bool {
	return m.role == member.Following && m.claim().Chosen && !m.follow.healthyAt.IsZero() &&
		m.now.Before(m.follow.healthyAt.Add(d))
}

// followsQuorate reports whether this node follows a leader that is quorate according to its acks.
func (m *Machine) followsQuorate(now time.Time) bool {
	return m.role == member.Following && m.shownState().Version == m.claim().Version &&
		!m.follow.quorateAt.IsZero() &&
		now.Before(m.follow.quorateAt.Add(m.timing.LeaderTimeout))
}

// showsQuorate reports whether View shows Quorate at the given time.
func (m *Machine) showsQuorate(now time.Time) bool {
	return m.isQuorate(now) || m.followsQuorate(now)
}

// QuorateUntil returns when View stops showing Quorate unless a message prolongs it. It returns
// zero if View does not show Quorate at the given time.
func (m *Machine) QuorateUntil(now time.Time) time.Time {
	switch {
	case m.isQuorate(now):
		return m.leaseEnd(now)
	case m.followsQuorate(now):
		return m.follow.quorateAt.Add(m.timing.LeaderTimeout)
	}
	return time.Time{}
}

// overruleLeader leaves a leader that is not suspected, because there is a better leader.
func (m *Machine) overruleLeader(cause Cause) {
	m.trace(Trace{
		Kind: Overruled, Cause: cause, Peer: m.claim().Leader, Version: m.claim().Version,
		Heard: m.follow.heardAt,
	})
	m.forgetLeader()
}

// suspectLeader considers the leader lost and leaves it, so the view shows no leader. t contains
// the cause, and the message if one caused the loss.
func (m *Machine) suspectLeader(t Trace, why waitReason) {
	t.Kind, t.Peer, t.Version = Suspected, m.claim().Leader, m.claim().Version
	t.Heard = m.follow.heardAt
	m.trace(t)
	m.forgetLeader()
	m.inquiry.fails = 0
	m.schedule(why)
}

// probeAt returns the time of the next probe of the leader's host; zero for never. If the host
// refuses the connection, the process has died (protocol.md 6, a process that died).
func (m *Machine) probeAt() time.Time {
	f := &m.follow
	switch {
	case m.role != member.Following || !m.claim().Chosen:
		return time.Time{}
	case !f.probedAt.IsZero():
		return f.probedAt.Add(m.timing.probeInterval())
	case f.heardAt.IsZero(): // the leader may die before its first ack
		return f.since.Add(m.timing.probeTimeout())
	}
	return f.heardAt.Add(m.timing.probeTimeout())
}

// Refused handles a report that the host of p.Leader refused a probe. (S) The report counts only
// for the run and version in p. If this node follows that leadership, it now considers the leader
// lost. If refusals are trusted, it also ends its support.
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
	if m.role == member.Following && m.claim().Chosen && m.claim().Version == p.Version &&
		m.follow.leader == p.Leader {
		m.suspectLeader(Trace{Reason: message.ReasonPortRefused, Cause: CauseCrash}, leaderEnded)
	}
	return m.endCall()
}
