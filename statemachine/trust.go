// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// May a node act on a record? All of the answer is in this file (protocol.md 10). An owner trusts
// its records until a time that its leader extends, and a leader drops the records of an owner only
// when that time has passed at the owner.

// trustState is why this run may act on its records.
type trustState struct {
	// own lists, by key, the records that this run owns and has not asked to change since it became
	// their owner.
	own []ownRecord
	// until is when the trust in own ends unless it is extended.
	until time.Time
	// hold is the HoldTimeout in the newest ack that extended the trust; 0 for that of this node.
	hold time.Duration
	// from is when the node last noticed that its clock had stood still, as a clock reading in
	// nanoseconds; 0 for never. (S) Authority and trust in records count only from later stamps.
	from int64
}

// ownRecord is a record that this run owns.
type ownRecord struct {
	key   string
	token member.Token
}

// Holds returns the token of the record under key, and when this run must stop acting on the record
// unless its trust is extended. Both results are zero unless this run owns the record and may act
// on it now. (S) The record must be committed, in the held state and not revoked, and the leader
// must have extended the trust in it.
func (m *Machine) Holds(now time.Time, key string) (token member.Token, until time.Time) {
	t := m.Owns(key)
	if t.IsZero() || m.stopped || m.operator.leaving || !now.Before(m.trust.until) ||
		!m.showsOwned(ownRecord{key, t}) {
		return member.Token{}, time.Time{}
	}
	return t, m.trust.until
}

// showsOwned reports whether the held state shows that this run owns o, not revoked.
func (m *Machine) showsOwned(o ownRecord) bool {
	e, _ := m.durable.Held.Records.Find(o.key)
	return e.Token == o.token && e.Owner == m.self && !e.Revoked
}

// Owns returns the token of the record under key if a response made this run the owner of the
// record, and this run has not asked to change it since. Otherwise Owns returns zero.
func (m *Machine) Owns(key string) member.Token {
	if i, ok := m.ownIndex(key); ok {
		return m.trust.own[i].token
	}
	return member.Token{}
}

// TrustsUntil returns when this run stops trusting its records unless the trust is extended.
func (m *Machine) TrustsUntil() time.Time { return m.trust.until }

// isLost reports whether o was dropped, changed or revoked: the held state would show it.
func (m *Machine) isLost(o ownRecord) bool {
	return !member.Token(m.heldNumber()).Less(o.token) && !m.showsOwned(o)
}

// noteOwned records that this run owns o, according to a response.
func (m *Machine) noteOwned(o ownRecord) {
	if i, ok := m.ownIndex(o.key); ok {
		m.trust.own[i] = o
	} else if !m.isLost(o) {
		m.trust.own = slices.Insert(m.trust.own, i, o)
	}
}

// dropLostRecords removes the lost records. before is the state that the held state replaced. It
// checks only the records that changed, and those that before could not show.
func (m *Machine) dropLostRecords(before member.State) {
	for old, now := range m.durable.Held.Records.Changes(before.Records) {
		if i, ok := m.ownIndex(cmp.Or(old.Key, now.Key)); ok && m.isLost(m.trust.own[i]) {
			m.trust.own = slices.Delete(m.trust.own, i, i+1)
		}
	}
	m.trust.own = slices.DeleteFunc(m.trust.own, func(o ownRecord) bool {
		return member.Token(before.Number).Less(o.token) && m.isLost(o)
	})
}

// endOwnership ends the trust in the record under key, because this run sends a request that
// changes the key under these conditions. (S) Answers to open requests must not restore the trust:
// they may arrive after the record has another owner. But a request that cannot be taken while the
// record exists must not end the trust: it may be from another session of this run.
func (m *Machine) endOwnership(key string, conditions []message.Condition) {
	excludes := func(t member.Token) bool {
		return slices.ContainsFunc(conditions, func(c message.Condition) bool {
			return c.Key == key && c.Token != t
		})
	}
	if i, ok := m.ownIndex(key); ok && !excludes(m.trust.own[i].token) {
		m.trust.own = slices.Delete(m.trust.own, i, i+1)
		m.shown.changed = true
	}
	if slices.Contains(conditions, message.Condition{Key: key}) {
		return
	}
	for i := range m.records.open {
		o := &m.records.open[i]
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
	}
}

// ownIndex returns the position of key in own and whether key is there.
func (m *Machine) ownIndex(key string) (int, bool) {
	return slices.BinarySearchFunc(m.trust.own, key, func(o ownRecord, key string) int {
		return strings.Compare(o.key, key)
	})
}

// extendTrust handles the part of an ack that extends the trust. (S) The trust then lasts until
// holdMargin after the echoed stamp, which must be from this run.
func (m *Machine) extendTrust(b message.LeaderKeepAliveAck) {
	if b.Extends && m.isOwnStamp(b.Echo) && b.Echo.Clock > m.trust.from {
		sent := time.Unix(0, b.Echo.Clock)
		m.trust.until = latest(m.trust.until, sent.Add(m.timing.holdMargin(b.Hold)))
		m.trust.hold = b.Hold
	}
}

// EndTrust ends authority and the trust in records. The clock may have stood still until now, so
// the age of earlier stamps is unknown. Only answers to later stamps restore authority and trust.
// (S) Promises to other nodes stay in force: they may last longer than promised, but never shorter.
// The effects appear in the Output of the next call.
func (m *Machine) EndTrust(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
	m.trust.from = m.now.UnixNano()
	m.trust.until = time.Time{}
	m.lead.leaseKnown = false
}

// ownerSilentAt returns the time after which an owner cannot trust its records unless this leader
// extends the trust. (S) The time counts from the arrival of the owner's last answered keep-alive,
// because the owner sent the keep-alive earlier. Without an answered keep-alive, it counts from the
// start of this leadership, because no other leader had authority when this one was chosen.
func (m *Machine) ownerSilentAt(o owner) time.Time {
	last := o.lost // even if the owner has got its place back
	if p := m.lead.peer(o.id.Address); p != nil && p.id == o.id {
		last = latest(last, p.extended)
	}
	if last.IsZero() && o.id == m.lead.former {
		return m.lead.since.Add(m.timing.LeaseTimeout)
	}
	return latest(last, m.lead.since).Add(m.timing.HoldTimeout())
}

// nextSilence returns a time before which no owner is silent; zero if there is no other owner.
// Later keep-alives only postpone it, so it is found again when it has come or the owners change.
func (m *Machine) nextSilence() time.Time {
	t := &m.lead.recordTable
	if t.silentAt.IsZero() || m.due(t.silentAt) {
		var d deadline
		for _, o := range t.owners {
			if o.id != m.self {
				d.add(m.ownerSilentAt(o))
			}
		}
		t.silentAt = d.at
	}
	return t.silentAt
}

// formerLeader returns the leader of base's version, if this node followed it for so long that acks
// of earlier leaders no longer extend any trust; otherwise zero. (S) M voters took base as the
// newest state, so no other leader has had authority since.
func (m *Machine) formerLeader(base member.Number) member.Identity {
	f := &m.follow
	if !f.claim.Chosen || f.claim.Version != base.Version ||
		!m.due(f.since.Add(m.timing.onlyExtenderTimeout())) {
		return member.Identity{}
	}
	return f.leader
}

// knowsRevocations reports whether an owner has shown that it trusts no revoked record.
func (m *Machine) knowsRevocations(owner member.Identity) bool {
	if owner == m.self {
		return true
	}
	p := m.lead.peer(owner.Address)
	return p != nil && p.id == owner && !p.number.IsZero() && !p.number.Less(p.revoked)
}

// noteRevoked records that revision n took a record from a run that had not asked for the change.
func (m *Machine) noteRevoked(owner member.Identity, n member.Number) {
	if p := m.lead.peer(owner.Address); p != nil && p.id == owner {
		p.revoked = n
	}
}

// extendOwner makes an ack to p extend p's trust in its records. (S) The leader must have
// authority, and p must have shown the revision that last took a record from it or gave it its
// place.
func (m *Machine) extendOwner(p *peer, ack *message.LeaderKeepAliveAck) {
	if p != nil && m.isQuorate(m.now) && m.knowsRevocations(p.id) &&
		ack.Echo.Version == m.claim().Version && ack.Echo.Incarnation == p.id.Incarnation {
		ack.Extends, ack.Hold, p.extended = true, m.timing.givenHold(), p.heard
		if p.id.IsWorker() {
			ack.Hold = m.timing.shorter.HoldTimeout() // it may have other timings
		}
	}
}
