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
	held     time.Time // until then it leaves leadership to others; zero: it need not
	declared time.Time // its last declaration to all
	rival    rival

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
	// holding: it gave leadership up, and waits for somebody to take it.
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
	proposed time.Time // when its proposal was heard; zero: none that counts
}

// leader is who leads, as far as is known here. The zero leader is none.
type leader struct {
	id    string
	term  uint64
	said  mark      // by its newest declaration
	heard time.Time // when that would have been heard at its source
}

// rival is a higher leader that declares although this one does.
type rival struct {
	id          string
	since, last time.Time
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
	ids = slices.Clone(ids)
	if !slices.Contains(ids, m.self) {
		ids = append(ids, m.self)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
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
	case following: // the leader is silent
		m.campaign(now)
	case holding:
		m.campaign(now)
	case campaigning:
		m.lead(now)
	case leading:
		m.leadOn(now)
	case closed:
	}
}

// Yield gives up the leadership of a term, no other.
func (m *Machine) Yield(now time.Time, term uint64) {
	if m.phase != leading || m.leader.term != term {
		return
	}
	m.stepDown(Yielded)
	m.say(Resignation, "")
	m.held = now.Add(m.timing.Hold)
	m.phase, m.deadline = holding, m.held
}

// Close leaves the group for good.
func (m *Machine) Close() {
	if m.phase == leading {
		m.stepDown(Closed)
		m.say(Resignation, "")
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

// campaign proposes this member, where it need not leave leadership to others.
func (m *Machine) campaign(now time.Time) {
	m.leader = leader{}
	if now.Before(m.held) {
		m.phase, m.deadline = holding, m.held
		return
	}
	m.held = time.Time{}
	m.phase, m.began = campaigning, now
	for i := range m.members { // what is older was of an earlier campaign
		if p := &m.members[i]; now.Sub(p.proposed) > m.timing.Campaign {
			p.proposed = time.Time{}
		}
	}
	m.say(Proposal, "")
	m.deadline = m.turn()
}

// turn is when this member leads unless it hears a leader: half of Campaign and more
// after it proposed itself, and later than whoever is lower and did so.
func (m *Machine) turn() time.Time {
	place := m.timing.Campaign / 2 * time.Duration(m.rank()+1) / time.Duration(len(m.members))
	at := m.began.Add(m.timing.Campaign/2 + place)
	for _, p := range m.members[:m.rank()] {
		if p.proposed.IsZero() {
			continue
		}
		if after := p.proposed.Add(m.timing.Campaign + place); after.After(at) {
			at = after
		}
	}
	return at
}

// lead begins a leadership.
func (m *Machine) lead(now time.Time) {
	m.term++
	m.phase, m.rival = leading, rival{}
	m.leader = leader{id: m.self, term: m.term}
	m.declare(now)
}

// leadOn declares again. A member that stood still for so long that nobody counts on it
// any more asks who leads.
func (m *Machine) leadOn(now time.Time) {
	if now.Sub(m.declared) >= m.timing.Alive {
		m.stepDown(Expired)
		m.campaign(now)
		return
	}
	m.declare(now)
}

func (m *Machine) declare(now time.Time) {
	m.say(Declaration, "")
	m.declared = now
	m.deadline = now.Add(m.timing.Alive / 2)
}

// stepDown ends a leadership. The caller sets what comes next.
func (m *Machine) stepDown(why Reason) {
	m.reason, m.leader, m.rival = why, leader{}, rival{}
}

// say says something of this member, to one or to all where that is empty.
func (m *Machine) say(k Kind, to string) {
	m.seq++
	m.send = append(m.send, Outgoing{To: to, Message: Message{
		Kind: k, Member: m.self, Run: m.run, Seq: m.seq, Term: m.term,
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
