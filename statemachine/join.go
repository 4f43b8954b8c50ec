// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// askForPlace leaves the current leader and asks the leader of c for a place.
func (m *Machine) askForPlace(c member.Claim) {
	m.becomeJoiner(c)
	if m.operator.leaving && m.operator.handOverUntil.IsZero() {
		return // tickLeave stops this node
	}
	m.schedule(placeAsked)
	m.trace(Trace{Kind: Joining, Peer: c.Leader, Version: c.Version})
	m.send(c.Leader, message.JoinClusterRequest{
		Name:  m.cfg.Name,
		Seed:  m.isSeed,
		Held:  m.heldNumber(),
		Bound: m.durable.Least(),

		Traits: m.traits,
		Runs:   m.runs,
	})
}

// onJoinResponse follows the leader that accepted, or acts on the reason of a refusal.
func (m *Machine) onJoinResponse(in message.Message, b message.JoinClusterResponse) {
	c := in.Claim
	switch b.Reason {
	case message.ReasonRestored:
		m.onRestored(in, b.Known)
		return
	case message.ReasonLaterState:
		m.onLaterState(in, b.Known)
		return
	case message.ReasonRunJump:
		if m.wasRaised() && (m.isAsked(in.From.Address) || m.isSeedAt(in.From.Address)) {
			m.becomeUnraised()
			return
		}
	}
	if m.role != member.Seeking || !b.Accepted && in.From.Address != m.join.target.Leader {
		m.drop(in, message.ReasonNotJoining)
		return
	}
	switch {
	case b.Accepted && c.Leader != in.From.Address:
		m.drop(in, message.ReasonOtherLeader)
	case b.Accepted && !m.isTrustedSender(in):
		m.drop(in, message.ReasonUnknownMember)
	case b.Accepted && c.Chosen && c.Version < m.heldNumber().Version:
		m.drop(in, message.ReasonOtherVersion)
	case b.Accepted && c.Chosen && c.Version < m.durable.Least():
		m.drop(in, message.ReasonBound)
	case b.Accepted && c.Chosen && m.heldOfAnother(c.Version, in.From):
		m.drop(in, message.ReasonOtherLeader)
	case b.Accepted:
		m.becomeFollower(c, in.From)
	case b.Reason == message.ReasonOldIncarnation:
		m.resolveAddressConflict(c, b.Known)
	case b.Reason == message.ReasonNotSettled || b.Reason == message.ReasonClusterFull,
		b.Reason == message.ReasonQuorumAtStake || b.Reason == message.ReasonAddressHeld:
		// The leader has queued the request.
		m.join.mustWait = true
	default:
		m.join.refused = m.join.target
		m.join.target = member.Claim{}
		m.handleClaimFrom(in, c)
	}
}

// joiner is a node that asked for a place. If the node has to wait, the joiner is kept until its
// next request is due.
type joiner struct {
	member.Member // without a status
	held          member.Number
	bound         uint64
	at            time.Time
}

// onJoinRequest gives a node its place in the roster, or refuses with a reason.
func (m *Machine) onJoinRequest(in message.Message, b message.JoinClusterRequest) {
	if m.role != member.Leading && m.role != member.Provisional {
		m.refuse(in, message.ReasonNotLeader)
		m.send(in.From.Address, message.JoinClusterResponse{Reason: message.ReasonNotLeader})
		return
	}
	if m.role == member.Leading && !m.noteBound(in, max(b.Bound, b.Held.Version)) {
		m.send(in.From.Address, message.JoinClusterResponse{Reason: message.ReasonVersionJump})
		return
	}
	entry := member.Member{Identity: in.From, Name: b.Name, Seed: b.Seed, Traits: b.Traits}
	j := joiner{Member: entry, held: b.Held, bound: b.Bound, at: m.now}
	reason := m.assignPlace(j)
	if reason == message.ReasonNone {
		return
	}
	m.refuse(in, reason)
	answer := message.JoinClusterResponse{Reason: reason}
	switch reason {
	case message.ReasonOldIncarnation:
		e, _ := m.shownState().Roster.Find(in.From.Address)
		answer.Known = max(e.Incarnation, m.lead.laterRun(in.From))
	case message.ReasonNotSettled, message.ReasonClusterFull, message.ReasonQuorumAtStake,
		message.ReasonAddressHeld:
		// At most N joiners wait for a place.
		m.lead.waiting = replaceOrAppend(m.lead.waiting, j, m.cfg.Size,
			func(o joiner) bool { return o.Address == j.Address })
	}
	if reason == message.ReasonClusterFull {
		m.traceKeptSeat()
	}
	m.send(in.From.Address, answer)
}

// assignPlace gives j a place if the rules allow it now. Otherwise it returns the reason.
func (m *Machine) assignPlace(j joiner) message.Reason {
	r := m.shownState().Roster
	e, known := r.Find(j.Address)
	switch {
	case !m.mayChange():
		return message.ReasonLeaderBound
	case j.Incarnation > max(m.self.Incarnation+maxRunLead, e.Incarnation+maxRunsBetween):
		return message.ReasonRunJump
	case known && e.StoreID == j.StoreID:
		return m.restorePlace(e, j)
	case known && m.isHeld(e):
		return message.ReasonAddressHeld
	case m.role == member.Provisional:
		return m.assignProvisional(j, known)
	case known && !e.StoreID.IsZero() && j.Incarnation <= e.Incarnation ||
		m.lead.laterRun(j.Identity) != 0:
		return message.ReasonOldIncarnation
	case known && e.IsVoter():
		// The vote of the old store is removed, which is a change of voters.
		if !m.isCommitted() {
			return message.ReasonNotSettled
		}
		if m.hearsEvicted(e.Address) || !m.canSpareVote(e.Address) {
			return message.ReasonQuorumAtStake
		}
		m.acceptJoiner(j, r.With(j.entryAfter(e)), j.Address)
	case known || len(r) < m.cfg.Size:
		m.acceptJoiner(j, r.With(j.entryAfter(e)), j.Address)
	default:
		seat, ok := m.freeSeat(false)
		if !ok {
			return message.ReasonClusterFull
		}
		m.trace(Trace{Kind: MemberMoved, Peer: seat, Status: member.None})
		m.acceptJoiner(j, r.Without(seat).With(j.entryAfter(e)), member.Address{})
	}
	return message.ReasonNone
}

// hearsEvicted reports whether the process of another voter than that at a, whose place went to
// another store, was heard within TTLTimeout. It has not lost its store, so addresses lead to wrong
// processes, and a second vote must not be given up for the same mistake.
func (m *Machine) hearsEvicted(a member.Address) bool {
	return slices.ContainsFunc(m.lead.evicted, func(o evictedVoter) bool {
		return o.voter.Address != a && !o.heard.IsZero() &&
			m.now.Sub(o.heard) < m.timing.TTLTimeout
	})
}

// dropEvicted drops the voters that have their places again, and those without a place of another
// store at their address that have been silent for TTLTimeout: the list has room for one at each
// address of the roster.
func (m *Machine) dropEvicted() {
	m.lead.evicted = slices.DeleteFunc(m.lead.evicted, func(o evictedVoter) bool {
		e, known := m.shownState().Roster.Find(o.voter.Address)
		return e.Voter() == o.voter || !known && m.now.Sub(o.heard) >= m.timing.TTLTimeout
	})
}

// isHeld reports whether the process of a member was heard within HeartbeatTimeout. Its place then
// goes to no other store: two processes advertise one address, and the member was there first.
func (m *Machine) isHeld(e member.Member) bool {
	p := m.lead.peer(e.Address)
	return e.Address == m.self.Address ||
		p != nil && !e.StoreID.IsZero() && p.id == e.Identity && !e.Resigned &&
			m.now.Sub(p.heard) < m.timing.HeartbeatTimeout
}

// entryAfter returns the first entry of j, which gets the place of before. If a store had a vote
// there, the entry is Gone: the address keeps the seat even if j is lost before it has a vote.
func (j joiner) entryAfter(before member.Member) member.Member {
	j.Status, j.Gone = member.Joining, before.IsVoter() || before.Gone
	return j.Member
}

// restorePlace handles a node that returns with its store and so keeps its seat and its vote
// (protocol.md 3).
func (m *Machine) restorePlace(e member.Member, j joiner) message.Reason {
	if j.Incarnation < e.Incarnation ||
		e.Resigned && j.Incarnation == e.Incarnation {
		return message.ReasonOldIncarnation
	}
	next := e
	next.Identity, next.Name, next.Seed, next.Traits = j.Identity, j.Name, j.Seed, j.Traits
	if e.IsVoter() {
		next.Status, next.Resigned = member.Active, false
	}
	if next != e {
		m.acceptJoiner(j, m.shownState().Roster.With(next), j.Address)
		return message.ReasonNone
	}
	m.send(j.Address, message.JoinClusterResponse{Accepted: true})
	p := m.lead.ensurePeer(j.Identity)
	p.heard = m.now
	if !m.wasJustAligned(p) {
		m.alignMember(p)
	}
	return message.ReasonNone
}

// assignProvisional gives j a place under a provisional leader. If the leader holds a roster, it
// admits only members of that roster. Otherwise it keeps a place for every configured seed
// (protocol.md 4).
func (m *Machine) assignProvisional(j joiner, known bool) message.Reason {
	r := m.soft.Roster
	switch {
	case !m.heldNumber().IsZero() && !known:
		return message.ReasonNotMember
	case !m.heldNumber().IsZero():
		// The vote belongs to another store, which a soft state cannot change.
		return message.ReasonNotSettled
	case !j.held.IsZero():
		return message.ReasonHoldsState
	case !known && !slices.Contains(m.cfg.Seeds, j.Address) &&
		len(r) >= m.cfg.Size-m.missingSeeds():
		return message.ReasonClusterFull
	}
	j.Status = member.Active
	m.acceptJoiner(j, r.With(j.Member), j.Address)
	return message.ReasonNone
}

func (m *Machine) missingSeeds() int {
	n := 0
	for _, s := range m.cfg.Seeds {
		if _, ok := m.soft.Roster.Find(s); !ok {
			n++
		}
	}
	return n
}

// acceptJoiner makes the revision that gives j its place. It sends the acceptance first, so that j
// knows the sender of the state when the state arrives.
func (m *Machine) acceptJoiner(j joiner, r member.Roster, about member.Address) {
	if e, known := m.shownState().Roster.Find(j.Address); known &&
		e.StoreID != j.StoreID && !e.StoreID.IsZero() {
		m.trace(Trace{Kind: Replaced, Peer: j.Address})
		if e.IsVoter() {
			m.dropEvicted()
			m.lead.evicted = replaceOrAppend(m.lead.evicted, evictedVoter{voter: e.Voter()}, m.cfg.Size,
				func(o evictedVoter) bool { return o.voter.Address == e.Address })
		}
	}
	if m.role == member.Provisional && j.bound <= paxos.MaxFloor+1 {
		m.lead.boundSeen = max(m.lead.boundSeen, j.bound) // for the founding
	}
	m.send(j.Address, message.JoinClusterResponse{Accepted: true})
	p := m.lead.ensurePeer(j.Identity)
	p.heard, p.number = m.now, member.Number{}
	m.lead.joinedAt = m.now
	m.changeRoster(r, about)
	// (S) Records that j lost with an earlier place are not tracked here, so j must show this
	// revision before its trust is extended again.
	p.revoked = m.shownState().Number
	// (S) An earlier extension may still apply to records that j sets in this place.
	p.extended = m.now
}
