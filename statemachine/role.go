// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// All changes of the machine's role are in this file. Each function sets everything that belongs to
// the role it enters. In a role without an x in this table, a call is a bug in this package and
// panics:
//
//	in the role        seeking  following  provisional  leading    enters
//	becomeJoiner          x         x           x                  seeking
//	forgetLeader                    x                              seeking
//	endLeadership                               x          x       seeking
//	becomeNewRun          x         x           x                  seeking
//	becomeUnraised        x         x           x                  seeking
//	becomeStopped         x         x           x          x       seeking
//	becomeFollower        x         x           x                  following
//	becomeProvisional     x                                        provisional
//	becomeLeader          x         x           x          x       leading
//
// A provisional leader with a held roster may follow or join a chosen leader directly, because its
// members learn of that leader by themselves. A chosen leader must end its leadership first, unless
// it was elected again for a later version.

// setRole enters a role. It panics unless the current role is one of those given.
func (m *Machine) setRole(to member.Role, from ...member.Role) {
	if !slices.Contains(from, m.role) {
		panic(fmt.Sprintf("statemachine: a node in role %v cannot enter role %v", m.role, to))
	}
	m.role = to
}

// claim returns the claim of the leader that this node follows, or its own; zero if it seeks one.
func (m *Machine) claim() member.Claim {
	switch m.role {
	case member.Following:
		return m.follow.claim
	case member.Provisional:
		return member.Claim{Version: m.soft.Version, Leader: m.self.Address}
	case member.Leading:
		return m.durable.Held.Claim()
	case member.Seeking:
	}
	return member.Claim{}
}

// becomeJoiner leaves the current leader to ask the leader of c for a place. The node keeps the
// state of a provisional leader until it follows another leader, so it has missed nothing if it
// returns to the same one.
func (m *Machine) becomeJoiner(c member.Claim) {
	if m.claim().Chosen {
		m.isolation.noChosenSince = m.now // the node leaves that leader
	}
	m.setRole(member.Seeking, member.Seeking, member.Following, member.Provisional)
	m.lead = leaderState{}
	m.join.widenAt, m.join.turnAt, m.join.askedAllAt = time.Time{}, time.Time{}, time.Time{}
	if m.join.target != c {
		m.join.firstAskedAt = m.now
	}
	m.join.target, m.join.lastAskedAt, m.join.mustWait = c, m.now, false
	m.join.leaderNamedAt = m.now
}

// forgetLeader stops following the leader. It sends nothing.
func (m *Machine) forgetLeader() {
	left := m.claim()
	m.setRole(member.Seeking, member.Following)
	if left.Chosen {
		m.isolation.noChosenSince = m.now
	}
	m.join.suspected = left
	m.soft = member.State{}
}

// endLeadership ends the leadership of this node. It sends nothing: the caller notifies the members
// afterwards, so that the headers of its messages carry no claim.
func (m *Machine) endLeadership() {
	given := m.claim()
	if m.lead.quorate {
		m.trace(Trace{Kind: LostAuthority, Peer: m.self.Address, Version: given.Version})
	}
	m.setRole(member.Seeking, member.Provisional, member.Leading)
	m.lead = leaderState{}
	m.soft = member.State{}
	m.join.suspected = given
	m.endStartWait(m.self, given)
	m.dropAttempt()
	m.isolation.noChosenSince = m.now
}

// becomeNewRun discards everything and makes a new store. It is only for a memory store, which
// would be empty after the next start anyway.
func (m *Machine) becomeNewRun() {
	m.replaceStore(paxos.Acceptor{}, m.self.Incarnation+1)
	m.trace(Trace{Kind: NewRun, Peer: m.self.Address})
}

// replaceStore begins the given run with a new store, which has the given content.
func (m *Machine) replaceStore(a paxos.Acceptor, run uint64) {
	m.setRole(member.Seeking, member.Seeking, member.Following, member.Provisional)
	d := m.durable
	d.Acceptor = a
	d.StoreID, d.Incarnation = m.cfg.NewStore(), run
	m.persist(d)
	m.digest = d.Held.Digest()
	m.self.StoreID, m.self.Incarnation = d.StoreID, d.Incarnation
	m.admitted = false
	m.isolation = isolationState{noChosenSince: m.now}
	m.follow = followerState{}
	m.lead = leaderState{}
	m.records, m.trust = recordState{open: m.records.open}, trustState{}
	m.propose = proposerState{} // its versions and rounds belong to the old cluster
	m.inquiry = inquiryState{}
	m.startWaitEnd = m.now.Add(m.timing.LeaseTimeout)
	m.soft = member.State{}
	m.join = joinState{}
	m.schedule(started)
	// Messages queued in this call are from the run that has ended.
	m.out.Send = nil
}

// becomeStopped stops the machine after this call. The leader state is kept, so that the end of
// its authority is still noted.
func (m *Machine) becomeStopped(err error) {
	m.setRole(member.Seeking,
		member.Seeking, member.Following, member.Provisional, member.Leading)
	m.stopped = true
	m.out.Stop = err
}

// becomeFollower follows the leader of c, whose run is id. If the node follows that leadership
// already, no timer restarts. becomeFollower panics if c is a claim of this node or has a version
// below the held one.
func (m *Machine) becomeFollower(c member.Claim, id member.Identity) {
	if c.IsZero() || c.Leader == m.self.Address || c.Chosen && c.Version < m.heldNumber().Version {
		panic(fmt.Sprintf("statemachine: a node that holds %v cannot follow %v", m.heldNumber(), c))
	}
	m.setRole(member.Following, member.Seeking, member.Following, member.Provisional)
	m.lead = leaderState{}
	if m.follow.claim != c || m.follow.leader != id {
		m.follow = followerState{leader: id, claim: c}
		m.soft = member.State{}
		if c.Chosen && m.heldNumber().Version == c.Version {
			// The state arrived before the node began to follow its leader.
			m.follow.healthyAt = m.now
		}
	}
	m.follow.since = m.now
	m.endSearch()
	if c.Chosen {
		// A late vote must not bind this node above the leader that it follows: it would be silent.
		m.dropAttempt()
		m.isolation = isolationState{}
		m.noteLeadership(c.Leader)
	}
	m.trace(Trace{Kind: Follows, Peer: c.Leader, Version: c.Version, Chosen: c.Chosen})
	m.answerAskers()
	if m.shownState().Version == c.Version {
		m.sendKeepAlive()
	} else {
		// The leader's state is on the way, and this node has nothing to show until it arrives.
		m.follow.sentAt = m.now
	}
}

// becomeProvisional starts to lead with a state that no voters have chosen. (S) A provisional
// leader is never healthy and gets no support (protocol.md 4).
func (m *Machine) becomeProvisional(s member.State) {
	m.setRole(member.Provisional, member.Seeking)
	m.soft = s
	m.startLead(s.Roster)
	m.trace(Trace{Kind: BecameProvisional, Peer: m.self.Address})
	m.announceToSeeds()
	m.answerAskers()
}

// becomeLeader starts to lead the held state, which must name this run as its leader. All members
// count as heard now. former is the previous leader, if acks of the leaders before it no longer
// extend the trust in its records; otherwise zero.
func (m *Machine) becomeLeader(former member.Identity) {
	s := m.durable.Held
	if s.LeaderIdentity() != m.self {
		panic(fmt.Sprintf("statemachine: %v cannot lead under the held state %v of %v",
			m.self, s.Number, s.LeaderIdentity()))
	}
	m.setRole(member.Leading,
		member.Seeking, member.Following, member.Provisional, member.Leading)
	m.soft = member.State{}
	m.startLead(s.Roster)
	m.lead.former = former
	m.updateOwners(member.State{}, s)
	m.isolation = isolationState{}
	// The members learn of this leader from LeaderElected.
	m.lead.heartbeatAt = m.now.Add(m.timing.heartbeatPause())
	m.trace(Trace{Kind: BecameLeader, Peer: m.self.Address})
	m.noteLeadership(m.self.Address)
	m.answerAskers()
}

// startLead does what every new leader does, chosen or provisional.
func (m *Machine) startLead(r member.Roster) {
	m.follow = followerState{}
	m.dropAttempt()
	m.propose.Failures = 0
	m.endSearch()
	m.lead = leaderState{
		since: m.now, heartbeatAt: m.now, traitsAt: m.now.Add(m.timing.stateInterval(len(r))),
	}
	for _, e := range r {
		if e.Address != m.self.Address {
			m.lead.ensurePeer(e.Identity).heard = m.now
		}
	}
}

// Check returns an error if one of the machine's own invariants does not hold. Tests and the
// simulator call it after every step. The simulator checks invariants that concern several nodes.
func (m *Machine) Check() error {
	d := m.durable
	switch {
	case m.stopped:
		return nil
	case d.Accepted.ID.Compare(d.Promised) > 0:
		return fmt.Errorf("accepted %v is above the promise %v", d.Accepted.ID, d.Promised)
	case !d.Accepted.IsZero() && d.Accepted.ID.Version <= d.Held.Version:
		return fmt.Errorf("accepted %v was not dropped although %v is held", d.Accepted.ID, d.Held.Number)
	case !d.Held.Roster.IsSorted():
		return fmt.Errorf("roster of %v is not sorted", d.Held.Number)
	case len(d.Held.Roster) > m.cfg.Size:
		return fmt.Errorf("roster of %v has %d entries, Size is %d",
			d.Held.Number, len(d.Held.Roster), m.cfg.Size)
	case m.digest != d.Held.Digest():
		return fmt.Errorf("digest of %v is stale", d.Held.Number)
	case len(m.lead.waiting) > m.cfg.Size || len(m.join.askers) > 2*m.cfg.Size:
		return fmt.Errorf("%d joiners wait and %d nodes asked: one of these lists exceeds its limit",
			len(m.lead.waiting), len(m.join.askers))
	}
	return m.checkRole()
}

func (m *Machine) checkRole() error {
	c, held := m.claim(), m.durable.Held
	switch m.role {
	case member.Following:
		if c.IsZero() || c.Leader == m.self.Address {
			return fmt.Errorf("the node has role following, but its leader is %v", c)
		}
		if c.Chosen && c.Version < held.Version {
			return fmt.Errorf("the node follows %v, but holds the later state %v", c, held.Number)
		}
	case member.Leading:
		if held.LeaderIdentity() != m.self {
			return fmt.Errorf("the node leads, but holds %v of %v", held.Number, held.LeaderIdentity())
		}
	case member.Seeking, member.Provisional:
	}
	return nil
}
