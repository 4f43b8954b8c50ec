// SPDX-License-Identifier: Apache-2.0

package lowest

import "time"

const (
	// relayers is the number of members that relay the leader in answer to one message.
	relayers = 3
	// maxTerm is the highest term accepted from other members.
	maxTerm = 1 << 62
)

// Receive handles a message from a member. It drops old messages and messages of unknown members.
// If this member was suspended, it first calls Advance.
func (m *Machine) Receive(now time.Time, from string, msg Message) {
	sender := m.findPeer(from)
	if m.phase == closed || sender == nil || msg.Member == m.self || msg.Term > maxTerm {
		return
	}
	if m.wasSuspended(now) {
		m.Advance(now)
	}
	if msg.Kind == Declaration && msg.Member != from {
		m.onRelayed(now, msg)
		return
	}
	if msg.Member != from || msg.mark() == sender.heard || m.isStale(now, sender, msg.mark()) {
		return
	}
	sender.heard, sender.heardAt = msg.mark(), now
	m.term = max(m.term, msg.Term)
	switch msg.Kind {
	case Proposal:
		m.onProposal(now, sender, msg)
	case Declaration:
		m.onDeclaration(now, leader{from, msg.Term, msg.mark(), now}, sender)
	case Resignation:
		sender.proposedAt = time.Time{}
		if m.phase == following && m.leader.id == from {
			m.startCampaign(now)
		}
	}
}

// isStale reports whether p sent a message newer than n, which was heard within Alive. Older
// messages do not count, so a member whose run number has decreased is heard again after Alive.
func (m *Machine) isStale(now time.Time, p *peer, n mark) bool {
	return p.heard.isAfter(n) && now.Sub(p.heardAt) < m.timing.Alive
}

// onProposal answers a member that does not know the leader, and lets a member with a lower id go
// first.
func (m *Machine) onProposal(now time.Time, from *peer, msg Message) {
	from.proposedAt = now
	switch m.phase {
	case leading:
		m.announce(Declaration, from.id)
	case following:
		m.relayLeader(now, from.id, msg.Seq)
	case campaigning:
		m.deadline = m.campaignEnd()
	case sampling, holding, closed:
	}
}

// onRelayed handles a declaration that another member relayed. The leader need not be in this
// member's view.
func (m *Machine) onRelayed(now time.Time, msg Message) {
	if msg.Age < 0 {
		return
	}
	l := leader{msg.Member, msg.Term, msg.mark(), now.Add(-msg.Age)}
	if p := m.findPeer(l.id); p != nil {
		if m.isStale(now, p, l.mark) {
			return
		}
		if l.mark == p.heard { // hearing the same declaration again does not make it newer
			l.heardAt = p.heardAt
		}
		p.heard, p.heardAt = l.mark, l.heardAt
	} else if l.id == m.leader.id && !l.mark.isAfter(m.leader.mark) {
		return
	}
	m.term = max(m.term, l.term)
	if now.Sub(l.heardAt) < m.timing.Alive {
		m.onDeclaration(now, l, nil)
	}
}

// onDeclaration follows a declared leader, or informs it of a leader with a lower id. The peer is
// the leader's entry if it sent the declaration itself, or nil if another member relayed it.
func (m *Machine) onDeclaration(now time.Time, l leader, from *peer) {
	switch m.phase {
	case leading:
		if l.id > m.self && (from == nil || !m.yieldsTo(now, l, from)) {
			return
		}
		m.stepDown(Superseded)
	case following:
		if l.id > m.leader.id {
			m.relayLeader(now, l.id, l.mark.seq)
			return
		}
	case sampling, campaigning, holding, closed:
	}
	m.followLeader(l)
}

// yieldsTo reports whether this leader steps down for a leader with a higher id. Normally it keeps
// leading, and answers with its own declaration. If the other leader still declares itself after 2
// x Alive, it does not receive these answers. This leader then steps down and informs all members.
// If it only stepped down, its followers would elect another leader that has to step down too.
func (m *Machine) yieldsTo(now time.Time, to leader, from *peer) bool {
	if now.Sub(from.rivalAt) > m.timing.Alive {
		from.rivalSince = now
	}
	from.rivalAt = now
	if now.Sub(from.rivalSince) < 2*m.timing.Alive {
		m.announce(Declaration, to.id)
		return false
	}
	m.announce(Resignation, "")
	m.relay(now, "", to)
	return true
}

// followLeader follows l until l has been silent for Alive.
func (m *Machine) followLeader(l leader) {
	m.phase, m.leader = following, l
	m.deadline = l.heardAt.Add(m.timing.Alive)
}

// relayLeader informs a member of the leader. In a large group only a few members do so; the
// message number selects them.
func (m *Machine) relayLeader(now time.Time, to string, seq uint64) {
	n := uint64(len(m.members))
	if to == m.leader.id || n > relayers+2 && (uint64(m.rank())+seq)%n >= relayers {
		return
	}
	m.relay(now, to, m.leader)
}

// relay sends the declaration of l to one member, or to all if the given id is empty.
func (m *Machine) relay(now time.Time, to string, l leader) {
	m.send = append(m.send, Outgoing{To: to, Message: Message{
		Kind: Declaration, Member: l.id, Run: l.mark.run, Seq: l.mark.seq, Term: l.term,
		Age: now.Sub(l.heardAt),
	}})
}
