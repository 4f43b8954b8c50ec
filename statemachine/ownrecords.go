// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// recordState is what a node knows about records in addition to its held state (protocol.md 10).
type recordState struct {
	open []openRequest // sorted by id
	// committed is the newest number known to be committed; this run held that version at the time.
	// shown is the newest committed state that this run held.
	committed member.Number
	shown     member.State
}

// openRequest is an unanswered request of this run.
type openRequest struct {
	id    uint64
	claim member.Claim // the leadership to which it was sent
	at    time.Time
	keys  []string // keys of the records that this run will own if the request is taken
}

// maxOpen is the maximum number of open requests of this node.
const maxOpen = 1024

// Commit asks the leader to make all changes of r or none. Output.Answers of this call or a later
// one contains exactly one response with r.ID, which must be greater than in every earlier call.
// From now on this node trusts none of the records that r may change. If r is taken, the node
// trusts the records that r sets.
func (m *Machine) Commit(now time.Time, r message.RecordRequest) Output {
	m.beginCall(now)
	if reason := m.refuseCommit(r); reason != message.ReasonNone {
		m.out.Answers = append(m.out.Answers, message.RecordResponse{ID: r.ID, Reason: reason})
		return m.endCall()
	}
	o := openRequest{id: r.ID, claim: m.claim(), at: m.now}
	for _, c := range r.Changes {
		m.endOwnership(c.Key, r.Conditions)
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == c.Key })
		if c.Owned && !c.Drop {
			o.keys = append(o.keys, c.Key)
		}
	}
	if m.worker {
		r.Seen = m.follow.echo
	}
	m.records.open = append(m.records.open, o)
	m.out.Request = &r
	if m.role == member.Leading {
		m.lead.enqueue(request{m.self, r})
	} else {
		m.send(m.claim().Leader, r)
	}
	return m.endCall()
}

// refuseCommit returns the reason why this node cannot send a request, or ReasonNone.
func (m *Machine) refuseCommit(r message.RecordRequest) message.Reason {
	switch {
	case m.stopped || m.operator.leaving:
		return message.ReasonNotActive
	case !m.showsQuorate(m.now):
		return message.ReasonNoQuorum
	case len(m.records.open) >= maxOpen:
		return message.ReasonBusy
	case tooLarge(r):
		return message.ReasonTooLarge
	}
	return message.ReasonNone
}

// tooLarge reports whether a request exceeds the limits.
func tooLarge(r message.RecordRequest) bool {
	bad := func(key string, value []byte) bool {
		return !member.IsKey(key) || len(value) > member.MaxValueBytes
	}
	return len(r.Conditions) > message.MaxConditions || len(r.Changes) > message.MaxChanges ||
		slices.ContainsFunc(r.Conditions, func(c message.Condition) bool { return bad(c.Key, nil) }) ||
		slices.ContainsFunc(r.Changes, func(c message.Change) bool { return bad(c.Key, c.Value) })
}

// Records returns the newest table that is known to be committed.
func (m *Machine) Records() member.Records { return m.records.shown.Records }

// onRecordResponse handles the response to a request of this node.
func (m *Machine) onRecordResponse(in message.Message, b message.RecordResponse) {
	if m.role != member.Following || in.From != m.follow.leader || in.Claim != m.claim() {
		m.drop(in, message.ReasonOtherLeader)
		return
	}
	m.endRequest(b)
}

// endRequest closes an open request of this node. It ignores a response to a request that is not
// open.
func (m *Machine) endRequest(b message.RecordResponse) {
	i := slices.IndexFunc(m.records.open, func(o openRequest) bool { return o.id == b.ID })
	if i < 0 {
		return
	}
	if b.Reason == message.ReasonNone {
		for _, key := range m.records.open[i].keys {
			m.noteOwned(ownRecord{key, member.Token(b.Number)})
		}
		m.noteCommitted(b.Number)
	}
	m.records.open = slices.Delete(m.records.open, i, i+1)
	m.out.Answers = append(m.out.Answers, b)
}

// tickRecords ends requests that got no answer in time, and requests to a leader that this node no
// longer follows. Their outcome is unknown.
func (m *Machine) tickRecords() {
	for len(m.records.open) > 0 {
		o := m.records.open[0]
		if o.claim == m.claim() && !m.due(m.answerDeadline(o)) {
			return
		}
		m.endRequest(message.RecordResponse{ID: o.id, Reason: message.ReasonUnknown})
	}
}

// answerDeadline returns until when a request may be answered: for LeaderTimeout, or longer on slow
// disks. A worker does not know how slow they are, and waits as long as its request may be taken.
func (m *Machine) answerDeadline(o openRequest) time.Time {
	if m.worker {
		return o.at.Add(m.timing.HoldTimeout())
	}
	return o.at.Add(m.outlastSaves(m.timing.LeaderTimeout))
}

func (m *Machine) recordsDeadline(d *deadline) {
	if len(m.records.open) > 0 {
		d.add(m.answerDeadline(m.records.open[0]))
	}
	if m.role == member.Leading && m.mayRevise() {
		d.add(m.nextSilence())
	}
}

// noteCommitted records that the state n is committed. (S) It ignores numbers of a version that
// this node does not hold.
func (m *Machine) noteCommitted(n member.Number) {
	if n.Version == m.heldNumber().Version && m.records.committed.Less(n) {
		m.records.committed = n
	}
	m.showRecords()
}

// showRecords publishes the table of the held state once that state is committed.
func (m *Machine) showRecords() {
	if m.records.committed.Less(m.heldNumber()) {
		return
	}
	if m.records.shown.Records != m.durable.Held.Records {
		m.shown.changed = true
	}
	m.records.shown = m.durable.Held
}

// onRecordUpdate applies the record changes by which the leader made the next revision.
func (m *Machine) onRecordUpdate(in message.Message, b message.RecordUpdate) {
	if !m.isNextRevision(in, b.Number) {
		return
	}
	s := m.shownState()
	// A leader changes records only once its current state is committed.
	m.noteCommitted(s.Number)
	r, fits := b.Apply(s.Records)
	if !fits {
		m.drop(in, message.ReasonTooLarge)
		return
	}
	next := nextRevision(s, r)
	if !m.isPlausible(next) {
		m.drop(in, message.ReasonNotCandidate)
		return
	}
	m.takeAndFollow(next, in.From)
}

// nextRevision returns the next revision of s, with records r.
func nextRevision(s member.State, r member.Records) member.State {
	s.Revision++
	s.Records = r
	return s
}
