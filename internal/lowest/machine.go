// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"slices"
	"strings"
	"time"
)

// Config configures a Machine.
type Config struct {
	Self    string   // id of this member
	Run     uint64   // greater than in every earlier run of this member
	Members []string // see Observe
	Timing  Timing   // must be valid
}

// Machine is one member of a group. It is not safe for concurrent use. The times passed to it must
// not decrease.
type Machine struct {
	self   string
	run    uint64
	timing Timing

	members []peer // visible members including itself, sorted by id
	seq     uint64 // number of the last message
	term    uint64 // greatest term known

	phase         phase
	leader        leader
	deadline      time.Time // when Advance is due; zero for never
	sampled       []string  // members at the last check while sampling
	graceEnd      time.Time
	campaignStart time.Time

	reason Reason
	send   []Outgoing
}

// phase is what a member is doing.
type phase uint8

const (
	// sampling: the member has just started and waits until its view is stable.
	sampling phase = iota + 1
	// following: the member follows a leader.
	following
	// campaigning: the member has proposed itself and lets lower ids go first.
	campaigning
	// holding: the member has given up leadership and lets others lead for Hold.
	holding
	// leading: the member declares itself.
	leading
	// closed: the member sends and receives nothing.
	closed
)

// peer is what this member knows about another member.
type peer struct {
	id         string
	heard      mark
	heardAt    time.Time // when the newest message left its origin
	proposedAt time.Time // when its last proposal was heard; zero if no proposal counts
	// The times of the first and the latest declaration of the other member while this member leads
	// with a lower id.
	rivalSince, rivalAt time.Time
}

// leader is a known leader. The zero leader means none.
type leader struct {
	id      string
	term    uint64
	mark    mark      // mark of the newest declaration
	heardAt time.Time // when that declaration left its origin
}

// Reason is why a term ended.
type Reason uint8

// The reasons.
const (
	// Superseded: another member leads, which has a lower id or does not receive the messages of this
	// member.
	Superseded Reason = iota + 1
	// Yielded: the member gave up leadership.
	Yielded
	// Expired: the member was suspended for so long that others consider it lost.
	Expired
	// Closed: the member left the group.
	Closed
)

// New returns a member that has just started.
func New(now time.Time, cfg Config) *Machine {
	m := &Machine{self: cfg.Self, run: cfg.Run, timing: cfg.Timing, phase: sampling}
	m.Observe(now, cfg.Members)
	m.sampled = m.memberIDs()
	m.deadline, m.graceEnd = now.Add(m.timing.Sample), now.Add(m.timing.Grace)
	return m
}

// Raise makes later terms of this member greater than the given one, unless that is above maxTerm.
func (m *Machine) Raise(term uint64) {
	if term <= maxTerm {
		m.term = max(m.term, term)
	}
}

// Leader returns the known leader and its term, or "".
func (m *Machine) Leader() (id string, term uint64) { return m.leader.id, m.leader.term }

// Leads reports whether this member leads.
func (m *Machine) Leads() bool { return m.phase == leading }

// Reason returns why the last term of this member ended.
func (m *Machine) Reason() Reason { return m.reason }

// Deadline returns when Advance is due; zero for never.
func (m *Machine) Deadline() time.Time { return m.deadline }

// Sent returns the messages to send, in order, and removes them.
func (m *Machine) Sent() []Outgoing {
	out := m.send
	m.send = nil
	return out
}

// Observe sets the visible members; ids may omit this member. Messages from other members are
// dropped. A leader that disappears from the view is lost.
func (m *Machine) Observe(now time.Time, ids []string) {
	if slices.EqualFunc(ids, m.members, func(id string, p peer) bool { return id == p.id }) {
		return // the common case: ids are sorted
	}
	ids = slices.Clone(ids)
	if !slices.Contains(ids, m.self) {
		ids = append(ids, m.self)
	}
	slices.Sort(ids)
	members := make([]peer, len(ids))
	for i, id := range ids {
		members[i].id = id
		if p := m.findPeer(id); p != nil {
			members[i] = *p
		}
	}
	had := m.findPeer(m.leader.id) != nil
	m.members = members
	if m.phase == following && had && m.findPeer(m.leader.id) == nil {
		m.startCampaign(now)
	}
}

// Advance does what is due at the given time.
func (m *Machine) Advance(now time.Time) {
	if m.deadline.IsZero() || now.Before(m.deadline) {
		return
	}
	switch m.phase {
	case sampling:
		m.sampleMembers(now)
	case following, holding: // the leader is silent, or no member took over
		m.startCampaign(now)
	case campaigning:
		if m.wasSuspended(now) { // other members may have completed their campaigns
			m.startCampaign(now)
			return
		}
		m.startLeading(now)
	case leading:
		if m.wasSuspended(now) { // the others consider this leader lost
			m.stepDown(Expired)
			m.startCampaign(now)
			return
		}
		m.declareLeader(now)
	case closed:
	}
}

// wasSuspended reports whether the given time is so late that the state of this member is outdated.
func (m *Machine) wasSuspended(now time.Time) bool {
	return !m.deadline.IsZero() && now.Sub(m.deadline) >= m.timing.Alive/2
}

// Yield gives up leadership if this member leads in the given term.
func (m *Machine) Yield(now time.Time, term uint64) {
	if m.phase != leading || m.leader.term != term {
		return
	}
	m.announce(Resignation, "")
	m.stepDown(Yielded)
	m.phase, m.deadline = holding, now.Add(m.timing.Hold)
}

// Close leaves the group permanently.
func (m *Machine) Close() {
	if m.phase == leading {
		m.announce(Resignation, "")
		m.stepDown(Closed)
	}
	m.phase, m.leader, m.deadline = closed, leader{}, time.Time{}
}

// sampleMembers starts a campaign once two successive samples are equal or Grace is over.
func (m *Machine) sampleMembers(now time.Time) {
	seen := m.memberIDs()
	if slices.Equal(seen, m.sampled) || !now.Before(m.graceEnd) {
		m.startCampaign(now)
		return
	}
	m.sampled = seen
	m.deadline = now.Add(m.timing.Sample)
	if m.deadline.After(m.graceEnd) {
		m.deadline = m.graceEnd
	}
}

// startCampaign proposes this member to all.
func (m *Machine) startCampaign(now time.Time) {
	m.phase, m.leader, m.campaignStart = campaigning, leader{}, now
	m.announce(Proposal, "")
	m.deadline = m.campaignEnd()
}

// campaignEnd returns when this member starts to lead, unless it hears of a leader before. This is
// at least half of Campaign after it proposed itself, and later if more members have lower ids. If
// a member with a lower id proposed itself too, half of Campaign is added.
func (m *Machine) campaignEnd() time.Time {
	half := m.timing.Campaign / 2
	rank := m.rank()
	at := m.campaignStart.Add(half + half*time.Duration(rank+1)/time.Duration(len(m.members)))
	competes := func(p peer) bool { return m.campaignStart.Sub(p.proposedAt) <= m.timing.Campaign }
	if slices.ContainsFunc(m.members[:rank], competes) {
		return at.Add(half)
	}
	return at
}

// startLeading starts a term.
func (m *Machine) startLeading(now time.Time) {
	m.term++
	m.phase = leading
	m.leader = leader{id: m.self, term: m.term}
	m.declareLeader(now)
}

func (m *Machine) declareLeader(now time.Time) {
	m.announce(Declaration, "")
	m.deadline = now.Add(m.timing.Alive / 2)
}

// stepDown ends a term. The caller sets the next phase.
func (m *Machine) stepDown(why Reason) { m.reason, m.leader = why, leader{} }

// announce sends a message of this member to one member, or to all if the given id is empty.
func (m *Machine) announce(k Kind, to string) {
	term := m.term
	if m.phase == leading { // other members may know a greater term
		term = m.leader.term
	}
	m.seq++
	m.send = append(m.send, Outgoing{To: to, Message: Message{
		Kind: k, Member: m.self, Run: m.run, Seq: m.seq, Term: term,
	}})
}

// memberIDs returns the ids of the visible members.
func (m *Machine) memberIDs() []string {
	ids := make([]string, len(m.members))
	for i, p := range m.members {
		ids[i] = p.id
	}
	return ids
}

// findPeer returns the entry of a visible member, or nil.
func (m *Machine) findPeer(id string) *peer {
	i, ok := slices.BinarySearchFunc(m.members, id, func(p peer, id string) int {
		return strings.Compare(p.id, id)
	})
	if !ok {
		return nil
	}
	return &m.members[i]
}

// rank returns the number of members with lower ids.
func (m *Machine) rank() int {
	return slices.IndexFunc(m.members, func(p peer) bool { return p.id == m.self })
}
