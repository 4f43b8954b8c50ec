// SPDX-License-Identifier: Apache-2.0

package lowest

import "time"

const (
	// tellers is how many followers tell who is wrong what they know, besides the leader.
	tellers = 3
	// maxTerm bounds the terms that are taken over from others.
	maxTerm = 1 << 62
)

// Receive takes a message that came from a member. What is old, or of no member, is
// dropped. A member that stood still first does what was due.
func (m *Machine) Receive(now time.Time, from string, msg Message) {
	sender := m.find(from)
	if m.phase == closed || sender == nil || msg.Member == m.self || msg.Term > maxTerm {
		return
	}
	if m.stoodStill(now) {
		m.Advance(now)
	}
	if msg.Kind == Declaration && msg.Member != from {
		m.onHearsay(now, msg)
		return
	}
	if msg.Member != from || msg.mark() == sender.heard || m.isOld(now, sender, msg.mark()) {
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
		sender.proposed = time.Time{}
		m.onResignation(now, from)
	}
}

// isOld reports whether something newer was heard of a member. That counts for Alive: one
// whose runs went back is not deaf for ever to those that knew it.
func (m *Machine) isOld(now time.Time, p *peer, said mark) bool {
	return p.heard.isAfter(said) && now.Sub(p.heardAt) < m.timing.Alive
}

// onProposal answers who does not know the leader, and leaves the lead to a lower one.
func (m *Machine) onProposal(now time.Time, from *peer, msg Message) {
	from.proposed = now
	switch m.phase {
	case leading:
		m.say(Declaration, from.id)
	case following:
		m.tell(now, from.id, msg.Seq)
	case campaigning:
		m.deadline = m.turn()
	case sampling, holding, closed:
	}
}

// onHearsay takes a declaration from somebody who heard it. One of a member that this one
// does not see counts too.
func (m *Machine) onHearsay(now time.Time, msg Message) {
	if msg.Age < 0 {
		return
	}
	l := leader{msg.Member, msg.Term, msg.mark(), now.Add(-msg.Age)}
	if p := m.find(l.id); p != nil {
		if m.isOld(now, p, l.said) {
			return
		}
		if l.said == p.heard { // to hear it again makes it no younger
			l.heard = p.heardAt
		}
		p.heard, p.heardAt = l.said, l.heard
	} else if l.id == m.leader.id && !l.said.isAfter(m.leader.said) {
		return
	}
	m.term = max(m.term, l.term)
	if now.Sub(l.heard) < m.timing.Alive {
		m.onDeclaration(now, l, nil)
	}
}

// onDeclaration follows who declared, or tells it of a lower one that did. It came from
// that peer itself, or, where that is nil, through somebody else.
func (m *Machine) onDeclaration(now time.Time, l leader, from *peer) {
	switch m.phase {
	case leading:
		if l.id > m.self && (from == nil || !m.concedes(now, l, from)) {
			return
		}
		m.stepDown(Superseded)
	case following:
		if l.id > m.leader.id {
			m.tell(now, l.id, l.said.seq)
			return
		}
	case sampling, campaigning, holding, closed:
	}
	m.follow(l)
}

// concedes tells a higher leader who leads. It gives way to one that insists for so long
// that it cannot be hearing anybody who could tell it, and tells that to all, so that
// those who follow this one need not elect another for the next to give way.
func (m *Machine) concedes(now time.Time, to leader, from *peer) bool {
	if now.Sub(from.insisted) > m.timing.Alive {
		from.insists = now
	}
	from.insisted = now
	if now.Sub(from.insists) < 2*m.timing.Alive {
		m.say(Declaration, to.id)
		return false
	}
	m.say(Resignation, "")
	m.pass(now, "", to)
	return true
}

// follow takes a leader for the one, until nothing was heard of it for Alive.
func (m *Machine) follow(l leader) {
	m.phase, m.leader = following, l
	m.deadline = l.heard.Add(m.timing.Alive)
}

// onResignation is for others to lead, at once.
func (m *Machine) onResignation(now time.Time, from string) {
	if m.phase == following && m.leader.id == from {
		m.campaign(now)
	}
}

// tell tells a member who leads, where that is not itself. To spare it the answers of
// all, those do whose turn it is; another time those are others.
func (m *Machine) tell(now time.Time, to string, seq uint64) {
	n := uint64(len(m.members))
	if to == m.leader.id || n > tellers+2 && (uint64(m.rank())+seq)%n >= tellers {
		return
	}
	m.pass(now, to, m.leader)
}

// pass passes a declaration on, to one or to all where that is empty.
func (m *Machine) pass(now time.Time, to string, l leader) {
	m.send = append(m.send, Outgoing{To: to, Message: Message{
		Kind: Declaration, Member: l.id, Run: l.said.run, Seq: l.said.seq, Term: l.term,
		Age: now.Sub(l.heard),
	}})
}
