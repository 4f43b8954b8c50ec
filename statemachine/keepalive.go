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
	shownAt   time.Time // newest keep-alive
	echo      message.Stamp
	// askedGap is the newest update that did not fit: each asks only once for
	// alignment at once.
	askedGap member.Number
}

// unaskedAt is when a follower sends a keep-alive unasked, because its leader's ack is late.
func (m *Machine) unaskedAt() time.Time {
	return m.follow.shownAt.Add(m.timing.unaskedTimeout())
}

// tickFollow sends the keep-alive that is due and gives up a silent leader.
func (m *Machine) tickFollow() {
	if m.role != member.Following {
		return
	}
	if m.due(m.lostAt()) {
		m.suspect(Trace{Cause: m.lossCause()}, 0)
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
	return m.role == member.Following && m.state().Version == m.leader.Version &&
		!m.follow.quorateAt.IsZero() &&
		now.Before(m.follow.quorateAt.Add(m.timing.LeaderTimeout))
}

// showsQuorate is what View shows as Quorate.
func (m *Machine) showsQuorate() bool { return m.quorate(m.now) || m.followsQuorate(m.now) }

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

// suspect leaves the leader followed: the view names none, and an election starts after a
// pause. t has the cause, and the event that brought it about, if any.
func (m *Machine) suspect(t Trace, pause time.Duration) {
	t.Kind, t.Peer, t.Version = Suspected, m.leader.Leader, m.leader.Version
	t.Heard = m.follow.heardAt
	m.trace(t)
	m.forgetLeader()
	m.inquiry.nextAt, m.inquiry.fails = m.now.Add(pause+m.turn()), 0
	// A voter asks the other voters first. A node without a vote has only the seeds.
	m.join.nextAt = m.now.Add(pause)
	if m.isVoter() {
		if m.support.until.After(m.join.nextAt) {
			m.join.nextAt = m.support.until
		}
		m.join.nextAt = m.join.nextAt.Add(m.timing.HeartbeatInterval)
	}
}

func (m *Machine) sendKeepAlive() {
	m.follow.shownAt = m.now
	if m.leader.Chosen && m.leader.Version < m.durable.Bound() {
		// protocol.md section 6, 5: bound, it sends no keep-alive below.
		return
	}
	s := m.state()
	digest := m.digest
	if !m.leader.Chosen {
		digest = s.Digest()
	}
	m.send(m.leader.Leader, message.LeaderKeepAlive{
		Number:  s.Number,
		Digest:  digest,
		Bound:   m.durable.Bound(),
		Echo:    m.follow.echo,
		Stamp:   m.stamp(m.leader.Version),
		Drained: m.operator.drained || m.operator.leaving,
	})
}

func (m *Machine) stamp(version uint64) message.Stamp {
	return message.Stamp{
		Version:     version,
		Incarnation: m.self.Incarnation,
		Clock:       m.now.UnixNano(),
	}
}

// onKeepAliveAck takes an ack of the leader followed. A stamped ack makes support. It is
// answered if no keep-alive was sent for answerInterval or it brings the first stamp, so that
// acks and keep-alives never chase each other.
func (m *Machine) onKeepAliveAck(in message.Message, b message.LeaderKeepAliveAck) {
	switch {
	case m.role != member.Following || in.From != m.follow.leader,
		in.Claim.Leader != in.From.Address:
		m.drop(in, message.ReasonOtherLeader)
		return
	case in.Claim != m.leader:
		m.drop(in, message.ReasonOtherVersion)
		return
	case m.leader.Chosen && m.leader.Version < m.durable.Bound():
		m.drop(in, message.ReasonBound)
		return
	}
	f := &m.follow
	f.heardAt, f.probedAt = m.now, time.Time{}
	if b.Healthy || !m.leader.Chosen {
		f.healthyAt = m.now
	}
	f.quorateAt = time.Time{}
	if b.Quorate {
		f.quorateAt = m.now
	}
	answer := m.now.Sub(f.shownAt) >= m.timing.answerInterval()
	if !m.leader.Chosen {
		if answer {
			m.sendKeepAlive()
		}
		return
	}
	if b.Stamp.IsZero() {
		return
	}
	// (S) A leader stamps only for those that showed its version. Support of a version that
	// was never held would keep this node from supporting any other (protocol.md section 5).
	if b.Stamp.Version != m.leader.Version || b.Stamp.Version != m.held().Version ||
		b.Stamp.Incarnation != in.From.Incarnation {
		m.drop(in, message.ReasonOtherVersion)
		return
	}
	m.giveSupport(in.From, m.leader.Version)
	m.extendTrust(b)
	first := f.echo.IsZero()
	if b.Stamp.Clock > f.echo.Clock || first {
		f.echo = b.Stamp
	}
	if first || answer {
		m.sendKeepAlive()
	}
}

// onKeepAlive takes what a follower shows. A keep-alive that echoes a new stamp answers an
// ack of this leader, and gets no ack itself.
func (m *Machine) onKeepAlive(in message.Message, b message.LeaderKeepAlive) {
	c := in.Claim
	switch {
	case c.Leader != m.self.Address:
		m.drop(in, message.ReasonOtherLeader)
		return
	case m.role != member.Leading && m.role != member.Provisional:
		m.drop(in, message.ReasonNotLeader)
		// It knows this leadership and does not lead, so it gave that up.
		if !c.Chosen || c.Version <= m.held().Version {
			m.send(in.From.Address, message.ReJoinCluster{GivenUp: c, Winner: m.leader})
		}
		return
	case !m.state().Roster.Has(in.From):
		m.refuse(in, message.ReasonUnknownRun)
		m.sendAck(in.From.Address, b.Stamp, false)
		m.send(in.From.Address, message.ClusterAlignment{State: m.state()})
		return
	}
	if m.role == member.Leading && !m.noteBound(in, b.Bound) {
		return
	}
	p := m.lead.ensurePeer(in.From)
	p.heard, p.drained, p.stamp = m.now, b.Drained, b.Stamp
	shows := c == m.leader && b.Number.Version == m.leader.Version
	if shows && p.number.Less(b.Number) {
		p.number, p.sentAt = b.Number, m.now
		m.lead.progress = true
	}
	answers := m.noteEcho(in, p, b.Echo)
	m.heardAgain(in.From)
	if !answers || !shows {
		m.sendAck(in.From.Address, b.Stamp, shows)
	}
	if !m.lead.tellAt.IsZero() {
		return // It gets the state together with the others.
	}
	s := m.state()
	if b.Number == s.Number && (b.Digest == m.stateDigest() || m.role == member.Provisional) {
		return
	}
	if p.sent != s.Number || m.now.Sub(p.sentAt) >= m.timing.realignInterval() || !shows {
		p.sent, p.sentAt = s.Number, m.now
		m.send(in.From.Address, message.ClusterAlignment{State: s})
	}
}

// noteEcho counts an echo of this leadership and reports whether it is newer
// than the last. (S) protocol.md section 5.
func (m *Machine) noteEcho(in message.Message, p *peer, e message.Stamp) bool {
	if e.IsZero() {
		return false
	}
	if m.role != member.Leading || e.Version != m.leader.Version ||
		e.Incarnation != m.self.Incarnation {
		m.drop(in, message.ReasonForeignEcho)
		return false
	}
	if e.Clock > m.now.UnixNano() {
		// It was never stamped: it would stretch the lease into the future.
		m.drop(in, message.ReasonForeignEcho)
		return false
	}
	if e.Clock <= p.echo {
		return false
	}
	p.echo = e.Clock
	m.lead.leaseKnown = false
	return true
}

// sendAck sends an ack, asked or not. (S) Only a member that showed the leader's own version
// gets a stamp, and only from a chosen leader.
func (m *Machine) sendAck(to member.Address, echo message.Stamp, stamped bool) {
	ack := message.LeaderKeepAliveAck{Echo: echo, Healthy: m.healthy(), Quorate: m.quorate(m.now)}
	if stamped && m.role == member.Leading {
		ack.Stamp = m.stamp(m.leader.Version)
		if m.records.committed.Version == m.leader.Version {
			ack.Committed = m.records.committed
		}
		if p := m.lead.peer(to); m.mayExtend(p, echo) {
			ack.Extends, p.extended = true, p.heard
		}
	}
	m.send(to, ack)
}

func (m *Machine) stateDigest() uint64 {
	if m.role == member.Leading {
		return m.digest
	}
	return m.soft.Digest()
}
