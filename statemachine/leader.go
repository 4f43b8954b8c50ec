// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// leaderState is what a leader, chosen or provisional, knows beside its state. It
// starts empty with each leadership.
type leaderState struct {
	since        time.Time // it was chosen, or declared itself
	quorate      bool      // as of the last call
	quorateSince time.Time
	heartbeatAt  time.Time // next acks to followers and claims to the others
	peers        []*peer   // the other members of the roster
	waiting      []joiner
	// boundSeen is the highest version that a member showed itself bound to.
	boundSeen uint64
	// joinedAt is when a joiner last got a place; claims counts the claims sent to nodes that
	// are silent.
	joinedAt   time.Time
	claimsSent int
	// A provisional leader sent its members its state at toldAt, and sends them changes at
	// tellAt; zero if there are none.
	softSyncedAt, softSyncAt time.Time
	// leaseFrom is the stamp that the lease counts from, while leaseKnown.
	leaseFrom  int64
	leaseKnown bool
	scratch    []int64
	recordTable
}

// peer is what a leader knows of one run of a member.
type peer struct {
	id      member.Identity
	heard   time.Time
	number  member.Number // newest of this version that it showed
	echo    int64         // greatest stamp it echoed; 0 for none
	stamp   message.Stamp // its own, of its newest keep-alive
	drained bool
	sent    member.Number // newest state that was sent to it
	// sentAt is the last time at which it was sent a whole state, showed a newer one, or was
	// sent a change while it had everything before. Since then it is silent or behind.
	sentAt time.Time
	// extended is when the newest keep-alive came of which an ack extended its trust in
	// its records, or when it got its place; revoked the revision that last took one from
	// it unasked, or gave it its place.
	extended time.Time
	revoked  member.Number
}

func (l *leaderState) peer(a member.Address) *peer {
	for _, p := range l.peers {
		if p.id.Address == a {
			return p
		}
	}
	return nil
}

// follows reports whether p is of the run that e names and has shown a state
// of this leadership.
func (p *peer) follows(e member.Member) bool {
	return p.id == e.Identity && !p.number.IsZero()
}

// ensurePeer returns the record of exactly this run, a fresh one where the last
// was of another. What a store held stays held by its next run.
func (l *leaderState) ensurePeer(id member.Identity) *peer {
	p := l.peer(id.Address)
	if p == nil {
		p = &peer{id: id}
		l.peers = append(l.peers, p)
	}
	if p.id != id {
		fresh := peer{id: id}
		if p.id.Voter() == id.Voter() {
			fresh.number = p.number
		}
		*p = fresh
		l.leaseKnown = false
	}
	return p
}

// noteSent notes that p is sent what is new in a state.
func (p *peer) noteSent(n member.Number, now time.Time) {
	if !p.number.Less(p.sent) {
		p.sentAt = now
	}
	p.sent = n
}

// tickLead does what a leader does by itself.
func (m *Machine) tickLead() {
	if m.role != member.Leading && m.role != member.Provisional {
		return
	}
	if m.due(m.stepDownAt()) {
		m.stepDown(member.Claim{}, CauseLease)
		return
	}
	m.checkSilence()
	m.makeWaitingChanges()
	m.drainLeader()
	if m.due(m.lead.heartbeatAt) {
		pause := m.timing.HeartbeatInterval
		if !m.sendHeartbeats() {
			// A lone node extends its lease by looking at it.
			pause = m.timing.aloneInterval()
		}
		m.lead.heartbeatAt = m.now.Add(pause)
	}
}

// stepDownAt is when a chosen leader has been without a lease for
// LeaderTimeout (protocol.md section 5); zero for a provisional one.
func (m *Machine) stepDownAt() time.Time {
	if m.role != member.Leading {
		return time.Time{}
	}
	last := m.lead.since
	for _, t := range []time.Time{m.leaseEnd(m.now), time.Unix(0, m.trustFrom)} {
		if t.After(last) {
			last = t
		}
	}
	return last.Add(m.timing.LeaderTimeout)
}

func (m *Machine) leadDeadline(d *deadline) {
	if m.role != member.Leading && m.role != member.Provisional {
		return
	}
	d.add(m.lead.heartbeatAt)
	d.add(m.lead.softSyncAt)
	d.add(m.stepDownAt())
	if m.lead.quorate {
		d.add(m.leaseEnd(m.now))
	}
	for _, e := range m.shownState().Roster {
		if e.Address != m.self.Address {
			d.add(m.silenceDeadline(e))
		}
	}
}

// mayChange reports whether this leader may change its state. (S) One bound to
// a later version changes nothing in its old one (protocol.md section 6, 5).
func (m *Machine) mayChange() bool {
	return m.role == member.Provisional ||
		m.role == member.Leading && m.durable.Bound() <= m.leader.Version
}

// isCommitted reports whether the present state is committed: M voters of it hold
// it, in the leader's own version. (S) Only then may the set of voters change.
func (m *Machine) isCommitted() bool {
	s := m.durable.Held
	n := 0
	if s.Roster.IsVoter(m.self.Voter()) {
		n++
	}
	for _, p := range m.lead.peers {
		if p.number.Compare(s.Number) >= 0 && s.Roster.IsVoter(p.id.Voter()) {
			n++
		}
	}
	return n >= m.quorum
}

// noteBound remembers that the sender of a message is bound to a version above this
// leader's: the leader proposes itself above it (protocol.md section 6, 8). It reports
// whether that version is one that an election can have reached.
func (m *Machine) noteBound(in message.Message, version uint64) bool {
	room := uint64(maxJoinJump)
	if m.shownState().Roster.IsVoter(in.From.Voter()) {
		room = paxos.MaxVersionJump
	}
	if version > m.leader.Version+room {
		m.refuse(in, message.ReasonVersionJump)
		return false
	}
	if version > m.leader.Version && version > m.lead.boundSeen {
		m.lead.boundSeen = version
		m.propose.at = m.now
	}
	return true
}
