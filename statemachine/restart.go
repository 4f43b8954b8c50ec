// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// noteRun handles the run of a peer that sent a message. If the run is later than the known one of
// the same store, the known run and any leadership of that run have ended (protocol.md 5, support).
// A process with another store proves nothing about that run.
func (m *Machine) noteRun(from member.Identity) {
	s := &m.support
	if s.leader.Voter() == from.Voter() && from.Incarnation > s.leader.Incarnation {
		*s = supportState{}
	}
	f := &m.follow
	switch {
	case m.role != member.Following || f.leader.Address != from.Address:
	case f.leader.StoreID != from.StoreID:
		f.replaced = true
	case from.Incarnation > f.leader.Incarnation:
		m.suspectLeader(Trace{Cause: CauseCrash}, leaderLost)
	}
}

// noteEnded records that a later run of a member asked for an answer, but neither for a leader nor
// for a place. So the known run has ended, and the later one may never join: it may only announce
// this (protocol.md 3, an announced end).
func (m *Machine) noteEnded(id member.Identity) {
	r := m.durable.Held.Roster
	m.ended = slices.DeleteFunc(m.ended, func(o member.Identity) bool {
		e, _ := r.Find(o.Address)
		return !endsRun(o, e)
	})
	if e, _ := r.Find(id.Address); !endsRun(id, e) {
		return
	}
	if slices.ContainsFunc(m.ended, func(o member.Identity) bool {
		return o.Voter() == id.Voter() && o.Incarnation >= id.Incarnation
	}) {
		return
	}
	m.ended = replaceOrAppend(m.ended, id, m.cfg.Size, func(o member.Identity) bool {
		return o.Address == id.Address
	})
	if m.role == member.Seeking && m.durable.Held.Leader == id.Address {
		m.schedule(runEnded)
	}
}

// endsRun reports whether a run proves that the run of the member e has ended.
func endsRun(later member.Identity, e member.Member) bool {
	return e.Voter() == later.Voter() && e.Incarnation < later.Incarnation
}

// hasEnded reports whether the end of the run that made a claim was announced. A voter that answers
// with such a claim will learn of it.
func (m *Machine) hasEnded(c member.Claim) bool {
	e, _ := m.durable.Held.Roster.Find(c.Leader)
	return c.Version == m.heldNumber().Version && c.Leader == m.durable.Held.Leader &&
		slices.ContainsFunc(m.ended, func(o member.Identity) bool { return endsRun(o, e) })
}

// findEnded returns the run that announced the end of the member e, if this leader has to show it.
// A new leader first gets authority.
func (m *Machine) findEnded(e member.Member) (later member.Identity, ok bool) {
	if !m.lead.quorate || e.Status != member.Active && e.Status != member.Unreachable {
		return later, false
	}
	i := slices.IndexFunc(m.ended, func(o member.Identity) bool { return endsRun(o, e) })
	if i < 0 || !m.mayChange() {
		return later, false
	}
	return m.ended[i], true
}

// resolveAddressConflict handles a refusal by a leader that knows another run of this address.
// known is the incarnation of that run. If this run had its place already, a later run has replaced
// it, and this run stops. Otherwise it joins again with a greater incarnation, so that a clock that
// was set back does not lock the node out (protocol.md 3). The limit grows with the clock only, so
// a later store at the address can exceed whatever a false leader made this one take.
func (m *Machine) resolveAddressConflict(c member.Claim, known uint64) {
	if known < m.self.Incarnation || known > m.cfg.Clock+maxRunJump {
		return
	}
	if m.admitted && known > m.self.Incarnation {
		if c.Chosen {
			m.becomeStopped(ErrAddressInUse)
		}
		return
	}
	// A run with an equal incarnation has another store, or the refusal answers an earlier run late.
	d := m.durable
	d.Incarnation = known + 1
	m.persist(d)
	m.self.Incarnation = d.Incarnation
	// Acks to the earlier run extend nothing (protocol.md 10, a new run).
	m.trust.until = time.Time{}
	m.dropAttempt() // its ballot and candidate belong to the earlier run
	m.askForPlace(m.join.target)
}

// wasRaised reports whether the number of this run was raised, and its store has accepted and taken
// nothing, so that no cluster needs its vote.
func (m *Machine) wasRaised() bool {
	d := m.durable
	return m.self.Incarnation > m.cfg.Clock && d.Accepted.IsZero() && d.Held.IsZero()
}

// becomeUnraised begins a run with a new store and the number that the clock gives it. A leader
// refused the number of this run, to which a false leader has raised it.
func (m *Machine) becomeUnraised() {
	m.replaceStore(paxos.Acceptor{Floor: m.durable.Floor}, m.cfg.Clock)
}

// isReplaced reports whether a later run at this address has taken this node's place in s, so
// that this run must stop (protocol.md 3).
func (m *Machine) isReplaced(s member.State) bool {
	e, ok := s.Roster.Find(m.self.Address)
	if !ok || e.Incarnation <= m.self.Incarnation {
		return false
	}
	return e.StoreID == m.self.StoreID || m.admitted && !e.StoreID.IsZero()
}

// endStartWait ends the wait after a start once the leader of the held state has given up exactly
// that leadership. (S) The wait protects only the lease of that leader. A lease counts only voters
// that showed the leader's version, so earlier runs of this store supported no lease of a later
// version. A leader of an earlier version has had no lease since the held version was chosen. A
// leader that gave up never leads that version again, however late its message arrives. A node with
// a memory store waits to the end, because it forgets which version it held (protocol.md 5,
// restart).
func (m *Machine) endStartWait(leader member.Identity, given member.Claim) {
	held := m.durable.Held
	if m.cfg.Volatile || given != held.Claim() || leader != held.LeaderIdentity() ||
		!m.now.Before(m.startWaitEnd) {
		return
	}
	m.startWaitEnd = m.now
	m.shown.changed = true
}

// startWaitExcludes reports whether the wait after a start keeps this node from voting for a. (S)
// The node may vote for the leader of its held state, because its earlier run can have supported no
// other (protocol.md 5, restart).
func (m *Machine) startWaitExcludes(a member.Address) bool {
	return m.now.Before(m.startWaitEnd) && (m.cfg.Volatile || m.durable.Held.Leader != a)
}

// VotesAt returns when this run may vote for any node; zero if it did not have to wait
// (protocol.md 5, restart).
func (m *Machine) VotesAt() time.Time { return m.startWaitEnd }

// Owed is what a node's last run may still owe to others. Lease is how long the run may still
// support a leader. Hold begins when Lease ends, and is how long records may still be trusted
// because of that leader. The store saves both. From its start a run owes the longest LeaseTimeout
// that it accepts and its own HoldTimeout.
type Owed struct {
	Lease, Hold time.Duration
}

// OwedBy returns what a run owes whose timings are own and which accepts other; other is zero if it
// accepts no second set. (S) The run supports a leader for the longer of both leases. But a leader
// that this run supported accepts own, and extends records for no longer than each set that it
// accepts.
func OwedBy(own, other message.Timings) Owed {
	return Owed{Lease: own.Longer(other).LeaseTimeout, Hold: own.HoldTimeout()}
}

// Wait returns how long a run that will owe next must wait before it greets another node. This is
// the excess of o.Lease over next.Lease plus the excess of o.Hold over next.Hold. The run's own
// rules cover the rest: it votes for no other leader during next.Lease, and it votes only for
// leaders that accept its timings, which drop records only after next.Hold. (S) Without the wait,
// two of three nodes that restart with shorter timings could not connect to the third, whose
// timings differ. They would elect a second leader, and drop records that their owners still trust
// because of the first leader.
func (o Owed) Wait(next Owed) time.Duration {
	return max(0, o.Lease-next.Lease) + max(0, o.Hold-next.Hold)
}

// Alone returns what the only member of a cluster owes, which holds records. (S) It has granted no
// lease to another member, but workers that own records may trust them for its longer Hold.
func (o Owed) Alone(next Owed, records member.Records) Owed {
	for id := range records.Owners() {
		if id.IsWorker() {
			return Owed{Lease: min(o.Lease, next.Lease), Hold: o.Hold}
		}
	}
	return next
}

// After returns what a run still owes after the first d of that wait. (S) The rest is saved during
// the wait, so that a node that restarts again owes only that rest.
func (o Owed) After(d time.Duration, next Owed) Owed {
	lease := min(d, max(0, o.Lease-next.Lease))
	return Owed{Lease: o.Lease - lease, Hold: o.Hold - (d - lease)}
}
