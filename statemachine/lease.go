// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// supportState is the promise that an ack made: until then this node helps no other leader,
// even if its view names another (protocol.md section 5).
type supportState struct {
	leader  member.Identity
	version uint64
	until   time.Time
}

// giveSupport takes a stamped ack of a chosen leader. Support never moves to a
// lower version, and for one leadership it only grows.
func (m *Machine) giveSupport(leader member.Identity, version uint64) {
	if version < m.support.version {
		return
	}
	m.support = supportState{leader, version, m.now.Add(m.timing.LeaseTimeout)}
}

// freeSupport ends support of exactly this leadership of this run.
func (m *Machine) freeSupport(leader member.Identity, c member.Claim) {
	if m.support.leader == leader && m.support.version == c.Version && c.Chosen {
		m.support = supportState{}
	}
	m.endStartWait(leader, c)
}

// supportsOther reports whether support keeps this node from helping v.
func (m *Machine) supportsOther(v member.Voter) bool {
	return m.now.Before(m.support.until) && m.support.leader.Voter() != v
}

// leaseEnd is when the lease of this leader ends unless echoes extend it; zero
// when it never had one. (S) It is the M-th newest echoed stamp, the leader
// itself counting as now, plus nine tenths of LeaseTimeout: protocol.md
// section 5.
func (m *Machine) leaseEnd(now time.Time) time.Time {
	if m.role != member.Leading {
		return time.Time{}
	}
	margin := m.timing.leaseMargin()
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

// quorumEcho is the newest stamp that M-1 other voters of r, in the runs that
// it names, have echoed; 0 without one after trustFrom.
func (m *Machine) quorumEcho(r member.Roster) int64 {
	echoes := m.lead.scratch[:0]
	for _, e := range r {
		if !e.IsVoter() || e.Address == m.self.Address {
			continue
		}
		// (S) An echo counts for the run that the state names only.
		if p := m.lead.peer(e.Address); p != nil && p.id == e.Identity && p.echo > m.trustFrom {
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

// isQuorate reports whether this node leads with authority at now: chosen, its
// version held by M voters, and its lease running. An echo is given only for
// a stamp, and a stamp only to a voter that showed this version, so a lease
// proves that M voters hold it.
func (m *Machine) isQuorate(now time.Time) bool {
	return m.role == member.Leading && now.Before(m.leaseEnd(now))
}

// EndTrust ends authority and the trust in records: until now the clock of this node may
// have stood still, so that it cannot know how old its stamps are. Only answers to later
// stamps bring both back. (S) What this node promised to others stays: they may count on
// it for longer, never for less long. The Output of the next call has the effects.
func (m *Machine) EndTrust(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
	m.trustFrom = m.now.UnixNano()
	m.records.until = time.Time{}
	m.lead.leaseKnown = false
}

// isHealthy is what acks say of this leader: quorate, or chosen just now.
// (S) A provisional leader never is.
func (m *Machine) isHealthy() bool {
	return m.role == member.Leading &&
		(m.isQuorate(m.now) || m.now.Before(m.lead.since.Add(m.timing.LeaderTimeout)))
}

// Authority is the version that this node leads with authority at now, and
// when the authority ends unless it is extended. Version 0 means none.
func (m *Machine) Authority(now time.Time) (version uint64, until time.Time) {
	if m.stopped || !m.isQuorate(now) {
		return 0, time.Time{}
	}
	return m.leader.Version, m.leaseEnd(now)
}

// noteAuthority traces when authority begins or ends. When it begins, followers get an ack
// immediately, because they wait for it.
func (m *Machine) noteAuthority() {
	q := !m.stopped && m.isQuorate(m.now)
	if q {
		// (S) While this node has authority, no other leader was chosen that could take a record.
		m.trustUntil(m.now.Add(m.timing.leaseMargin()))
	}
	switch {
	case q && !m.lead.quorate:
		m.lead.quorate, m.lead.quorateSince = true, m.now
		m.shown.changed = true
		m.trace(Trace{Kind: GainedAuthority, Peer: m.self.Address, Version: m.leader.Version})
		for _, p := range m.lead.peers {
			if p.number.Version == m.leader.Version {
				m.sendAck(p.id.Address, p.stamp, true)
			}
		}
	case !q && m.lead.quorate:
		m.lead.quorate = false
		m.shown.changed = true
		m.trace(Trace{Kind: LostAuthority, Peer: m.self.Address})
	}
}
