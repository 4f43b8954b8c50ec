// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"slices"
	"time"
)

// Config is what a Machine begins with.
type Config struct {
	Self    string   // id of the member, as others find it in their members
	Run     uint64   // greater than in each earlier run of this member
	Members []string // as Observe tells them
	Timing  Timing   // a valid one
}

// Machine is one member of a group. It is not safe for concurrent use. Times that it is
// given must not go back.
type Machine struct {
	self   string
	run    uint64
	timing Timing

	members []peer // those that it sees, sorted by id, itself among them
	seq     uint64 // of what it said last
	term    uint64 // the greatest that it heard of or led

	phase    phase
	leader   leader
	deadline time.Time // when the phase wants to be looked at again; zero: never
	sampled  []string  // the members when it last looked, while it samples
	graceEnd time.Time
	began    time.Time // of this campaign

	reason Reason
	send   []Outgoing
}

// phase is what a member does. Just one of them at a time.
type phase uint8

const (
	// sampling: it has just started and waits for its view to settle.
	sampling phase = iota + 1
	// following: it knows a leader.
	following
	// campaigning: it has proposed itself, and waits for those who come first.
	campaigning
	// holding: it gave leadership up, and waits for Hold for somebody to take it.
	holding
	// leading: it declares.
	leading
	// closed: it says and hears nothing any more.
	closed
)

// peer is a member as this one knows it.
type peer struct {
	id       string
	heard    mark
	heardAt  time.Time // when that would have been heard at its source
	proposed time.Time // when its last proposal was heard; zero: none that counts
	// Since when it has declared although this one leads and is lower, and the last time
	// that it did.
	insists, insisted time.Time
}

// leader is who leads, as far as is known here. The zero leader is none.
type leader struct {
	id    string
	term  uint64
	said  mark      // by its newest declaration
	heard time.Time // when that would have been heard at its source
}

// Reason is why a leadership ended.
type Reason uint8

// The reasons.
const (
	// Superseded says that there is another leader, with a lower id, or one that can
	// not be told.
	Superseded Reason = iota + 1
	// Yielded says that the member gave it up.
	Yielded
	// Expired says that the member stood still for so long that others no longer
	// count on it.
	Expired
	// Closed says that the member left the group.
	Closed
)

// New makes a member that has just started.
func New(now time.Time, cfg Config) *Machine {
	m := &Machine{self: cfg.Self, run: cfg.Run, timing: cfg.Timing, phase: sampling}
	m.Observe(now, cfg.Members)
	m.sampled = m.seen()
	m.deadline, m.graceEnd = now.Add(m.timing.Sample), now.Add(m.timing.Grace)
	return m
}

// Raise makes every later term of this member greater than term. A term above those that
// members accept is ignored.
func (m *Machine) Raise(term uint64) {
	if term <= maxTerm {
		m.term = max(m.term, term)
	}
}

// Leader is who leads as far as this member knows, and in which term; "" for nobody.
func (m *Machine) Leader() (id string, term uint64) { return m.leader.id, m.leader.term }

// Leads reports whether this member leads.
func (m *Machine) Leads() bool { return m.phase == leading }

// Reason is why this member led no more when it last did.
func (m *Machine) Reason() Reason { return m.reason }

// Deadline is when Advance has something to do; zero when it has not.
func (m *Machine) Deadline() time.Time { return m.deadline }

// Sent hands over what is to be sent, in this order. Nothing of it needs an answer.
func (m *Machine) Sent() []Outgoing {
	out := m.send
	m.send = nil
	return out
}

// Observe tells which members are seen, this one or not among them. Messages of others
// are dropped. A leader that was seen and is no more leads no more.
func (m *Machine) Observe(now time.Time, ids []string) {
	if slices.EqualFunc(ids, m.members, func(id string, p peer) bool { return id == p.id }) {
		return // as mostly, in the order that is kept here
	}
	ids = slices.Clone(ids)
	if !slices.Contains(ids, m.self) {
		ids = append(ids, m.self)
	}
	slices.Sort(ids)
	members := make([]peer, len(ids))
	for i, id := range ids {
		members[i].id = id
		if p := m.find(id); p != nil {
			members[i] = *p
		}
	}
	had := m.find(m.leader.id) != nil
	m.members = members
	if m.phase == following && had && m.find(m.leader.id) == nil {
		m.campaign(now)
	}
}

// Advance does what was due.
func (m *Machine) Advance(now time.Time) {
	if m.deadline.IsZero() || now.Before(m.deadline) {
		return
	}
	switch m.phase {
	case sampling:
		m.sample(now)
	case following, holding: // the leader is silent, or nobody took the lead
		m.campaign(now)
	case campaigning:
		if m.stoodStill(now) { // others may have passed it
			m.campaign(now)
			return
		}
		m.lead(now)
	case leading:
		if m.stoodStill(now) { // nobody counts on it any more
			m.stepDown(Expired)
			m.campaign(now)
			return
		}
		m.declare(now)
	case closed:
	}
}

// stoodStill reports whether this member comes so late to what was due that what it knew
// counts no more.
func (m *Machine) stoodStill(now time.Time) bool {
	return !m.deadline.IsZero() && now.Sub(m.deadline) >= m.timing.Alive/2
}

// Yield gives up the leadership of a term, no other.
func (m *Machine) Yield(now time.Time, term uint64) {
	if m.phase != leading || m.leader.term != term {
		return
	}
	m.say(Resignation, "")
	m.stepDown(Yielded)
	m.phase, m.deadline = holding, now.Add(m.timing.Hold)
}

// Close leaves the group for good.
func (m *Machine) Close() {
	if m.phase == leading {
		m.say(Resignation, "")
		m.stepDown(Closed)
	}
	m.phase, m.leader, m.deadline = closed, leader{}, time.Time{}
}

// sample goes on once the same members were seen twice in a row, or for long enough.
func (m *Machine) sample(now time.Time) {
	seen := m.seen()
	if slices.Equal(seen, m.sampled) || !now.Before(m.graceEnd) {
		m.campaign(now)
		return
	}
	m.sampled = seen
	m.deadline = earlier(now.Add(m.timing.Sample), m.graceEnd)
}

// campaign proposes this member.
func (m *Machine) campaign(now time.Time) {
	m.phase, m.leader, m.began = campaigning, leader{}, now
	m.say(Proposal, "")
	m.deadline = m.turn()
}

// turn is when this member leads unless it hears a leader: half of Campaign and more
// after it proposed itself, later than whoever is lower. Where one of those has proposed
// itself it is left half of Campaign more, once, whoever comes then.
func (m *Machine) turn() time.Time {
	half := m.timing.Campaign / 2
	rank := m.rank()
	at := m.began.Add(half + half*time.Duration(rank+1)/time.Duration(len(m.members)))
	competes := func(p peer) bool { return m.began.Sub(p.proposed) <= m.timing.Campaign }
	if slices.ContainsFunc(m.members[:rank], competes) {
		return at.Add(half)
	}
	return at
}

// lead begins a leadership.
func (m *Machine) lead(now time.Time) {
	m.term++
	m.phase = leading
	m.leader = leader{id: m.self, term: m.term}
	m.declare(now)
}

func (m *Machine) declare(now time.Time) {
	m.say(Declaration, "")
	m.deadline = now.Add(m.timing.Alive / 2)
}

// stepDown ends a leadership. The caller sets what comes next.
func (m *Machine) stepDown(why Reason) { m.reason, m.leader = why, leader{} }

// say says something of this member, to one or to all where that is empty.
func (m *Machine) say(k Kind, to string) {
	term := m.term
	if m.phase == leading { // that of others may be greater
		term = m.leader.term
	}
	m.seq++
	m.send = append(m.send, Outgoing{To: to, Message: Message{
		Kind: k, Member: m.self, Run: m.run, Seq: m.seq, Term: term,
	}})
}

// seen are the ids of the members.
func (m *Machine) seen() []string {
	ids := make([]string, len(m.members))
	for i, p := range m.members {
		ids[i] = p.id
	}
	return ids
}

// find is what is known of a member, nil where it is none.
func (m *Machine) find(id string) *peer {
	i, ok := slices.BinarySearchFunc(m.members, id, func(p peer, id string) int {
		switch {
		case p.id < id:
			return -1
		case p.id > id:
			return 1
		default:
			return 0
		}
	})
	if !ok {
		return nil
	}
	return &m.members[i]
}

// rank is how many members have lower ids.
func (m *Machine) rank() int {
	return slices.IndexFunc(m.members, func(p peer) bool { return p.id == m.self })
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
