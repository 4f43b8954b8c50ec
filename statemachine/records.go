// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// recordState is what a node knows of the table of records beside its held state: which
// are its own, until when it may trust them, and what it has asked for (protocol.md
// section 10).
type recordState struct {
	// own are the records that this run was told to own, and has not asked to change
	// since, sorted by key.
	own []ownRecord
	// until is when this run trusts its records no more, unless it is extended.
	until time.Time
	open  []openRequest // in the order of their ids
	// committed is the newest number that is known to be committed, of a version
	// that this node held then; shown is the table of the newest such state.
	committed member.Number
	shown     member.Records
}

// ownRecord is a record that this run owns.
type ownRecord struct {
	key   string
	token member.Token
}

// openRequest is a request of this run without an answer.
type openRequest struct {
	id    uint64
	claim member.Claim // of the leadership that was asked
	at    time.Time
	keys  []string // that it will own when it is taken
}

// maxOpen bounds the requests of this node that are open.
const maxOpen = 1024

// Commit asks the leader for changes of records, all or none. Output.Answers has the
// answer of this call or of a later one, exactly one, by r.ID, which must be greater
// than that of every call before. This node trusts none of the records that r changes
// from now on, whatever the answer, but those that r sets when it is taken.
func (m *Machine) Commit(now time.Time, r message.RecordRequest) Output {
	m.beginCall(now)
	if reason := m.refuseCommit(r); reason != message.ReasonNone {
		m.out.Answers = append(m.out.Answers, message.RecordResponse{ID: r.ID, Reason: reason})
		return m.endCall()
	}
	o := openRequest{id: r.ID, claim: m.leader, at: m.now}
	for _, c := range r.Changes {
		m.endOwnership(c.Key)
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == c.Key })
		if c.Owned && !c.Drop {
			o.keys = append(o.keys, c.Key)
		}
	}
	m.records.open = append(m.records.open, o)
	if m.role == member.Leading {
		m.lead.requests = append(m.lead.requests, request{m.self, r})
	} else {
		m.send(m.leader.Leader, r)
	}
	return m.endCall()
}

// refuseCommit says why a request of this node cannot be taken.
func (m *Machine) refuseCommit(r message.RecordRequest) message.Reason {
	switch {
	case m.stopped || m.operator.leaving:
		return message.ReasonNotActive
	case !m.showsQuorate():
		return message.ReasonNoQuorum
	case len(m.records.open) >= maxOpen:
		return message.ReasonBusy
	case tooLarge(r):
		return message.ReasonTooLarge
	}
	return message.ReasonNone
}

// tooLarge reports whether a request is beyond the limits of one.
func tooLarge(r message.RecordRequest) bool {
	bad := func(key string, value []byte) bool {
		return !member.IsKey(key) || len(value) > member.MaxValueBytes
	}
	return len(r.Conditions) > message.MaxConditions || len(r.Changes) > message.MaxChanges ||
		slices.ContainsFunc(r.Conditions, func(c message.Condition) bool { return bad(c.Key, nil) }) ||
		slices.ContainsFunc(r.Changes, func(c message.Change) bool { return bad(c.Key, c.Value) })
}

// endOwnership ends the trust in what is under key. (S) Requests that are open would bring it
// back, and their answers may come after the record is another's.
func (m *Machine) endOwnership(key string) {
	if i, ok := m.ownIndex(key); ok {
		m.records.own = slices.Delete(m.records.own, i, i+1)
		m.shown.changed = true
	}
	for i := range m.records.open {
		o := &m.records.open[i]
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
	}
}

// ownIndex is where the record under key is among those of this run, or would be.
func (m *Machine) ownIndex(key string) (int, bool) {
	return slices.BinarySearchFunc(m.records.own, key, func(o ownRecord, key string) int {
		return strings.Compare(o.key, key)
	})
}

// noteOwned notes that this run owns the record under key.
func (m *Machine) noteOwned(key string, token member.Token) {
	i, ok := m.ownIndex(key)
	if !ok {
		m.records.own = slices.Insert(m.records.own, i, ownRecord{})
	}
	m.records.own[i] = ownRecord{key, token}
}

// Holds is the token of the record under key that this run owns and may act on, and
// until when it may unless that is extended; zero where it may not. (S) The record was
// answered for, the held state shows it, not revoked, and the leader extended it.
func (m *Machine) Holds(now time.Time, key string) (token member.Token, until time.Time) {
	t := m.Owns(key)
	if t.IsZero() || m.stopped || m.operator.leaving || !now.Before(m.records.until) {
		return member.Token{}, time.Time{}
	}
	if e, ok := m.durable.Held.Records.Find(key); !ok || e.Revoked || e.Token != t ||
		e.Owner != m.self {
		return member.Token{}, time.Time{}
	}
	return t, m.records.until
}

// Owns is the token of the record under key that this run was told to own; zero where
// it was told of none, or has asked to change it since.
func (m *Machine) Owns(key string) member.Token {
	if i, ok := m.ownIndex(key); ok {
		return m.records.own[i].token
	}
	return member.Token{}
}

// TrustsUntil is when this run trusts its records no more, unless that is extended.
func (m *Machine) TrustsUntil() time.Time { return m.records.until }

// Records is the newest table of which this node knows that it is committed. The
// caller must not change it.
func (m *Machine) Records() member.Records { return m.records.shown }

// onRecordResponse takes the answer to a request of this node.
func (m *Machine) onRecordResponse(in message.Message, b message.RecordResponse) {
	if m.role != member.Following || in.From != m.follow.leader || in.Claim != m.leader {
		m.drop(in, message.ReasonOtherLeader)
		return
	}
	m.endRequest(b)
}

// endRequest ends an open request of this node; an answer to no such request is of one
// that was given up.
func (m *Machine) endRequest(b message.RecordResponse) {
	i := slices.IndexFunc(m.records.open, func(o openRequest) bool { return o.id == b.ID })
	if i < 0 {
		return
	}
	if b.Reason == message.ReasonNone {
		for _, key := range m.records.open[i].keys {
			m.noteOwned(key, member.Token(b.Number))
		}
		m.noteCommitted(b.Number)
	}
	m.records.open = slices.Delete(m.records.open, i, i+1)
	m.out.Answers = append(m.out.Answers, b)
}

// tickRecords gives up requests whose leader is followed no more, or does not answer.
func (m *Machine) tickRecords() {
	for len(m.records.open) > 0 {
		o := m.records.open[0]
		if o.claim == m.leader && !m.due(o.at.Add(m.timing.LeaderTimeout)) {
			return
		}
		m.endRequest(message.RecordResponse{ID: o.id, Reason: message.ReasonUnknown})
	}
}

func (m *Machine) recordsDeadline(d *deadline) {
	if len(m.records.open) > 0 {
		d.add(m.records.open[0].at.Add(m.timing.LeaderTimeout))
	}
	m.tableDeadline(d)
}

// extendTrust takes what an ack of the leader followed says of records. (S) It echoes the
// stamp of this very run, from which nine tenths of HoldTimeout count.
func (m *Machine) extendTrust(b message.LeaderKeepAliveAck) {
	m.noteCommitted(b.Committed)
	e := b.Echo
	if !b.Extends || e.Version != m.leader.Version || e.Incarnation != m.self.Incarnation ||
		e.Clock > m.now.UnixNano() || e.Clock <= m.trustFrom {
		return
	}
	m.trustUntil(time.Unix(0, e.Clock).Add(m.timing.holdMargin()))
}

func (m *Machine) trustUntil(t time.Time) {
	if t.After(m.records.until) {
		m.records.until = t
	}
}

// noteCommitted notes that a state is committed. (S) One of a version that is not held
// here says nothing of the held state.
func (m *Machine) noteCommitted(n member.Number) {
	if n.Version == m.heldNumber().Version && m.records.committed.Less(n) {
		m.records.committed = n
	}
	m.showRecords()
}

// showRecords shows the table of the held state when that is committed.
func (m *Machine) showRecords() {
	if m.records.committed.Less(m.heldNumber()) || m.records.shown.Same(m.durable.Held.Records) {
		return
	}
	m.records.shown = m.durable.Held.Records
	m.shown.changed = true
}

// dropLostRecords follows a state that was just held: what is no more there, or not
// unchanged, is not owned any more.
func (m *Machine) dropLostRecords(s member.State) {
	m.records.own = slices.DeleteFunc(m.records.own, func(o ownRecord) bool {
		e, _ := s.Records.Find(o.key)
		return !member.Token(s.Number).Less(o.token) && (e.Token != o.token || e.Revoked)
	})
	m.showRecords()
}

// onRecordUpdate applies changed records to the revision before them.
func (m *Machine) onRecordUpdate(in message.Message, b message.RecordUpdate) {
	if !m.isNextRevision(in, b.Number) {
		return
	}
	s := m.shownState()
	// Its leader changes records only when what it has is committed.
	m.noteCommitted(s.Number)
	r := s.Records.Clone()
	for _, key := range b.Dropped {
		r.Drop(key)
	}
	for _, e := range b.Set {
		r.Put(e)
	}
	if len(r) > member.MaxRecords || r.Bytes() > member.MaxRecordsBytes {
		m.drop(in, message.ReasonTooLarge) // it would fit into no frame and no store
		return
	}
	next := nextRevision(s, r)
	if !m.isPlausible(next) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	m.takeAndFollow(next, in.From)
}

// nextRevision returns the state one revision later, with other records.
func nextRevision(s member.State, r member.Records) member.State {
	s.Revision++
	s.Records = r
	return s
}
