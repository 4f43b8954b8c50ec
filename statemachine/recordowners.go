// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// A leader collects requests, makes one revision of them, and answers them once the revision is
// committed. It drops the records of owners that no longer trust them (protocol.md 10).

// recordTable is what a leader knows about records in addition to its state.
type recordTable struct {
	requests   []request // waiting for the next revision, those of workers last
	ofWorkers  int       // how many of them are of workers
	bytes      int       // total size of the requests of other nodes
	requesters []requester
	// answers are sent once answerAt is committed.
	answers  []reply
	answerAt member.Number
	owners   []owner
	// takes is whether a record of an owner is revoked. silentAt is at or before the first time at
	// which an owner is silent; zero if it must be found again.
	takes    bool
	silentAt time.Time
	// former is the previous leader, if acks of the leaders before it no longer extend the trust in
	// its records; otherwise zero.
	former member.Identity
	// commitUnannounced is set if the members do not know yet that the newest table is committed.
	commitUnannounced bool
}

// requester is the latest run of an address that sent requests, with its greatest request id.
type requester struct {
	run member.Identity
	id  uint64
}

// owner is a run that owns records.
type owner struct {
	id      member.Identity
	revoked bool // whether some of them are revoked
	// lost is when the owner last lost its place under this leadership; zero for never.
	lost time.Time
}

// request is a request that waits to be taken.
type request struct {
	from member.Identity
	message.RecordRequest
}

// reply is a response that waits to be sent.
type reply struct {
	to member.Identity
	message.RecordResponse
}

// Limits of the requests that wait at a leader.
const (
	maxRequests     = 4096
	maxRequestBytes = 4 << 20
)

// onRecordRequest queues a request for the next revision. (S) A request is taken at most once. It
// is taken only under the claim in its header, and only if its id is greater than the ids of all
// earlier requests of the run.
func (m *Machine) onRecordRequest(in message.Message, b message.RecordRequest) {
	switch {
	case m.role != member.Leading || in.Claim != m.claim():
		m.drop(in, message.ReasonNotLeader)
		return
	case !m.durable.Held.Roster.Has(in.From) && !in.From.IsWorker():
		m.drop(in, message.ReasonUnknownRun)
		return
	}
	last := m.lead.requesterOf(in.From)
	if b.ID <= last.id {
		m.drop(in, message.ReasonRepeated)
		return
	}
	last.id = b.ID
	if !m.lead.hasRoom(in.From, b) {
		m.refuse(in, message.ReasonBusy)
		m.send(in.From.Address, message.RecordResponse{ID: b.ID, Reason: message.ReasonBusy})
		return
	}
	m.lead.bytes += b.Bytes()
	m.lead.enqueue(request{in.From, b})
}

// enqueue adds a waiting request. Those of workers wait behind all of members: as a key is set once
// in a revision, requests of one worker could delay the others for many revisions.
func (t *recordTable) enqueue(r request) {
	at := len(t.requests)
	if !r.from.Address.IsObserver() {
		at -= t.ofWorkers
	} else {
		t.ofWorkers++
	}
	t.requests = slices.Insert(t.requests, at, r)
}

// hasRoom reports whether a request may wait. Workers get half of the room, so that members always
// have some.
func (t *recordTable) hasRoom(from member.Identity, b message.RecordRequest) bool {
	share := 1
	if from.IsWorker() {
		share = 2
	}
	return len(t.requests) < maxRequests/share && t.bytes+b.Bytes() <= maxRequestBytes/share
}

// requesterOf returns the entry of a run. If there is none, it replaces the entry of the earlier
// run at the address: without a data directory, each start is another store.
func (t *recordTable) requesterOf(run member.Identity) *requester {
	i := t.requesterAt(run.Address)
	if i < 0 {
		i = len(t.requesters)
		t.requesters = append(t.requesters, requester{})
	}
	if t.requesters[i].run != run {
		t.requesters[i] = requester{run: run}
	}
	return &t.requesters[i]
}

func (t *recordTable) requesterAt(a member.Address) int {
	return slices.IndexFunc(t.requesters, func(r requester) bool { return r.run.Address == a })
}

func (t *recordTable) forgetRequester(a member.Address) {
	if i := t.requesterAt(a); i >= 0 {
		t.requesters = slices.Delete(t.requesters, i, i+1)
	}
}

// ownsRecords reports whether a run owns records.
func (t *recordTable) ownsRecords(id member.Identity) bool {
	return slices.ContainsFunc(t.owners, func(o owner) bool { return o.id == id })
}

// laterRun returns the incarnation of another run that sent requests from the address of the given
// run and is not earlier, or 0 if there is none. (S) The given run then gets no place, because the
// leader no longer knows which of its requests were taken.
func (t *recordTable) laterRun(run member.Identity) uint64 {
	i := t.requesterAt(run.Address)
	if i < 0 || t.requesters[i].run == run || t.requesters[i].run.Incarnation < run.Incarnation {
		return 0
	}
	return t.requesters[i].run.Incarnation
}

// tickTable checks what is committed and makes the next revision of the records. (S) Each such
// revision is based on a committed one and made with authority.
func (m *Machine) tickTable() {
	if m.role != member.Leading {
		return
	}
	m.commitState()
	for m.mayRevise() && m.reviseRecords() {
		m.commitState() // this node alone may be a majority: then no other event follows
	}
}

// mayRevise reports whether the records may be revised now. The caller must have called
// commitState.
func (m *Machine) mayRevise() bool {
	return m.mayChange() && m.records.committed == m.heldNumber() && m.isQuorate(m.now)
}

// commitState checks whether the current state is committed. If so, it sends the answers and, if
// the table changed, an ack to each member.
func (m *Machine) commitState() {
	if m.records.committed == m.heldNumber() || !m.isCommitted() {
		return
	}
	m.noteCommitted(m.heldNumber())
	if !m.lead.answerAt.IsZero() {
		m.lead.answerAt = member.Number{}
		m.answerAll()
	}
	if m.lead.commitUnannounced {
		m.lead.commitUnannounced = false
		m.sendAcks(false)
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

// updateOwners updates the owners for the state s that this leader now holds.
func (m *Machine) updateOwners(before, s member.State) {
	t := &m.lead.recordTable
	lost := slices.DeleteFunc(t.owners, func(o owner) bool { return o.lost.IsZero() })
	t.owners, t.takes, t.silentAt = make([]owner, 0, cap(t.owners)), false, time.Time{}
	at := make(map[member.Identity]int, cap(t.owners))
	for id, revoked := range s.Records.Owners() {
		i, ok := at[id]
		if !ok {
			i = len(t.owners)
			at[id] = i
			t.owners = append(t.owners, m.ownerOf(lost, before, s, id))
		}
		t.owners[i].revoked = t.owners[i].revoked || revoked
		t.takes = t.takes || revoked
	}
}

// ownerOf returns the entry of an owner in s. (S) If the owner has lost its place, in this revision
// or an earlier one, which is in lost, ownerOf records when.
func (m *Machine) ownerOf(lost []owner, before, s member.State, id member.Identity) owner {
	o := owner{id: id}
	if i := slices.IndexFunc(lost, func(o owner) bool { return o.id == id }); i >= 0 {
		o.lost = lost[i].lost
	}
	if before.Roster.Has(id) && !s.Roster.Has(id) {
		o.lost = m.now
	}
	return o
}

// noteRevokedByRoster notes the records that a change of the roster took from their owners.
func (m *Machine) noteRevokedByRoster(before, s member.State) {
	if before.Records == s.Records {
		return
	}
	m.lead.commitUnannounced = true
	for old, now := range s.Records.Changes(before.Records) {
		if old.Key != "" && (now.Key == "" || now.Revoked && !old.Revoked) {
			m.noteRevoked(old.Owner, s.Number)
		}
	}
}
