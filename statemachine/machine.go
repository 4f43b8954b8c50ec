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

// Config configures a Machine. The caller must have validated it.
type Config struct {
	Address member.Address
	Name    string
	// Seeds is the sorted list of seeds, the same on every node. The node is a seed if its
	// address is in the list.
	Seeds   []member.Address
	Size    int // N, 1 to member.MaxMembers
	Timings message.Timings
	// OtherTimings are accepted in addition to Timings, while an operator changes the timings of one
	// node after the other; zero for none (protocol.md 8, two sets of timings).
	OtherTimings message.Timings
	// JoinOnly keeps the node from starting a founding and from voting in one (protocol.md 4). A
	// seed that lost its disk needs it.
	JoinOnly bool
	// Volatile is set if the store does not survive the process (protocol.md 5, restart).
	Volatile bool
	// LastRun is the incarnation that the store held before this run; 0 if it is a new store. Clock is
	// the wall clock at the start of this run, in milliseconds since 1970.
	LastRun, Clock uint64
	// TrustRefusal ends support for a leader as soon as its host refuses the port (protocol.md 6,
	// a process that died).
	TrustRefusal bool
	// Traits are the node's preference and labels. Prefer and SetLabels change them for this run.
	Traits member.Traits
	// HandOverToPreferred is how long a more preferred member must be active before this node, as the
	// leader, hands over to it; 0 disables this (protocol.md 6, preference).
	HandOverToPreferred time.Duration
	// SeatTimeout is how long the seat of a member that left or was lost is kept for it. Then a node
	// with another address may get the seat.
	SeatTimeout time.Duration
	// Rand is the source of jitter and identifiers. Each machine must have its own Rand.
	Rand *rand.Rand
	// NewStore makes the key of a new store, and returns the id of the store.
	NewStore func() member.StoreID
}

// Machine runs the protocol of one node.
type Machine struct {
	cfg    Config
	timing timing
	quorum int // M
	seeds  uint64
	self   member.Identity
	traits member.Traits
	isSeed bool

	durable   paxos.Durable   // saved before the output of the call is sent
	digest    uint64          // digest of durable.Held
	soft      member.State    // state of the provisional leader, this node or the one it follows
	runs      message.Runs    // for the proof that the store was restored from a copy
	copyFound member.Identity // the last one that was traced
	// laterFound is the greatest version that was found to be later than that of a leader.
	laterFound uint64
	// admitted is set once a state has listed this run of the node.
	admitted bool
	// startWaitEnd is when the wait after the start ends. From then on this run may vote for any node
	// (protocol.md 5, restart).
	startWaitEnd time.Time

	// raisedAt is when a voter last made this node, as the leader, exceed its version.
	raisedAt time.Time

	role      member.Role
	join      joinState
	follow    followerState
	reach     []heardVoter
	ended     []member.Identity // runs that announced the end of the run in the roster
	deferred  message.Message   // pre proposal that waits for the proof of reach; zero for none
	lead      leaderState
	pace      paceState
	support   supportState
	inquiry   inquiryState
	propose   proposerState
	isolation isolationState
	operator  operatorState
	prefer    preferenceState
	records   recordState
	trust     trustState

	worker  bool // this machine is of a worker
	now     time.Time
	out     Output
	dirty   bool // durable changed in this call
	shown   shownView
	stopped bool
}

// shownView is what was visible after the last call. The next call compares the view with it to set
// Output.Changed.
type shownView struct {
	// self is part of every view. resolveAddressConflict may change no other visible field, but it
	// ends the trust in the records of the earlier run.
	self    member.Identity
	role    member.Role
	leader  member.Claim
	number  member.Number
	quorate bool
	changed bool // something else that is visible changed in this call
}

// New returns the Machine of a new run. d is what the store holds. Its StoreID and Incarnation are
// those of this run and must be saved already. The caller then calls Advance, which sends the first
// queries.
func New(cfg Config, d paxos.Durable, now time.Time) *Machine {
	m := &Machine{
		cfg:     cfg,
		timing:  newTiming(cfg.Timings, cfg.OtherTimings),
		quorum:  member.Quorum(cfg.Size),
		seeds:   SeedDigest(cfg.Seeds),
		self:    member.Identity{Address: cfg.Address, StoreID: d.StoreID, Incarnation: d.Incarnation},
		traits:  cfg.Traits,
		isSeed:  slices.Contains(cfg.Seeds, cfg.Address),
		durable: d,
		digest:  d.Held.Digest(),
		now:     now,
	}
	if cfg.LastRun > 0 && !cfg.Volatile {
		m.runs = message.Runs{Last: cfg.LastRun, First: d.Incarnation}
	}
	// (S) The previous run may have supported a leader until LeaseTimeout from now (protocol.md
	// 5, restart).
	if cfg.Volatile || !d.Held.IsZero() && d.Held.Leader != cfg.Address {
		m.startWaitEnd = now.Add(m.timing.LeaseTimeout)
	}
	m.isolation.noChosenSince = now
	m.schedule(started)
	return m
}

// Step handles one message.
func (m *Machine) Step(now time.Time, in message.Message) Output {
	m.beginCall(now)
	if m.worker {
		m.stepWorker(in)
		return m.endCall()
	}
	if !m.stopped && m.admit(in) {
		m.dispatch(in)
		// The claim is handled after the body, because a state carries more than the claim in the header.
		m.handleClaimFrom(in, in.Claim)
	}
	return m.endCall()
}

// Advance does what is due at the given time. It may be called at any time.
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
	// A lease that expired after the last call has ended, even if this call handles a new echo.
	m.noteAuthority()
}

// endCall runs the flows and collects the output. It notes authority before the flows, and again
// after them because a flow such as a hand-over can end it.
func (m *Machine) endCall() Output {
	m.noteAuthority()
	active := flows[:]
	if m.worker {
		active = workerFlows[:]
	}
	for _, flow := range active {
		if !m.stopped {
			flow(m)
		}
	}
	m.noteAuthority()
	if m.dirty && !m.worker {
		d := m.durable
		m.out.Persist = &d
	}
	s := shownView{self: m.self, quorate: m.showsQuorate(m.now), number: m.shownState().Number}
	s.role, s.leader = m.shownLeader()
	changed := m.shown.changed
	m.shown.changed = false
	m.out.Changed = changed || s != m.shown
	m.shown = s
	return m.out
}

// flows are the actions that a machine takes by itself; each checks whether it is due. The flows
// are ordered so that one can trigger the next within a call.
var flows = [...]func(*Machine){
	(*Machine).tickHandOver,
	(*Machine).tickLeave,
	(*Machine).tickDeferred,
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

// workerFlows are the actions of a worker.
var workerFlows = [...]func(*Machine){(*Machine).tickWorker, (*Machine).tickRecords}

// Deadline returns when Advance must be called next; zero for never.
func (m *Machine) Deadline() time.Time {
	if m.stopped {
		return time.Time{}
	}
	var d deadline
	if m.worker {
		m.workerDeadline(&d)
		return d.at
	}
	m.followDeadline(&d)
	m.leadDeadline(&d)
	m.joinDeadline(&d)
	m.isolationDeadline(&d)
	m.electionDeadline(&d)
	m.leaveDeadline(&d)
	m.recordsDeadline(&d)
	return d.at
}

// deadline is the earliest of the times that were added.
type deadline struct{ at time.Time }

// add adds t unless it is zero.
func (d *deadline) add(t time.Time) {
	if !t.IsZero() && (d.at.IsZero() || t.Before(d.at)) {
		d.at = t
	}
}

// addFuture adds t unless it has passed.
func (d *deadline) addFuture(now, t time.Time) {
	if t.After(now) {
		d.add(t)
	}
}

func earliestOf(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

// latest returns the latest of the times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// due reports whether the timer t is armed and has expired.
func (m *Machine) due(t time.Time) bool { return !t.IsZero() && !t.After(m.now) }

// shownState returns the state that the view shows: the provisional leader's state if there is one,
// otherwise the held state.
func (m *Machine) shownState() member.State {
	if c := m.claim(); !c.IsZero() && !c.Chosen {
		return m.soft
	}
	return m.durable.Held
}

// shownLeader returns the role and leader that the view shows. The leader is zero until its state
// has arrived, so that a view never shows a version with the leader of another version.
func (m *Machine) shownLeader() (member.Role, member.Claim) {
	s := m.shownState()
	if m.role == member.Following &&
		(s.Leader != m.claim().Leader || s.Version != m.claim().Version) {
		return member.Seeking, member.Claim{}
	}
	return m.role, m.claim()
}

// heldNumber returns the number of the held state; zero if the node holds none.
func (m *Machine) heldNumber() member.Number { return m.durable.Held.Number }

// isVoter reports whether this node has a vote in its held state.
func (m *Machine) isVoter() bool { return m.durable.Held.Roster.IsVoter(m.self.Voter()) }

// View returns the node's view of the cluster at the given time. The caller must not modify its
// members: they may be shared with the state.
func (m *Machine) View(now time.Time) member.View {
	s := m.shownState()
	role, leader := m.shownLeader()
	return member.View{
		Self:     m.self,
		Role:     role,
		Version:  s.Version,
		Revision: s.Revision,
		Leader:   leader.Leader,
		Quorate:  m.showsQuorate(now),
		Members:  s.Roster.Shown(),
	}
}

// Durable returns what the node must remember across restarts. The caller must not modify the
// result.
func (m *Machine) Durable() paxos.Durable { return m.durable }

// persist sets the durable state, which the owner saves before it applies the rest of the output.
func (m *Machine) persist(d paxos.Durable) {
	m.durable = d
	m.dirty = true
}

// send queues one message. It makes the header now, so that the header is true when the message is
// sent (the send rule of protocol.md 2).
func (m *Machine) send(to member.Address, body message.Body) {
	switch {
	case to == m.self.Address || m.stopped:
		return
	case to.IsObserver():
		m.sendToWorker(to, body)
		return
	}
	m.out.Send = append(m.out.Send, message.Message{
		From: m.self, To: to, Claim: m.claim(), Cluster: m.clusterID(), Body: body,
	})
}

// jitter returns a random duration below d.
func (m *Machine) jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(m.cfg.Rand.Int64N(int64(d)))
}

// targets returns the addresses in all lists without duplicates and without this node's address.
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
