// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// turn is the step of a node that is being translated.
type turn struct {
	*translator
	*node
	s        steplog.Step
	old, new paxos.Durable
	changed  bool         // the store must contain a decision of this step
	stamped  map[int]bool // indices in Sent of the acks that were added
}

// addActions adds the actions of a node in a step, in an order that the rules allow: received
// messages, its own changes, ends of leaderships, states, votes, and sent messages.
func (t *translator) addActions(q *node, s steplog.Step) {
	u := &turn{translator: t, node: q, s: s, old: q.disk, new: q.disk, stamped: map[int]bool{}}
	if s.Saved != nil {
		u.new = paxos.Durable(*s.Saved)
		u.changed = true
	}
	if u.new.Incarnation != u.old.Incarnation {
		t.emitEntry(renumber, q.n, int64(u.new.Incarnation))
		q.id.Incarnation = u.new.Incarnation
	}
	u.addInput()
	u.addRequest()
	u.addOwnChanges()
	u.addEndedLeaderships()
	u.addState()
	u.addElection()
	u.addVotes()
	if u.changed {
		q.disk = u.new
		t.emitDisk(q, q.disk)
	}
	u.addMessages()
	u.addAuthority()
}

func (u *turn) addInput() {
	if p := u.s.Probe; p != nil && u.trusts {
		u.emitEntry(refused, u.n, u.addRun(p.Leader), int64(p.Version))
	}
	m := u.s.Message
	if m == nil {
		return
	}
	if r := u.acked; r.Voter() == m.From.Voter() && r.Incarnation < m.From.Incarnation {
		u.emitEntry(laterRun, u.n, u.addRun(m.From))
	}
	ignored := isIgnored(u.s, m.Body.Kind())
	if !ignored {
		u.addCluster(*m)
	}
	switch b := m.Body.(type) {
	case message.LeaderKeepAliveAck:
		if ignored {
			return
		}
		if b.Stamp.Version != 0 {
			u.emitEntry(support, u.n, u.addRun(m.From), int64(b.Stamp.Version), b.Stamp.Clock,
				u.countArrival(arrivalKeys(*m)[0]))
			u.acked = m.From
		}
		if b.Extends && b.Echo.Incarnation == u.id.Incarnation {
			u.emitEntry(extended, u.n, u.addRun(m.From), int64(b.Stamp.Version), b.Echo.Clock,
				u.countArrival(arrivalKeys(*m)[1]))
		}
	case message.LeaderKeepAlive:
		if !ignored {
			u.heard[m.From.Address] = m.From
			u.emitEntry(hear, u.n, u.keeps.add(u.writeKeep(*m)), u.countArrival(arrivalKeys(*m)[0]))
		}
	case message.ReJoinCluster:
		u.addFreed(*m, b.GivenUp)
	case message.MemberLeave:
		u.addFreed(*m, b.GivenUp)
	case message.RecordRequest:
		if !ignored {
			u.received = append(u.received, received{m.From, b, m.Claim.Version, false})
		}
	case message.Vote:
		u.addArrivedVote(m.From, b)
	}
}

// addCluster adds that the node handled a message of another cluster than its own. Requests are
// answered with a refusal.
func (u *turn) addCluster(m steplog.Message) {
	switch m.Body.(type) {
	case message.LeaderQuery, message.LeaderStatusQuery, message.JoinClusterRequest:
		return
	}
	if !m.Cluster.IsZero() && m.Cluster != u.disk.Held.Cluster {
		u.emitEntry(seenCluster, u.n, int64(numberOf(u.clusters, m.Cluster)))
	}
}

// addFreed adds an action if the sender of a message has given up its leadership.
func (u *turn) addFreed(m steplog.Message, c member.Claim) {
	if c.Chosen && c.Leader == m.From.Address {
		u.emitEntry(freed, u.n, u.addRun(m.From), int64(c.Version))
	}
}

func (u *turn) addArrivedVote(from member.Identity, b message.Vote) {
	id := u.writeBallot(b.ID)
	switch {
	case b.Stage == message.Pre:
		u.preVotes[id] = append(u.preVotes[id], from)
	case b.Granted:
		u.formalVotes[id] = append(u.formalVotes[id], from)
	}
}

// addRequest adds a request of the application, unless it was refused immediately.
func (u *turn) addRequest() {
	r := u.s.Request
	if r == nil {
		return
	}
	for _, m := range u.s.Sent {
		if b, ok := m.Body.(message.RecordRequest); ok && b.ID == r.ID {
			u.emitEntry(request, u.n, u.requests.add(u.writeRequest(u.id, b, m.Claim.Version)))
			return
		}
	}
	isRefusal := func(a message.RecordResponse) bool {
		return a.ID == r.ID && a.Reason != message.ReasonNone
	}
	held := u.old.Held
	if u.isLeaderOf(held) && !slices.ContainsFunc(u.s.Answers, isRefusal) {
		u.emitEntry(request, u.n, u.requests.add(u.writeRequest(u.id, *r, held.Version)))
		u.received = append(u.received, received{u.id, *r, held.Version, false})
	}
}

// isLeaderOf reports whether this run is the leader of a state.
func (u *turn) isLeaderOf(s member.State) bool { return !s.IsZero() && s.LeaderIdentity() == u.id }

// addOwnChanges adds the revisions that a leader made.
func (u *turn) addOwnChanges() {
	if h := u.new.Held; h.Number != u.old.Held.Number && u.isLeaderOf(h) &&
		h.Version == u.old.Held.Version {
		u.addEarlyAcks()
		u.addRevisions(u.old.Held, h)
		u.old.Held = h
	}
}

// addEarlyAcks adds the acks that were sent before the first revision of the step was announced.
func (u *turn) addEarlyAcks() {
	var acks []int
	for i, m := range u.s.Sent {
		switch b := m.Body.(type) {
		case message.LeaderKeepAliveAck:
			if b.Stamp.Version == u.old.Held.Version {
				acks = append(acks, i)
			}
		case message.MemberStatusUpdate, message.RecordUpdate, message.ClusterAlignment:
			for _, k := range acks {
				u.addStamp(k)
			}
			return
		}
	}
}

// addEndedLeaderships adds the leaderships that ended, after the stamps that were sent before their
// ends.
func (u *turn) addEndedLeaderships() {
	for i, m := range u.s.Sent {
		var c member.Claim
		switch b := m.Body.(type) {
		case message.ReJoinCluster:
			c = b.GivenUp
		case message.MemberLeave:
			if c = b.GivenUp; !b.Stays && !u.done["leave"] {
				u.done["leave"] = true
				u.emitEntry(leave, u.n)
			}
		case message.LeaderKeepAliveAck:
			if b.Stamp.Version != 0 && b.Stamp.Version == u.old.Held.Version {
				u.addStamp(i)
			}
			continue
		}
		k := "free " + c.String()
		if c.Chosen && c.Leader == u.id.Address && !u.done[k] {
			u.done[k] = true
			u.version = 0 // what it relies on is judged again
			u.emitEntry(giveUp, u.n, int64(c.Version))
		}
	}
	for _, v := range u.s.SteppedDown {
		u.version = 0
		u.emitEntry(stepDown, u.n, int64(v))
	}
}

// addStamp adds an ack with a stamp, unless it was added before.
func (u *turn) addStamp(i int) {
	if u.stamped[i] {
		return
	}
	u.stamped[i] = true
	m := u.s.Sent[i]
	b, keys := m.Body.(message.LeaderKeepAliveAck), arrivalKeys(m)
	u.emitEntry(stamp, u.n, u.numberAddress(m.To), b.Stamp.Clock, u.isLost(keys[0]))
	if b.Extends {
		u.emitEntry(extend, u.n, u.addRun(u.heard[m.To]), b.Echo.Clock, u.isLost(keys[1]))
	}
}

// addState adds the state that the node took from a leader or was chosen for.
func (u *turn) addState() {
	for _, m := range u.s.Sent {
		if b, ok := m.Body.(message.LeaderElected); ok {
			u.addWin(u.writeBallot(b.ID))
		}
	}
	h := u.new.Held
	if h.Number == u.old.Held.Number {
		return
	}
	if !u.isLeaderOf(h) {
		u.addTake(h, u.senderOfState())
		return
	}
	first := u.initialState(h)
	u.addTake(first, u.senderOfState())
	if h.Revision > 0 {
		u.addRevisions(first, h)
	}
}

func (u *turn) addTake(s member.State, from member.Address) {
	u.emitEntry(take, u.n, u.states.add(u.writeState(s)), u.numberAddress(from))
}

// senderOfState returns the node that sent the state of this step.
func (u *turn) senderOfState() member.Address {
	if u.s.Message != nil {
		return u.s.Message.From.Address
	}
	return u.id.Address
}

// initialState returns the state for which the node was chosen in this step. If the node died
// before it announced the state, initialState also adds the majority that chose it.
func (u *turn) initialState(h member.State) member.State {
	messages := u.s.Sent
	if m := u.s.Message; m != nil {
		// Another proposer may have finished the election, so that a vote shows its outcome.
		if b, ok := m.Body.(message.Vote); ok && b.State.Version == h.Version {
			return b.State
		}
		messages = append(slices.Clone(messages), *m)
	}
	for _, m := range messages {
		if b, ok := m.Body.(message.LeaderElected); ok && b.State.Version == h.Version {
			return b.State
		}
	}
	var last paxos.Accepted
	for _, v := range u.formal {
		if v.State.Version == h.Version && v.State.LeaderIdentity() == u.id &&
			v.ID.Compare(last.ID) > 0 {
			last = v
		}
	}
	if last.IsZero() {
		if u.trace.Size == 1 {
			u.addLoneElection(h)
		}
		return h
	}
	u.addWin(u.writeBallot(last.ID))
	return last.State
}

// addLoneElection adds the election of a cluster of one node. The election takes a single step, so
// the step neither saves nor sends its ballot.
func (u *turn) addLoneElection(s member.State) {
	id := paxos.ID{Version: s.Version, Ballot: paxos.Ballot{
		Round: 1, Proposer: u.id.Address, Incarnation: u.id.Incarnation, StoreID: u.id.StoreID,
	}}
	v := paxos.Accepted{ID: id, Base: u.old.Held.Number, State: s}
	ballot := u.writeBallot(id)
	u.preVotes[ballot] = []member.Identity{u.id}
	u.formalVotes[ballot] = u.preVotes[ballot]
	u.emitEntry(ask, u.n, u.ballots.add(ballot))
	u.emitEntry(choose, u.n, u.values.add(u.writeValue(v)), u.sets.add(u.writeSet(u.preVotes[ballot])))
	u.addAcceptance(v)
	u.addWin(ballot)
}

func (u *turn) addWin(id string) {
	if k := "win " + id; !u.done[k] {
		u.done[k] = true
		u.emitEntry(win, u.n, u.ballots.add(id), u.sets.add(u.writeSet(u.formalVotes[id])))
	}
}
