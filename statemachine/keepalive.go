// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// sendHeartbeats sends an ack to each follower. It sends the claim to every other seed and member,
// so that no group of nodes stays isolated (protocol.md 5). It returns false if there is no other
// node.
func (m *Machine) sendHeartbeats() bool {
	to := m.targets(m.cfg.Seeds, addresses(m.shownState().Roster))
	var silent []member.Address
	for _, a := range to {
		p := m.lead.peer(a)
		if p != nil && !p.number.IsZero() && m.now.Sub(p.heard) < m.timing.HeartbeatTimeout {
			if m.now.Sub(p.heard) >= m.timing.unaskedTimeout() {
				m.trace(Trace{Kind: Missed, Peer: a})
			}
			m.sendAck(a, p.stamp, true)
		} else {
			silent = append(silent, a)
		}
	}
	m.sendClaims(silent)
	return len(to) > 0
}

// sendClaims sends the claim to silent nodes. A provisional leader sends it to the node with the
// greatest address and, in rotation, to a slowly growing number of others. Nodes that start
// together send queries anyway. Two provisional leaders learn of each other from the node with the
// greatest address, unless that node is dead.
func (m *Machine) sendClaims(silent []member.Address) {
	if m.role == member.Provisional && len(silent) > 2 {
		slices.SortFunc(silent, func(a, b member.Address) int { return b.Compare(a) })
		others := silent[1:]
		silent = silent[:1:1]
		for range min(len(others), m.lead.claimsSent/4+1) {
			silent = append(silent, others[m.lead.claimsSent%len(others)])
			m.lead.claimsSent++
		}
	}
	for _, a := range silent {
		m.send(a, message.SeedKeepAlive{})
	}
}

func (m *Machine) sendKeepAlive() {
	m.follow.sentAt = m.now
	if m.claim().Chosen && m.claim().Version < m.durable.Least() {
		// A bound voter sends no keep-alive of a lower version (protocol.md 6, 5).
		return
	}
	m.follow.echoed = m.follow.echo.Clock
	s := m.shownState()
	m.send(m.claim().Leader, message.LeaderKeepAlive{
		Number:  s.Number,
		Digest:  m.shownDigest(),
		Bound:   m.durable.Least(),
		Echo:    m.follow.echo,
		Stamp:   m.newStamp(m.claim().Version),
		Drained: m.operator.leaving || m.yields(),
		Reaches: m.countReached(),
		Save:    m.recentPace(m.pace.own),
	})
}

func (m *Machine) newStamp(version uint64) message.Stamp {
	return message.Stamp{
		Version:     version,
		Incarnation: m.self.Incarnation,
		Clock:       m.now.UnixNano(),
	}
}

// onKeepAliveAck handles an ack from the leader. A stamped ack makes this node support the leader.
// This node answers with a keep-alive if the stamp is the first one of this leadership, or at least
// answerInterval newer than the last stamp that this node echoed. The leader does not answer the
// keep-alive, so the exchange ends.
func (m *Machine) onKeepAliveAck(in message.Message, b message.LeaderKeepAliveAck) {
	switch {
	case m.role != member.Following || in.From != m.follow.leader,
		in.Claim.Leader != in.From.Address:
		m.drop(in, message.ReasonOtherLeader)
		return
	case in.Claim != m.claim():
		m.drop(in, message.ReasonOtherVersion)
		return
	case m.claim().Chosen && m.claim().Version < m.durable.Least():
		m.drop(in, message.ReasonBound)
		return
	}
	f := &m.follow
	f.heardAt, f.probedAt, f.replaced = m.now, time.Time{}, false
	if b.Healthy || !m.claim().Chosen {
		f.healthyAt = m.now
	}
	f.quorateAt = time.Time{}
	if b.Quorate {
		f.quorateAt = m.now
	}
	if !m.claim().Chosen {
		if m.now.Sub(f.sentAt) >= m.timing.answerInterval() {
			m.sendKeepAlive()
		}
		return
	}
	if b.Stamp.IsZero() {
		return
	}
	// (S) A leader stamps only acks to members that showed its version. Support for a version that
	// this node never held would keep it from supporting any other (protocol.md 5).
	if b.Stamp.Version != m.claim().Version || b.Stamp.Version != m.heldNumber().Version ||
		b.Stamp.Incarnation != in.From.Incarnation {
		m.drop(in, message.ReasonOtherVersion)
		return
	}
	if !m.worker {
		m.giveSupport(in.From, m.claim().Version)
	}
	m.noteCommitted(b.Committed)
	m.extendTrust(b)
	if b.Stamp.Clock > f.echo.Clock || f.echo.IsZero() {
		f.echo = b.Stamp
	}
	if b.Offers && !m.now.Before(f.askReachAt) { // also if changes, not acks, make it send keep-alives
		f.askReachAt = m.now.Add(m.timing.answerInterval())
		m.askReach()
	}
	if m.worker {
		f.behind = b.Quorate && !b.Extends
		return // it sends its keep-alives by itself
	}
	if f.echoed == 0 || f.echo.Clock-f.echoed >= int64(m.timing.answerInterval()) {
		m.sendKeepAlive()
	}
}

// onKeepAlive handles a keep-alive from a follower. A keep-alive that echoes a new stamp is itself
// the answer to an ack, so it is not answered.
func (m *Machine) onKeepAlive(in message.Message, b message.LeaderKeepAlive) {
	c := in.Claim
	switch {
	case c.Leader != m.self.Address:
		m.drop(in, message.ReasonOtherLeader)
		return
	case m.role != member.Leading && m.role != member.Provisional:
		m.drop(in, message.ReasonNotLeader)
		// The leadership that the sender follows has ended, unless it is a chosen leadership above the
		// held version. This node may have been chosen for that version without knowing it.
		if !c.Chosen || c.Version <= m.heldNumber().Version {
			m.send(in.From.Address, message.ReJoinCluster{GivenUp: c, Winner: m.claim()})
		}
		return
	case !m.shownState().Roster.Has(in.From):
		m.refuse(in, message.ReasonUnknownRun)
		m.sendAck(in.From.Address, b.Stamp, false)
		m.send(in.From.Address, message.ClusterAlignment{State: m.shownState()})
		return
	}
	if m.role == member.Leading && !m.noteBound(in, b.Bound) {
		return
	}
	m.noteTold(b.Save)
	p := m.lead.ensurePeer(in.From)
	p.heard, p.drained, p.reaches, p.stamp, p.save = m.now, b.Drained, b.Reaches, b.Stamp, b.Save
	shows := c == m.claim() && b.Number.Version == m.claim().Version
	if shows && p.activeSince.IsZero() {
		p.activeSince = m.now
	}
	if shows && m.role == member.Leading && m.heldNumber().Less(b.Number) {
		m.reportLater(in, b.Number.Version) // only this leader makes states of its version
		return
	}
	if shows && p.number.Less(b.Number) {
		p.number, p.sentAt = b.Number, m.now
	}
	answers := m.noteEcho(in, p, b.Echo)
	m.reactivateMember(in.From)
	if !answers || !shows {
		m.sendAck(in.From.Address, b.Stamp, shows)
	}
	if m.role == member.Provisional && in.Cluster.IsZero() {
		m.showHeld(in.From)
	}
	if !m.lead.softSyncAt.IsZero() {
		return // The state is about to be sent to all members anyway.
	}
	s := m.shownState()
	if b.Number == s.Number && (b.Digest == m.shownDigest() || m.role == member.Provisional) {
		return
	}
	if !m.wasJustAligned(p) {
		m.alignMember(p)
	}
}

// isOwnStamp reports whether this run can have made the stamp e under its present leader. A stamp
// from the future cannot be genuine, and would extend a lease or trust.
func (m *Machine) isOwnStamp(e message.Stamp) bool {
	return e.Version == m.claim().Version && e.Incarnation == m.self.Incarnation &&
		e.Clock <= m.now.UnixNano()
}

// noteEcho records an echo of this leadership and reports whether it is newer than the last echo.
// (S) It ignores echoes of other leaderships (protocol.md 5, echo).
func (m *Machine) noteEcho(in message.Message, p *peer, e message.Stamp) bool {
	if e.IsZero() {
		return false
	}
	if m.role != member.Leading || !m.isOwnStamp(e) {
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

// sendAcks sends a stamped ack to each member that showed this leader's version, or to all.
func (m *Machine) sendAcks(all bool) {
	for _, p := range m.lead.peers {
		if all || p.number.Version == m.claim().Version {
			m.sendAck(p.id.Address, p.stamp, true)
		}
	}
}

// sendAck sends an ack. (S) Only a chosen leader stamps it, and only for a member that showed the
// leader's own version or when it begins to lead.
func (m *Machine) sendAck(to member.Address, echo message.Stamp, stamped bool) {
	ack := message.LeaderKeepAliveAck{Echo: echo, Healthy: m.isHealthy(), Quorate: m.isQuorate(m.now)}
	if stamped && m.role == member.Leading {
		ack.Stamp = m.newStamp(m.claim().Version)
		if m.records.committed.Version == m.claim().Version {
			ack.Committed = m.records.committed
		}
		ack.Offers = m.offersTo(to)
		m.extendOwner(m.lead.peer(to), &ack)
	}
	m.send(to, ack)
}

// shownDigest returns the digest of shownState while this node follows or leads.
func (m *Machine) shownDigest() uint64 {
	if m.claim().Chosen {
		return m.digest
	}
	return m.soft.Digest()
}
