// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// noteRun draws what follows from hearing a run of a peer: an earlier run of
// it is over, and with it its leadership (protocol.md section 5, support).
func (m *Machine) noteRun(from member.Identity) {
	s := &m.support
	if s.leader.Voter() == from.Voter() && from.Incarnation > s.leader.Incarnation {
		*s = supportState{}
	}
	f := &m.follow
	if m.role == member.Following && f.leader.Address == from.Address &&
		from.Incarnation > f.leader.Incarnation && f.leader.Incarnation != 0 {
		m.suspectLeader(Trace{Cause: CauseCrash}, 0)
	}
}

// resolveAddressConflict acts on a run at this address that the leader knows and that is not below
// this one. If this run had its place before, a later run replaced it, and it stops. A new
// run joins again with a greater incarnation: a clock that was set back must not lock a node
// out (protocol.md section 3).
func (m *Machine) resolveAddressConflict(c member.Claim, known uint64) {
	if known < m.self.Incarnation || known > m.self.Incarnation+maxRunJump {
		return
	}
	if m.admitted && known > m.self.Incarnation {
		if c.Chosen {
			m.becomeStopped(ErrAddressInUse)
		}
		return
	}
	// The same number is that of another store, or a late answer to an earlier run.
	d := m.durable
	d.Incarnation = known + 1
	m.persist(d)
	m.self.Incarnation = d.Incarnation
	// Acks that the earlier run got extend nothing (protocol.md section 10, a new run).
	m.records.until = time.Time{}
	m.dropAttempt() // its ballot, and its candidate, are of the run that is over
	m.askForPlace(m.join.target)
}

// isReplaced reports whether a later run at this address has this node's place, so that
// this run must stop (protocol.md section 3).
func (m *Machine) isReplaced(s member.State) bool {
	e, ok := s.Roster.Find(m.self.Address)
	if !ok || e.Incarnation <= m.self.Incarnation {
		return false
	}
	return e.StoreID == m.self.StoreID || m.admitted
}

// endStartWait ends the wait after a start when the leader of the held state has given
// that very leadership up. (S) The wait protects the lease of that leader alone. A lease
// counts only voters that showed its version, so earlier runs of this store made no lease
// of a later version. A leader of an earlier version has no lease since the held one was
// chosen. And a leader that gave up never leads that version again, however late its
// message comes. A memory store waits to the end: it forgot what it held (protocol.md
// section 5, restart).
func (m *Machine) endStartWait(leader member.Identity, given member.Claim) {
	held := m.durable.Held
	if m.cfg.Volatile || given != held.Claim() || leader != held.LeaderIdentity() ||
		!m.now.Before(m.startWaitEnd) {
		return
	}
	m.startWaitEnd = m.now
	m.shown.changed = true
}

// startWaitExcludes reports whether the wait after a start keeps this node from voting
// for a. (S) protocol.md section 5, restart: it may vote for the leader that it
// held, whom alone its earlier run can have supported.
func (m *Machine) startWaitExcludes(a member.Address) bool {
	return m.now.Before(m.startWaitEnd) && (m.cfg.Volatile || m.durable.Held.Leader != a)
}

// VotesAt is when this run may vote for any node (protocol.md section 5, restart); zero if it
// did not have to wait.
func (m *Machine) VotesAt() time.Time { return m.startWaitEnd }

// Owed is what a node may still owe after its last run: for Lease its support to a
// leader, and for Hold after that the trust of owners whose records that leader extended.
// The store keeps it. A run that has begun owes its own LeaseTimeout and HoldTimeout.
type Owed struct {
	Lease, Hold time.Duration
}

// OwedBy is what a run with these timings owes.
func OwedBy(t message.Timings) Owed { return Owed{Lease: t.LeaseTimeout, Hold: t.HoldTimeout()} }

// Wait is how long a run with these timings must wait before it greets another node. It
// votes for nobody during its own LeaseTimeout, and the records of owners end after its own
// HoldTimeout; what the last run owed beyond these is waited for first, and adds up. (S)
// Otherwise, of three nodes, two that restart with shorter timings would elect a leader
// beside that of the third, which cannot tell them of itself because their timings
// differ; and end records that it still extends.
func (o Owed) Wait(t message.Timings) time.Duration {
	return max(0, o.Lease-t.LeaseTimeout) + max(0, o.Hold-t.HoldTimeout())
}

// After is what is owed once d of that wait is over. (S) It is saved in the course of the
// wait: a node that is restarted meanwhile owes the rest.
func (o Owed) After(d time.Duration, t message.Timings) Owed {
	lease := min(d, max(0, o.Lease-t.LeaseTimeout))
	return Owed{Lease: o.Lease - lease, Hold: o.Hold - (d - lease)}
}
