// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Config is what a Machine must know beyond what its store remembers. The
// caller has validated it.
type Config struct {
	Address member.Address
	Name    string
	// Seeds is the list of seeds, sorted, the same on every node. The node is
	// a seed when its address is among them.
	Seeds   []member.Address
	Size    int // N, 1 to member.MaxMembers
	Timings message.Timings
	// JoinOnly keeps a seed that lost its disk from founding and from voting
	// in a founding (protocol.md section 4).
	JoinOnly bool
	// Volatile says that the store forgets everything at the end of the
	// process (protocol.md section 5, restart).
	Volatile bool
	// TrustRefusal ends support as soon as the host of its leader refuses the port
	// (protocol.md section 6, a process that died).
	TrustRefusal bool
	// Rand gives jitter and identifiers; each machine has its own.
	Rand *rand.Rand
}

// Machine is the protocol of one node.
type Machine struct {
	cfg    Config
	timing timing
	quorum int // M
	seeds  uint64
	self   member.Identity
	isSeed bool

	durable paxos.Durable // what is or will be on disk; Held is the held state
	digest  uint64        // of durable.Held
	soft    member.State  // shownState of the provisional leader followed, or the own one
	// admitted is set once a state had a place for this very run of this node.
	admitted bool
	// trustFrom is when the clock was found to have stood still last, in nanoseconds of
	// it; zero for never. (S) Authority and trust in records count from stamps after it.
	trustFrom int64
	// startWaitEnd is when this run may vote for any node (protocol.md section 5).
	startWaitEnd time.Time

	role member.Role
	// leader is the claim of the leader followed, or the own one.
	leader member.Claim

	join      joinState
	follow    followerState
	lead      leaderState
	support   supportState
	inquiry   inquiryState
	propose   proposerState
	isolation isolationState
	operator  operatorState
	records   recordState

	now     time.Time
	out     Output
	dirty   bool // durable changed in this call
	shown   shownView
	stopped bool
}

// shownView is what the last call left visible, to tell what changed.
type shownView struct {
	// self is part of every view. yieldAddress may change nothing else that is shown,
	// and ends the trust in the records of the earlier run.
	self    member.Identity
	role    member.Role
	leader  member.Claim
	number  member.Number
	quorate bool
	changed bool // a member's entry changed in this call
}

// New starts a run of the node. d is what its store holds, StoreID and
// Incarnation already those of this run and saved. The caller calls Advance
// at once: it sends the first queries.
func New(cfg Config, d paxos.Durable, now time.Time) *Machine {
	m := &Machine{
		cfg:     cfg,
		timing:  timing{cfg.Timings},
		quorum:  member.Quorum(cfg.Size),
		seeds:   SeedDigest(cfg.Seeds),
		self:    member.Identity{Address: cfg.Address, StoreID: d.StoreID, Incarnation: d.Incarnation},
		isSeed:  slices.Contains(cfg.Seeds, cfg.Address),
		durable: d,
		digest:  d.Held.Digest(),
		now:     now,
	}
	// (S) protocol.md section 5, restart: the run before this one may have
	// supported a leader until LeaseTimeout from now.
	if cfg.Volatile || !d.Held.IsZero() && d.Held.Leader != cfg.Address {
		m.startWaitEnd = now.Add(cfg.Timings.LeaseTimeout)
	}
	m.isolation.noChosenSince = now
	m.join.nextAt = now
	m.inquiry.nextAt = now
	return m
}

// Step takes one message.
func (m *Machine) Step(now time.Time, in message.Message) Output {
	m.beginCall(now)
	if !m.stopped && m.admit(in) {
		m.dispatch(in)
		// After its flow, because a state tells more than the claim in its header.
		m.handleClaimFrom(in, in.Claim)
	}
	return m.endCall()
}

// Advance does what is due at now. It may be called at any time.
func (m *Machine) Advance(now time.Time) Output {
	m.beginCall(now)
	return m.endCall()
}

func (m *Machine) beginCall(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
	m.out = Output{}
	m.dirty = false
	// A lease that ended meanwhile stays ended, even if an echo comes now.
	m.noteAuthority()
}

// endCall does what is due, whatever the call was, and gathers the effects.
// Authority is noted before too: what it allows may end it, as a handover does.
func (m *Machine) endCall() Output {
	m.noteAuthority()
	m.runFlows()
	m.noteAuthority()
	if m.dirty {
		d := m.durable
		m.out.Persist = &d
	}
	s := shownView{self: m.self, quorate: m.showsQuorate(), number: m.shownState().Number}
	s.role, s.leader = m.shownLeader()
	moved := m.shown.changed
	m.shown.changed = false
	m.out.Changed = moved || s != m.shown
	m.shown = s
	return m.out
}

// flows are what a machine does by itself, in an order in which one may set
// off the next.
var flows = [...]func(*Machine){
	(*Machine).tickLeave,
	(*Machine).tickFollow,
	(*Machine).tickLead,
	(*Machine).tickTable,
	(*Machine).tickSoftSync,
	(*Machine).tickUnresponsive,
	(*Machine).tickJoin,
	(*Machine).tickWiden,
	(*Machine).tickIsolation,
	(*Machine).tickPropose,
	(*Machine).tickInquiry,
	(*Machine).tickFounding,
	(*Machine).tickRecords,
}

// runFlows runs every flow whose time has come.
func (m *Machine) runFlows() {
	for _, flow := range flows {
		if m.stopped {
			return
		}
		flow(m)
	}
}

// Deadline is when Advance must be called next; zero when never.
func (m *Machine) Deadline() time.Time {
	if m.stopped {
		return time.Time{}
	}
	var d deadline
	m.followDeadline(&d)
	m.leadDeadline(&d)
	m.joinDeadline(&d)
	m.isolationDeadline(&d)
	m.electionDeadline(&d)
	m.leaveDeadline(&d)
	m.recordsDeadline(&d)
	return d.at
}

// deadline gathers the earliest of some timers; a zero time is no timer.
type deadline struct{ at time.Time }

func (d *deadline) add(t time.Time) {
	if !t.IsZero() && (d.at.IsZero() || t.Before(d.at)) {
		d.at = t
	}
}

// due reports whether a timer is armed and its time has come.
func (m *Machine) due(t time.Time) bool { return !t.IsZero() && !t.After(m.now) }

// shownState is what the view shows: the state of a provisional leader while one is
// followed, otherwise the held one.
func (m *Machine) shownState() member.State {
	if !m.leader.IsZero() && !m.leader.Chosen {
		return m.soft
	}
	return m.durable.Held
}

// shownLeader is the leader that the view names. It is zero until that leader's state came,
// so that a version is never shown with the leader of another one.
func (m *Machine) shownLeader() (member.Role, member.Claim) {
	s := m.shownState()
	if m.role == member.Following &&
		(s.Leader != m.leader.Leader || s.Version != m.leader.Version) {
		return member.Seeking, member.Claim{}
	}
	return m.role, m.leader
}

// heldNumber is the number of the held state; zero when the node holds nothing.
func (m *Machine) heldNumber() member.Number { return m.durable.Held.Number }

// isVoter reports whether this node has a vote in its held state.
func (m *Machine) isVoter() bool { return m.durable.Held.Roster.IsVoter(m.self.Voter()) }

// View is what the node sees at now. The caller must not change its members: they may be
// those of the state.
func (m *Machine) View(now time.Time) member.View {
	s := m.shownState()
	role, leader := m.shownLeader()
	v := member.View{
		Self:     m.self,
		Role:     role,
		Version:  s.Version,
		Revision: s.Revision,
		Leader:   leader.Leader,
		Members:  s.Roster.Shown(),
	}
	if m.role == member.Leading {
		v.Quorate = m.isQuorate(now)
	} else {
		v.Quorate = m.followsQuorate(now)
	}
	return v
}

// Durable is what the node remembers now; the caller must not change it.
func (m *Machine) Durable() paxos.Durable { return m.durable }

// persist replaces what must be on disk before the output is carried out.
func (m *Machine) persist(d paxos.Durable) {
	m.durable = d
	m.dirty = true
}

// send queues one event. It states what is true of this node now (the send
// rule), so the header is made here.
func (m *Machine) send(to member.Address, body message.Body) {
	if to == m.self.Address || m.stopped {
		return
	}
	m.out.Send = append(m.out.Send, message.Message{
		From: m.self, To: to, Claim: m.leader, Cluster: m.clusterID(), Body: body,
	})
}

// jitter is a random duration below d.
func (m *Machine) jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(m.cfg.Rand.Int64N(int64(d)))
}

// targets lists addresses without doubles and without this node.
func (m *Machine) targets(lists ...[]member.Address) []member.Address {
	var out []member.Address
	for _, list := range lists {
		for _, a := range list {
			if a != m.self.Address && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

func addresses(r member.Roster) []member.Address {
	out := make([]member.Address, len(r))
	for i, m := range r {
		out[i] = m.Address
	}
	return out
}
