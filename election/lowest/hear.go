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
// dropped.
func (m *Machine) Receive(now time.Time, from string, msg Message) {
	sender := m.find(from)
	if m.phase == closed || sender == nil || from == m.self || msg.Member == m.self ||
		msg.Term > maxTerm {
		return
	}
	if msg.Kind == Declaration && msg.Member != from {
		m.onHearsay(now, msg)
		return
	}
	if msg.Member != from || !msg.mark().isAfter(sender.heard) {
		return
	}
	sender.heard = msg.mark()
	m.term = max(m.term, msg.Term)
	switch msg.Kind {
	case Proposal:
		m.onProposal(now, sender, msg)
	case Declaration:
		sender.proposed = time.Time{}
		m.onDeclaration(now, leader{from, msg.Term, msg.mark(), now}, true)
	case Resignation:
		sender.proposed = time.Time{}
		m.onResignation(now, from)
	}
}

// onProposal answers who does not know the leader, and leaves the lead to a lower one.
func (m *Machine) onProposal(now time.Time, from *peer, msg Message) {
	if now.Sub(from.proposed) > m.timing.Campaign {
		from.proposed = now
	}
	switch m.phase {
	case leading:
		m.say(Declaration, from.id)
	case following:
		if from.id == m.leader.id { // it has started anew, or stood still
			m.campaign(now)
			return
		}
		m.tell(now, from.id, msg.Seq)
	case campaigning:
		m.deadline = m.turn()
	case holding:
		m.say(Resignation, from.id) // it may have missed the first
	case sampling, closed:
	}
}

// onHearsay takes a declaration from somebody who heard it. One of a member that this one
// does not see counts too.
func (m *Machine) onHearsay(now time.Time, msg Message) {
	if msg.Age < 0 || msg.Age >= m.timing.Alive {
		return
	}
	said := msg.mark()
	if p := m.find(msg.Member); p != nil {
		if !said.isAfter(p.heard) {
			return
		}
		p.heard = said
	} else if msg.Member == m.leader.id && !said.isAfter(m.leader.said) {
		return
	}
	m.term = max(m.term, msg.Term)
	m.onDeclaration(now, leader{msg.Member, msg.Term, said, now.Add(-msg.Age)}, false)
}

// onDeclaration follows who declared, or tells it of a lower one that did.
func (m *Machine) onDeclaration(now time.Time, l leader, direct bool) {
	switch m.phase {
	case leading:
		if l.id > m.self && !(direct && m.concedes(now, l.id)) {
			return
		}
		m.stepDown(Superseded)
	case following:
		if l.id == m.leader.id {
			if l.heard.Before(m.leader.heard) {
				l.heard = m.leader.heard
			}
		} else if l.id > m.leader.id {
			if direct {
				m.tell(now, l.id, l.said.seq)
			}
			return
		}
	case sampling, campaigning, holding:
	case closed:
		return
	}
	m.follow(l)
}

// concedes tells a higher leader who leads. It gives way to one that insists for so long
// that it cannot be hearing anybody who could tell it.
func (m *Machine) concedes(now time.Time, to string) bool {
	if m.rival.id != to || now.Sub(m.rival.last) > m.timing.Alive {
		m.rival = rival{id: to, since: now}
	}
	m.rival.last = now
	if now.Sub(m.rival.since) < 2*m.timing.Alive {
		m.say(Declaration, to)
		return false
	}
	m.say(Resignation, "") // for those that follow this one
	return true
}

// follow takes a leader for the one.
func (m *Machine) follow(l leader) {
	m.phase, m.leader = following, l
	m.held = time.Time{} // somebody has taken what this member gave up
	m.deadline = l.heard.Add(m.timing.Alive)
}

// onResignation is for others to lead, at once.
func (m *Machine) onResignation(now time.Time, from string) {
	if m.phase == following && m.leader.id == from {
		m.campaign(now)
	}
}

// tell tells a member who leads. To spare it the answers of all, those do whose turn it
// is; another time those are others.
func (m *Machine) tell(now time.Time, to string, seq uint64) {
	n := uint64(len(m.members))
	if n > tellers+2 && (uint64(m.rank())+seq)%n >= tellers {
		return
	}
	l := m.leader
	m.send = append(m.send, Outgoing{To: to, Message: Message{
		Kind: Declaration, Member: l.id, Run: l.said.run, Seq: l.said.seq, Term: l.term,
		Age: now.Sub(l.heard),
	}})
}
