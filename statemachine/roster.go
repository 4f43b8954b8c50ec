// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// The functions below change the statuses of members as in the table of protocol.md 3. Only a
// leader calls them, and each change makes a revision.

// reactivateMember makes a silent member active again, because it has sent a keep-alive. In a large
// cluster this may wait for statusAt.
func (m *Machine) reactivateMember(id member.Identity) {
	e, ok := m.shownState().Roster.Find(id.Address)
	switch {
	case !ok || e.Identity != id || !isSilent(e) || !m.mayChange():
	case m.now.Before(m.lead.statusAt):
		m.lead.ensurePeer(id).returned = true
	default:
		e.Status = member.Active
		m.changeStatuses([]member.Member{e})
	}
}

// isSilent reports whether e has a status that silence caused.
func isSilent(e member.Member) bool {
	return e.Status == member.Unreachable || e.Status == member.Leaving && !e.Resigned
}

// changeStatuses makes one revision of the given entries, which have new statuses. An entry with
// status None gives up its place.
func (m *Machine) changeStatuses(entries []member.Member) {
	if len(entries) == 0 {
		return
	}
	r, about := m.shownState().Roster, member.Address{}
	for _, e := range entries {
		if e.Status == member.None {
			m.trace(Trace{Kind: MemberMoved, Peer: e.Address, Status: member.None})
			r = r.Without(e.Address)
			continue
		}
		r = r.With(e)
		if len(entries) == 1 {
			about = e.Address // changeRoster traces it
		} else {
			m.trace(Trace{Kind: MemberMoved, Peer: e.Address, Status: e.Shown()})
		}
	}
	if len(r) > unpacedMembers {
		m.lead.statusAt = m.now.Add(m.timing.stateInterval(len(r)))
	}
	m.changeRoster(r, about)
}

// silenceDeadline returns when a silent member will next change status; zero for never.
func (m *Machine) silenceDeadline(e member.Member) time.Time {
	p := m.lead.peer(e.Address)
	if p == nil || !m.mayChange() {
		return time.Time{}
	}
	switch {
	case e.Status == member.Active:
		return p.heard.Add(m.outlastSaves(m.timing.HeartbeatTimeout))
	case e.Shown() == member.Joining,
		e.Status == member.Unreachable && m.role == member.Provisional && m.heldNumber().IsZero():
		return p.heard.Add(m.timing.TTLTimeout)
	case e.Status == member.Unreachable && m.lead.quorate:
		// The leader must have been quorate during all of that time.
		return latest(p.heard, m.lead.quorateSince).Add(m.timing.TTLTimeout)
	}
	return time.Time{}
}

// hasReturned reports whether the member e was heard again and waits to become active.
func (m *Machine) hasReturned(e member.Member) bool {
	p := m.lead.peer(e.Address)
	return p != nil && p.returned && p.id == e.Identity && isSilent(e) && m.mayChange()
}

// addStatusDeadline adds the time at which the status of e will change because of silence.
func (m *Machine) addStatusDeadline(d *deadline, e member.Member) {
	at := m.silenceDeadline(e)
	if _, ended := m.findEnded(e); ended || m.hasReturned(e) {
		at = m.lead.statusAt
	}
	if !at.IsZero() {
		d.add(latest(at, m.lead.statusAt))
	}
}

// checkSilence changes the statuses of members that have been silent for too long or are heard
// again.
func (m *Machine) checkSilence() {
	if m.now.Before(m.lead.statusAt) || !m.mayChange() {
		return
	}
	var changed []member.Member
	for _, e := range m.shownState().Roster {
		later, ended := m.findEnded(e)
		switch {
		case e.Address == m.self.Address:
			continue
		case ended:
			e.Identity, e.Status = later, member.Unreachable
		case m.hasReturned(e):
			m.lead.peer(e.Address).returned = false
			e.Status = member.Active
		case !m.due(m.silenceDeadline(e)):
			continue
		case e.Status == member.Active:
			m.lead.peer(e.Address).activeSince = time.Time{}
			e.Status = member.Unreachable
		case e.Status == member.Unreachable && m.role == member.Leading:
			e.Status = member.Leaving
		default:
			e = leftPlace(e)
		}
		changed = append(changed, e)
	}
	m.changeStatuses(changed)
}

// makeWaitingChanges makes the changes that waited for the current state to be committed. (S) It
// changes one voter at a time: each change leaves the state uncommitted.
func (m *Machine) makeWaitingChanges() {
	if m.role == member.Leading && m.mayChange() {
		m.finishJoining()
		m.finishLeaving()
		m.releaseSeat()
	}
	m.lead.waiting = slices.DeleteFunc(m.lead.waiting, func(j joiner) bool {
		return m.now.Sub(j.at) >= m.timing.waitingTimeout() ||
			m.assignPlace(j) == message.ReasonNone
	})
}

// finishJoining changes the status of one member that showed this version from joining to active.
// From then on the member has a vote.
func (m *Machine) finishJoining() {
	r := m.durable.Held.Roster
	for _, e := range r {
		p := m.lead.peer(e.Address)
		if e.Shown() == member.Joining && p != nil && p.id == e.Identity &&
			p.number.Version == m.claim().Version && m.isCommitted() {
			e.Status, e.Gone = member.Active, false
			m.changeRoster(r.With(e), e.Address)
			return
		}
	}
}

// leftPlace returns what becomes of e, the entry of a node that had no vote yet and is lost or
// leaves. The place becomes free, with the status None. But the seat of a member whose store lost
// its vote is kept, without a store: no other address may get it because a third process was there.
// The seat keeps the number of the run, because joiners may have to exceed it (maxRunsBetween).
func leftPlace(e member.Member) member.Member {
	if e.Gone {
		e.StoreID, e.Traits = member.StoreID{}, member.Traits{}
	} else {
		e.Status = member.None
	}
	return e
}

// finishLeaving marks a member as gone once M voters hold a state in which it is leaving.
func (m *Machine) finishLeaving() {
	for _, e := range m.durable.Held.Roster {
		if e.Status == member.Leaving && !e.Gone && m.isCommitted() {
			e.Gone = true
			m.changeRoster(m.durable.Held.Roster.With(e), e.Address)
			return
		}
	}
}

// releaseSeat removes a seat from the roster if an operator requested it. (S) The next one waits
// until this change is committed.
func (m *Machine) releaseSeat() {
	r := m.durable.Held.Roster
	if len(r) <= m.lead.keep || !slices.ContainsFunc(r, isSeat) {
		m.lead.keep = 0
	}
	if m.lead.keep == 0 {
		return
	}
	if seat, ok := m.freeSeat(true); ok {
		m.changeStatuses([]member.Member{{Identity: member.Identity{Address: seat}}})
	}
}

// isSeat reports whether e is or becomes the seat of a removed member.
func isSeat(e member.Member) bool {
	return e.Status == member.Leaving || e.Shown() == member.Removed
}

// freeSeat returns a seat that may be given to a joiner, or removed. (S) It returns false unless
// the leader is quorate, its state is committed, and M of the remaining voters were heard within
// HeartbeatTimeout (protocol.md 3). Unless an operator requested it, the seat is kept for the
// member for SeatTimeout: another process must not take it because the member is down for a while.
func (m *Machine) freeSeat(requested bool) (member.Address, bool) {
	if m.role != member.Leading || !m.isQuorate(m.now) || !m.isCommitted() {
		return member.Address{}, false
	}
	for _, e := range m.durable.Held.Roster {
		if e.Shown() == member.Removed && (requested || m.due(m.seatDeadline(e))) {
			return e.Address, m.canSpareVote(e.Address)
		}
	}
	return member.Address{}, false
}

// keptSeatPause is the shortest time between two traces of a kept seat.
const keptSeatPause = time.Minute

// traceKeptSeat traces which seat a refused joiner would get first, if one is kept for a member
// that left.
func (m *Machine) traceKeptSeat() {
	if m.role != member.Leading ||
		!m.lead.keptAt.IsZero() && m.now.Sub(m.lead.keptAt) < keptSeatPause {
		return
	}
	var kept Trace
	for _, e := range m.durable.Held.Roster {
		left := m.seatDeadline(e).Sub(m.now)
		if e.Shown() == member.Removed && left > 0 && (kept.Kind == 0 || left < kept.Left) {
			kept = Trace{Kind: SeatKept, Peer: e.Address, Left: left}
		}
	}
	if kept.Kind != 0 {
		m.lead.keptAt = m.now
		m.trace(kept)
	}
}

// seatDeadline returns until when the seat of a gone member is kept for it. A new leader counts
// from its election, because it does not know when the member was last heard.
func (m *Machine) seatDeadline(e member.Member) time.Time {
	if p := m.lead.peer(e.Address); p != nil {
		return p.heard.Add(m.cfg.SeatTimeout)
	}
	return time.Time{}
}

// canSpareVote reports whether the cluster can do without the vote of the member at a. M of the
// remaining voters must have been heard within HeartbeatTimeout, and must be able to sustain the
// lease without it. (S) A leader with two sets of timings first lets all that earlier leaders
// extended expire: the new voter may help to elect a leader with the shorter HoldTimeout, and that
// of the earlier leaders may have been longer.
func (m *Machine) canSpareVote(a member.Address) bool {
	if m.timing.changes() && m.now.Before(m.lead.since.Add(m.timing.HoldTimeout())) {
		return false
	}
	rest := m.durable.Held.Roster.Without(a)
	heard := 0
	for _, e := range rest {
		p := m.lead.peer(e.Address)
		if e.Address == m.self.Address || e.IsVoter() && p != nil && p.follows(e) &&
			m.now.Sub(p.heard) < m.timing.HeartbeatTimeout {
			heard++
		}
	}
	margin := m.timing.leaseMargin()
	return heard >= m.quorum && m.now.Before(time.Unix(0, m.quorumEcho(rest)).Add(margin))
}

// changeRoster makes the next revision, with roster r, and sends it to all members. It sends only
// the entry of the given address, or the whole state if the address is zero.
func (m *Machine) changeRoster(r member.Roster, about member.Address) {
	before, _ := m.shownState().Roster.Find(about)
	next := m.shownState().Next(r)
	if m.role == member.Leading {
		m.noteRevokedByRoster(m.durable.Held, next)
		m.setHeld(next)
	} else {
		m.soft = next
	}
	m.lead.leaseKnown = false
	m.shown.changed = true
	m.lead.peers = slices.DeleteFunc(m.lead.peers, func(p *peer) bool {
		_, stays := r.Find(p.id.Address)
		return !stays
	})
	if entry, ok := r.Find(about); ok && entry.Shown() != before.Shown() {
		m.trace(Trace{Kind: MemberMoved, Peer: about, Status: entry.Shown()})
	}
	for _, e := range r {
		if e.Address == m.self.Address {
			continue
		}
		if p := m.lead.ensurePeer(e.Identity); p.heard.IsZero() {
			p.heard = m.now
		}
	}
	if m.role == member.Leading {
		m.announceChange(about)
	} else if m.lead.softSyncAt.IsZero() {
		m.lead.softSyncAt = latest(m.now, m.lead.softSyncedAt.Add(m.timing.stateInterval(len(r))))
	}
}

// announcement holds the traits that one run of a member announced.
type announcement struct {
	id     member.Identity
	traits member.Traits
}

// onMemberTraits keeps the announcement of a member until it is published.
func (m *Machine) onMemberTraits(in message.Message, b message.MemberTraits) {
	switch {
	case m.role != member.Leading && m.role != member.Provisional || in.Claim != m.claim():
		m.drop(in, message.ReasonNotLeader)
	case !m.shownState().Roster.Has(in.From):
		m.drop(in, message.ReasonUnknownMember)
	default:
		m.lead.announced = replaceOrAppend(m.lead.announced, announcement{in.From, b.Traits},
			m.cfg.Size, func(a announcement) bool { return a.id.Address == in.From.Address })
	}
}

// publishTraits publishes all announced traits in one revision, at most once per stateInterval,
// because every node stores each revision.
func (m *Machine) publishTraits() {
	if !m.hasUnpublishedTraits() || m.now.Before(m.lead.traitsAt) {
		return
	}
	r, about, n := m.shownState().Roster, member.Address{}, 0
	for _, a := range append(m.lead.announced, announcement{m.self, m.traits}) {
		if e, _ := r.Find(a.id.Address); e.Identity == a.id && e.Traits != a.traits {
			e.Traits = a.traits
			r, about = r.With(e), e.Address
			n++
		}
	}
	m.lead.announced = nil
	if n > 1 {
		about = member.Address{}
	}
	if n > 0 {
		m.lead.traitsAt = m.now.Add(m.timing.stateInterval(len(r)))
		m.changeRoster(r, about)
	}
}

// hasUnpublishedTraits reports whether there are traits that this leader may publish now.
func (m *Machine) hasUnpublishedTraits() bool {
	e, _ := m.shownState().Roster.Find(m.self.Address)
	return (len(m.lead.announced) > 0 || e.Traits != m.traits) && m.mayChange()
}

// announceChange sends the newest revision to all members.
func (m *Machine) announceChange(about member.Address) {
	s := m.durable.Held
	entry, ok := s.Roster.Find(about)
	for _, e := range s.Roster {
		p := m.lead.peer(e.Address)
		switch {
		case p == nil:
			// this node
		case !ok || p.number.IsZero():
			// A member that has not shown this leader's state yet cannot apply an update.
			m.alignMember(p)
		default:
			p.noteSent(s.Number, m.now)
			m.send(e.Address, message.MemberStatusUpdate{Number: s.Number, Member: entry})
		}
	}
}

// alignMember sends the whole state to a member.
func (m *Machine) alignMember(p *peer) {
	p.sent, p.sentAt = m.shownState().Number, m.now
	m.send(p.id.Address, message.ClusterAlignment{State: m.shownState()})
}

// wasJustAligned reports whether a member was sent the newest state, and may still show it.
func (m *Machine) wasJustAligned(p *peer) bool {
	s := m.shownState()
	return p.sent == s.Number && m.now.Sub(p.sentAt) < m.timing.stateInterval(len(s.Roster))
}
