// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// This file is the leader's side of records (protocol.md section 10): it takes
// requests, many in one revision, and ends the records of owners that may have ended.

// recordTable is what a leader knows of the records beside its state.
type recordTable struct {
	requests   []request // wait for the next revision
	bytes      int       // of the requests of others
	requesters []requester
	// answers wait until answerAt is committed.
	answers  []reply
	answerAt member.Number
	owners   []owner
	// former led before, and extended itself; zero where others may have extended it.
	former member.Identity
	// endsAt is no later than when the first of the owners is silent for too long;
	// zero for never.
	endsAt time.Time
	// recheckCommit says that more may be committed than at the last look, untold that the
	// members do not know yet that the newest table is.
	recheckCommit, commitUnannounced bool
}

// requester is a run that sent requests, and the greatest id of them.
type requester struct {
	run member.Identity
	id  uint64
}

// owner is a run that owns records.
type owner struct {
	id      member.Identity
	revoked bool // some of them are revoked
	// lostVoters is when it lost its place last; zero where it did not in this leadership.
	lost time.Time
}

// request is one that waits.
type request struct {
	from member.Identity
	message.RecordRequest
}

// reply is an answer that waits.
type reply struct {
	to member.Identity
	message.RecordResponse
}

// Limits of what others may let wait.
const (
	maxRequests     = 4096
	maxRequestBytes = 4 << 20
)

// onRecordRequest lets a request wait for the next revision. (S) Each is taken once at
// most: under one claim, and only when it is newer than all others of that run.
func (m *Machine) onRecordRequest(in message.Message, b message.RecordRequest) {
	switch {
	case m.role != member.Leading || in.Claim != m.leader:
		m.drop(in, message.ReasonNotLeader)
		return
	case !m.durable.Held.Roster.Has(in.From):
		m.drop(in, message.ReasonUnknownRun)
		return
	}
	last := m.lead.requesterOf(in.From)
	if b.ID <= last.id {
		m.drop(in, message.ReasonRepeated)
		return
	}
	last.id = b.ID
	if len(m.lead.requests) >= maxRequests || m.lead.bytes+b.Bytes() > maxRequestBytes {
		m.refuse(in, message.ReasonBusy)
		m.send(in.From.Address, message.RecordResponse{ID: b.ID, Reason: message.ReasonBusy})
		return
	}
	m.lead.bytes += b.Bytes()
	m.lead.requests = append(m.lead.requests, request{in.From, b})
}

// requesterOf is what is known of the requests of a run.
func (t *recordTable) requesterOf(run member.Identity) *requester {
	i := slices.IndexFunc(t.requesters, func(a requester) bool { return a.run == run })
	if i < 0 {
		i = len(t.requesters)
		t.requesters = append(t.requesters, requester{run: run})
	}
	return &t.requesters[i]
}

// tickTable notes what is committed, and makes the next revision of the records. (S)
// Each is built on a committed one, by a leader with authority.
func (m *Machine) tickTable() {
	t := &m.lead.recordTable
	if m.role != member.Leading {
		return
	}
	m.commitState()
	known := slices.ContainsFunc(t.owners, func(o owner) bool {
		return o.revoked && m.knowsRevocations(o.id)
	})
	if (len(t.requests) > 0 || known || m.due(t.endsAt)) && m.mayRevise() && m.reviseRecords() {
		m.commitState() // a majority may be this node alone
	}
}

// mayRevise reports whether the next revision of the records may be made, after commitState.
func (m *Machine) mayRevise() bool {
	return m.mayChange() && m.records.committed == m.heldNumber() && m.isQuorate(m.now)
}

// commitState notes that the present state is committed, once it is, and answers.
func (m *Machine) commitState() {
	if !m.lead.recheckCommit {
		return
	}
	m.lead.recheckCommit = false
	if !m.isCommitted() {
		return
	}
	m.noteCommitted(m.heldNumber())
	if !m.lead.answerAt.IsZero() {
		m.lead.answerAt = member.Number{}
		m.answerAll()
	}
	if !m.lead.commitUnannounced {
		return
	}
	m.lead.commitUnannounced = false
	for _, p := range m.lead.peers {
		if p.number.Version == m.leader.Version {
			m.sendAck(p.id.Address, p.stamp, true)
		}
	}
}

func (m *Machine) answerAll() {
	answers := m.lead.answers
	m.lead.answers = nil
	for _, a := range answers {
		if a.to == m.self {
			m.endRequest(a.RecordResponse)
		} else {
			m.send(a.to.Address, a.RecordResponse)
		}
	}
}

// tableDeadline is when the records of a silent owner are to go.
func (m *Machine) tableDeadline(d *deadline) {
	if m.role == member.Leading && !m.lead.endsAt.IsZero() && m.mayRevise() {
		d.add(m.lead.endsAt)
	}
}

// ownerSilentAt is when an owner trusts no record any more that this leader does not extend.
// (S) It counts from when the newest keep-alive came that was answered by an extending
// ack, since the owner counts from when it was sent; or from the beginning of this
// leadership: as long as another leader had authority, this one was not chosen.
func (m *Machine) ownerSilentAt(o owner) time.Time {
	last := o.lost // also where it got its place back
	if p := m.lead.peer(o.id.Address); p != nil && p.id == o.id && p.extended.After(last) {
		last = p.extended
	}
	if last.IsZero() && o.id == m.lead.former {
		return m.lead.since.Add(m.timing.LeaseTimeout)
	}
	if m.lead.since.After(last) {
		last = m.lead.since
	}
	return last.Add(m.timing.HoldTimeout())
}

// formerLeader is who led the version of base, when this node has followed it for so long
// that nobody trusts what others extended before. (S) M voters took that base for the
// newest: nobody else had authority since.
func (m *Machine) formerLeader(base member.Number) member.Identity {
	f := &m.follow
	if !f.claim.Chosen || f.claim.Version != base.Version ||
		!m.due(f.since.Add(m.timing.onlyExtenderTimeout())) {
		return member.Identity{}
	}
	return f.leader
}

// knowsRevocations reports whether an owner has shown that it trusts no record that was revoked.
func (m *Machine) knowsRevocations(owner member.Identity) bool {
	if owner == m.self {
		return true
	}
	p := m.lead.peer(owner.Address)
	return p != nil && p.id == owner && !p.number.IsZero() && !p.number.Less(p.revoked)
}

// mayExtend reports whether an ack to p extends the trust of p in its records. (S) The
// leader has authority, and p showed the revision that last took one from it, or gave
// it its place.
func (m *Machine) mayExtend(p *peer, echo message.Stamp) bool {
	return p != nil && m.role == member.Leading && m.isQuorate(m.now) && m.knowsRevocations(p.id) &&
		echo.Version == m.leader.Version && echo.Incarnation == p.id.Incarnation
}

// updateOwners follows a state that this leader holds now. (S) What a change of the roster
// took from an owner counts as every other loss.
func (m *Machine) updateOwners(before, s member.State) {
	t := &m.lead.recordTable
	t.recheckCommit = true
	old := t.owners
	t.owners = nil
	for _, e := range s.Records {
		if !e.IsOwned() {
			continue
		}
		i := slices.IndexFunc(t.owners, func(o owner) bool { return o.id == e.Owner })
		if i < 0 {
			i = len(t.owners)
			t.owners = append(t.owners, m.ownerOf(old, before, s, e.Owner))
		}
		t.owners[i].revoked = t.owners[i].revoked || e.Revoked
	}
	t.requesters = slices.DeleteFunc(t.requesters, func(a requester) bool {
		e, _ := s.Roster.Find(a.run.Address)
		return e.Voter() == a.run.Voter() && e.Identity != a.run // that run is over
	})
	m.scheduleRecordEnd()
}

// ownerOf is what is known of an owner in a state, beside what was known before.
func (m *Machine) ownerOf(old []owner, before, s member.State, id member.Identity) owner {
	o := owner{id: id}
	if i := slices.IndexFunc(old, func(o owner) bool { return o.id == id }); i >= 0 {
		o.lost = old[i].lost
	}
	if before.Roster.Has(id) && !s.Roster.Has(id) {
		o.lost = m.now
	}
	return o
}

// noteRevokedByRoster notes what a change of the roster took from owners.
func (m *Machine) noteRevokedByRoster(before, s member.State) {
	if before.Records.Same(s.Records) {
		return
	}
	m.lead.commitUnannounced = true
	for _, e := range before.Records {
		if now, ok := s.Records.Find(e.Key); !ok || now.Revoked && !e.Revoked {
			m.noteRevoked(e.Owner, s.Number)
		}
	}
}
