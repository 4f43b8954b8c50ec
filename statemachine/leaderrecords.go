// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// draft is the next revision of the records while it is being made.
type draft struct {
	number  member.Number
	records member.Records
	touched map[string]bool // keys that were changed
	keys    []string        // the changed keys in order
}

func (d *draft) put(e member.Record) {
	d.records = d.records.Put(e)
	d.touch(e.Key)
}

func (d *draft) drop(e member.Record) {
	d.records = d.records.Drop(e.Key)
	d.touch(e.Key)
}

func (d *draft) touch(key string) {
	if !d.touched[key] {
		if d.touched == nil {
			d.touched = map[string]bool{}
		}
		d.touched[key] = true
		d.keys = append(d.keys, key)
	}
}

func (d *draft) countOwned(by member.Identity) (n int) {
	for e := range d.records.All() {
		if e.Owner == by {
			n++
		}
	}
	return n
}

// reviseRecords makes the next revision of the records and reports whether anything changed.
func (m *Machine) reviseRecords() bool {
	s := m.durable.Held
	d := &draft{number: nextRevision(s, s.Records).Number, records: s.Records}
	m.endRecords(d)
	m.takeRequests(d)
	if len(d.keys) == 0 {
		d.number = s.Number // nothing changes
	}
	for i := range m.lead.answers {
		if a := &m.lead.answers[i]; a.Reason == message.ReasonNone {
			a.Number = d.number
		}
	}
	if len(d.keys) == 0 {
		m.answerAll()
		return false
	}
	m.lead.answerAt = d.number
	m.lead.commitUnannounced = true
	m.setHeld(nextRevision(s, d.records))
	m.sendRecordUpdate(d)
	return true
}

// sendRecordUpdate sends the changes of the newest revision to the members.
func (m *Machine) sendRecordUpdate(d *draft) {
	u := message.RecordUpdate{Number: d.number}
	slices.Sort(d.keys)
	for _, key := range d.keys {
		if e, ok := d.records.Find(key); ok {
			u.Set = append(u.Set, e)
		} else {
			u.Dropped = append(u.Dropped, key)
		}
	}
	for _, p := range m.lead.peers {
		if p.number.IsZero() {
			continue // cannot apply an update; gets the whole state once it shows its own state
		}
		p.noteSent(d.number, m.now)
		m.send(p.id.Address, u)
	}
}

// endRecords drops the revoked records whose owners have learned of the revocation, and all records
// of silent owners.
func (m *Machine) endRecords(d *draft) {
	if !m.lead.takes && !m.due(m.nextSilence()) {
		return
	}
	for _, o := range m.lead.owners {
		silent := o.id != m.self && m.due(m.ownerSilentAt(o))
		if !silent && !(o.revoked && m.knowsRevocations(o.id)) {
			continue
		}
		for e := range m.durable.Held.Records.All() {
			if e.Owner == o.id && (silent || e.Revoked) {
				d.drop(e)
			}
		}
		if silent {
			m.noteRevoked(o.id, d.number)
			m.trace(Trace{Kind: RecordsEnded, Peer: o.id.Address})
		}
	}
}

// takeRequests takes waiting requests in order until one would set a key for the second time. The
// number of the revision is the token of the records that it sets.
func (m *Machine) takeRequests(d *draft) {
	for len(m.lead.requests) > 0 {
		r := m.lead.requests[0]
		if slices.ContainsFunc(r.Changes, func(c message.Change) bool { return d.touched[c.Key] }) {
			return
		}
		m.lead.requests = m.lead.requests[1:]
		m.lead.ofWorkers = min(m.lead.ofWorkers, len(m.lead.requests))
		if p := m.lead.findWorker(r.from.Address); p != nil {
			p.waiting--
		}
		if r.from != m.self {
			m.lead.bytes -= r.Bytes()
		}
		a := message.RecordResponse{ID: r.ID, Reason: m.refuseRequest(d, r)}
		if a.Reason == message.ReasonNone {
			m.takeRequest(d, r)
		}
		m.lead.answers = append(m.lead.answers, reply{r.from, a})
	}
}

// refuseRequest returns the reason to refuse a request, or ReasonNone. (S) A revoked record meets
// no condition, so its owner cannot undo the revocation.
func (m *Machine) refuseRequest(d *draft, r request) message.Reason {
	from, _ := m.durable.Held.Roster.Find(r.from.Address)
	if !r.from.IsWorker() && (from.Identity != r.from || from.Shown() != member.Active) {
		return message.ReasonNotActive
	}
	if tooLarge(r.RecordRequest) {
		return message.ReasonTooLarge
	}
	for _, c := range r.Conditions {
		e, _ := d.records.Find(c.Key)
		if e.Token != c.Token || e.Revoked && !c.Token.IsZero() {
			return message.ReasonConflict
		}
	}
	count, bytes, gained := d.records.Len(), d.records.Bytes(), 0
	for i, c := range r.Changes {
		if slices.ContainsFunc(r.Changes[:i], func(o message.Change) bool { return o.Key == c.Key }) {
			return message.ReasonConflict // only one change per key
		}
		e, known := d.records.Find(c.Key)
		switch owns := e.Owner == r.from; {
		case owns && (c.Drop || !c.Owned):
			gained--
		case !owns && !c.Drop && c.Owned:
			gained++
		}
		if c.Drop {
			continue
		}
		if e.IsOwned() && e.Owner != r.from {
			return message.ReasonOwned
		}
		bytes += m.recordOf(d, r.from, c).Bytes()
		if known {
			bytes -= e.Bytes()
		} else {
			count++
		}
	}
	grows := count > d.records.Len() || bytes > d.records.Bytes()
	if count > member.MaxRecords || bytes > member.MaxRecordsBytes ||
		r.from.IsWorker() && (grows && isCrowded(count, bytes) ||
			gained > 0 && d.countOwned(r.from)+gained > maxWorkerRecords) {
		return message.ReasonTableFull
	}
	return message.ReasonNone
}

// isCrowded reports whether a table is so full that only members may add records.
func isCrowded(count, bytes int) bool {
	return count > member.MaxRecords*3/4 || bytes > member.MaxRecordsBytes*3/4
}

func (m *Machine) recordOf(d *draft, from member.Identity, c message.Change) member.Record {
	e := member.Record{Key: c.Key, Value: c.Value, Token: member.Token(d.number)}
	if c.Owned {
		e.Owner, e.Session = from, c.Session
	}
	return e
}

// takeRequest makes the changes of a request. (S) A record that another run owns is only marked as
// revoked. It is dropped once that run has shown that it no longer trusts the record.
func (m *Machine) takeRequest(d *draft, r request) {
	for _, c := range r.Changes {
		e, known := d.records.Find(c.Key)
		switch {
		case !c.Drop:
			d.put(m.recordOf(d, r.from, c))
		case !known || e.Revoked && e.Owner != r.from:
		case e.IsOwned() && e.Owner != r.from:
			e.Revoked = true
			d.put(e)
			m.noteRevoked(e.Owner, d.number)
			m.trace(Trace{Kind: RecordRevoked, Peer: e.Owner.Address})
		default:
			d.drop(e)
		}
	}
}
