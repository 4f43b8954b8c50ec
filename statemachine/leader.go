// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// leaderState is what a chosen or provisional leader knows in addition to its state.
// Each leadership starts with an empty leaderState.
type leaderState struct {
	since        time.Time // when it was chosen or declared itself leader
	quorate      bool      // whether it was quorate in the last call
	quorateSince time.Time
	heartbeatAt  time.Time // when to send the next acks and claims
	peers        []*peer   // the other members of the roster
	workers      []*peer   // sorted by address
	waiting      []joiner
	keptAt       time.Time // when a kept seat was last traced
	// boundSeen is the highest version to which a member is known to be bound.
	boundSeen uint64
	// laterSince is when another node first showed a later state than that of this leader.
	laterSince time.Time
	// joinedAt is when a joiner last got a place. claimsSent counts the claims sent to silent
	// nodes, to rotate among them.
	joinedAt   time.Time
	claimsSent int
	// keep is the number of entries that an operator wants to keep in the roster, or 0 for all.
	keep int
	// softSyncedAt is when a provisional leader last sent its state to its members, and softSynced
	// is how many members that state had. softSyncAt is when it sends the next change, or zero if
	// there is no change.
	softSyncedAt, softSyncAt time.Time
	softSynced               int
	// statusAt is when the statuses of members may change again because of silence.
	statusAt time.Time
	// announced lists the announced traits that the state does not show yet. The leader publishes
	// traits again at traitsAt at the earliest.
	announced []announcement
	traitsAt  time.Time
	// leaseFrom is the stamp at which the lease begins. It is valid while leaseKnown is set.
	leaseFrom  int64
	leaseKnown bool
	scratch    []int64
	recordTable
	// evicted lists the stores of voters that this leader gave up for others at their addresses.
	evicted []evictedVoter
}

// evictedVoter is a voter whose place went to another store.
type evictedVoter struct {
	voter member.Voter
	heard time.Time // when its process was last heard, which then cannot have lost its store
}

// peer is what a leader knows about one run of a member.
type peer struct {
	id      member.Identity
	heard   time.Time
	number  member.Number // newest number of this version that the member showed
	echo    int64         // greatest stamp that the member echoed; 0 for none
	stamp   message.Stamp // the member's own stamp, from its newest keep-alive
	drained bool
	reaches int           // how many voters the member hears; 0 if its release does not say
	save    time.Duration // how long its latest saves took
	// activeSince is when the member first showed this leadership after it was last unreachable; zero
	// if it has not shown it.
	activeSince time.Time
	// returned is set if the member was heard again and waits for statusAt to become active.
	returned bool
	sent     member.Number // newest state sent to the member
	// sentAt is the latest of three times: the leader sent the member a whole state, it sent a change
	// while the member was up to date, or the member showed a newer state. Since then the member has
	// been silent or behind.
	sentAt time.Time
	// An ack extends the member's trust in its records. extended is when the newest keep-alive with
	// such an ack arrived, or when the member got its place. revoked is the revision that last took a
	// record from the member without its request, or gave the member its place.
	extended time.Time
	revoked  member.Number
	via      member.Address // the member that relayed the newest message of this worker
	waiting  int            // number of waiting requests of this worker
}

func (l *leaderState) peer(a member.Address) *peer {
	for _, p := range l.peers {
		if p.id.Address == a {
			return p
		}
	}
	return l.findWorker(a)
}

// follows reports whether the member e follows this leadership: p is the run in e and has shown a
// state of this version.
func (p *peer) follows(e member.Member) bool {
	return p.id == e.Identity && !p.number.IsZero()
}

// ensurePeer returns the entry of this run. It replaces the entry of another run of the member. If
// the earlier run had the same store, this run starts with the number that the earlier one showed.
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

// noteSent records that the leader sends p the change to state n.
func (p *peer) noteSent(n member.Number, now time.Time) {
	if !p.number.Less(p.sent) {
		p.sentAt = now
	}
	p.sent = n
}

// tickLead runs the periodic duties of a leader.
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
	m.publishTraits()
	m.drainLeader()
	m.handOverToPreferred()
	if m.due(m.lead.heartbeatAt) {
		pause := m.timing.heartbeatPause()
		if !m.sendHeartbeats() {
			// A leader without other nodes extends its lease by checking it.
			pause = m.timing.aloneInterval()
		}
		m.lead.heartbeatAt = m.now.Add(pause)
	}
}

// stepDownAt returns when a chosen leader steps down because it has had no lease for LeaderTimeout
// (protocol.md 5). It returns zero for a provisional leader.
func (m *Machine) stepDownAt() time.Time {
	if m.role != member.Leading {
		return time.Time{}
	}
	return latest(m.lead.since, m.leaseEnd(m.now), time.Unix(0, m.trust.from)).
		Add(m.outlastSaves(m.timing.LeaderTimeout))
}

func (m *Machine) leadDeadline(d *deadline) {
	if m.role != member.Leading && m.role != member.Provisional {
		return
	}
	d.add(m.lead.heartbeatAt)
	d.add(m.lead.softSyncAt)
	d.add(m.stepDownAt())
	if m.hasUnpublishedTraits() {
		d.addFuture(m.now, m.lead.traitsAt)
	}
	if _, at := m.findPreferred(); !at.IsZero() {
		d.addFuture(m.now, at)
	}
	if m.lead.quorate {
		d.add(m.leaseEnd(m.now))
	}
	for _, e := range m.shownState().Roster {
		if e.Address != m.self.Address {
			m.addStatusDeadline(d, e)
		}
	}
}

// mayChange reports whether this leader may change its state. (S) A leader that is bound to a later
// version changes nothing in its own version (protocol.md 6, 5).
func (m *Machine) mayChange() bool {
	return m.role == member.Provisional ||
		m.role == member.Leading && m.durable.Least() <= m.claim().Version
}

// isCommitted reports whether the current state is committed: M of its voters hold it, in the
// leader's own version. (S) Only then may the set of voters change.
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

// noteBound records that a voter is bound to a version above this leader's. The leader then
// proposes itself for a version above that one (protocol.md 6, 8). A node without a vote never
// raises the version, and all voters together raise it at most once in TTLTimeout: otherwise nodes
// that join again and again with greater numbers would use the tokens up. If noteBound does not
// accept the version, it refuses the message and returns false.
func (m *Machine) noteBound(in message.Message, version uint64) bool {
	if version <= max(m.claim().Version, m.lead.boundSeen) {
		return true
	}
	if !m.shownState().Roster.IsVoter(in.From.Voter()) ||
		version > m.claim().Version+paxos.MaxVersionJump || version >= member.MaxVersion ||
		!m.raisedAt.IsZero() && m.now.Sub(m.raisedAt) < m.timing.TTLTimeout {
		m.refuse(in, message.ReasonVersionJump)
		return false
	}
	m.trace(Trace{Kind: Raised, Peer: in.From.Address, Version: version})
	m.lead.boundSeen, m.raisedAt = version, m.now
	m.schedule(mustExceed)
	return true
}
