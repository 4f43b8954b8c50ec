// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// supportState is the promise that this node made when it took an ack. Until the support ends, the
// node helps no other leader, even if it follows another one (protocol.md 5).
type supportState struct {
	leader  member.Identity
	version uint64
	until   time.Time
}

// giveSupport supports a chosen leader for LeaseTimeout from now. Support never moves to a lower
// version, and within one leadership it only gets longer.
func (m *Machine) giveSupport(leader member.Identity, version uint64) {
	if version < m.support.version {
		return
	}
	m.support = supportState{leader, version, m.now.Add(m.timing.LeaseTimeout)}
}

// freeSupport ends support for exactly this leadership of this run.
func (m *Machine) freeSupport(leader member.Identity, c member.Claim) {
	if m.support.leader == leader && m.support.version == c.Version && c.Chosen {
		m.support = supportState{}
	}
	m.endStartWait(leader, c)
}

// supportsOther reports whether support for another node keeps this node from helping v.
func (m *Machine) supportsOther(v member.Voter) bool {
	return m.now.Before(m.support.until) && m.support.leader.Voter() != v
}

// leaseEnd returns when the lease of this leader ends unless it is extended, or zero if the leader
// never had a lease. (S) The lease ends leaseMargin after the M-th newest of the stamps that the
// voters have echoed. The leader's own stamp is the given time (protocol.md 5).
func (m *Machine) leaseEnd(now time.Time) time.Time {
	if m.role != member.Leading {
		return time.Time{}
	}
	margin := m.timing.leaseMargin()
	if m.claim().Version <= m.durable.Floor {
		return time.Time{} // the token may have been used before
	}
	if m.quorum == 1 {
		return now.Add(margin)
	}
	if !m.lead.leaseKnown {
		m.lead.leaseFrom = m.quorumEcho(m.durable.Held.Roster)
		m.lead.leaseKnown = true
	}
	if m.lead.leaseFrom == 0 {
		return time.Time{}
	}
	return time.Unix(0, m.lead.leaseFrom).Add(margin)
}

// quorumEcho returns the newest stamp that M-1 other voters of r have echoed in the runs that r
// lists. It returns 0 if that stamp is not later than trust.from.
func (m *Machine) quorumEcho(r member.Roster) int64 {
	echoes := m.lead.scratch[:0]
	for _, e := range r {
		if !e.IsVoter() || e.Address == m.self.Address {
			continue
		}
		// (S) An echo counts only for the run that the state lists.
		if p := m.lead.peer(e.Address); p != nil && p.id == e.Identity && p.echo > m.trust.from {
			echoes = append(echoes, p.echo)
		}
	}
	m.lead.scratch = echoes
	if m.quorum == 1 {
		return m.now.UnixNano()
	}
	if len(echoes) < m.quorum-1 {
		return 0
	}
	slices.Sort(echoes)
	return echoes[len(echoes)-(m.quorum-1)]
}

// isQuorate reports whether this node leads with authority at the given time: it is chosen, M
// voters hold its version, and its lease has not expired. An unexpired lease implies that M voters
// hold the version. Voters echo only stamps that they received, and a leader stamps only acks to
// members that showed its version.
func (m *Machine) isQuorate(now time.Time) bool {
	return m.role == member.Leading && now.Before(m.leaseEnd(now))
}

// isHealthy reports whether this leader is quorate or was chosen less than LeaderTimeout ago. (S)
// A provisional leader is never healthy.
func (m *Machine) isHealthy() bool {
	return m.role == member.Leading &&
		(m.isQuorate(m.now) || m.now.Before(m.lead.since.Add(m.timing.LeaderTimeout)))
}

// Authority returns the version that this node leads with authority at the given time, and when
// that authority ends unless it is extended. Version 0 means that the node has no authority.
func (m *Machine) Authority(now time.Time) (version uint64, until time.Time) {
	if m.stopped || !m.isQuorate(now) {
		return 0, time.Time{}
	}
	return m.claim().Version, m.leaseEnd(now)
}

// noteAuthority records when authority begins and ends. When it begins, all followers get an ack
// immediately, because they wait for it.
func (m *Machine) noteAuthority() {
	q := !m.stopped && m.isQuorate(m.now)
	if q {
		// (S) While this node has authority, no other leader can have revoked a record.
		m.trust.until = latest(m.trust.until, m.now.Add(m.timing.selfMargin()))
	}
	switch {
	case q && !m.lead.quorate:
		m.lead.quorate, m.lead.quorateSince = true, m.now
		m.shown.changed = true
		m.trace(Trace{Kind: GainedAuthority, Peer: m.self.Address, Version: m.claim().Version})
		m.sendAcks(false)
	case !q && m.lead.quorate:
		m.lead.quorate = false
		m.shown.changed = true
		m.trace(Trace{Kind: LostAuthority, Peer: m.self.Address})
	}
}
