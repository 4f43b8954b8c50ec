// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// operatorState records the request of an operator: leave, hand over, or let others lead
// (protocol.md 6, leaving leader and drained).
type operatorState struct {
	drained bool
	leaving bool
	until   time.Time // when a leaving node stops at the latest
	nextAt  time.Time // when to send MemberLeave again
	// successors are proposed instead of this node until handOverUntil, in order of preference. If
	// named is set, only the first successor is proposed; if proven is set, one that hears M voters.
	// proven is set until an attempt fails although it has M votes, and none is refused because of a
	// later ballot.
	successors    []member.Address
	named, proven bool
	save          time.Duration // how long saves of the first successor take
	handOverUntil time.Time
	handOverAt    time.Time // when to propose a successor next
	// refused is set if all successors refused to lead. Then this node leads again.
	refused bool
}

// Errors of Transfer.
var (
	// ErrNotLeader means that the node is not a chosen leader.
	ErrNotLeader = errors.New("statemachine: not the leader")
	// ErrNotActive means that the successor is drained, never leads, or is not an active member.
	ErrNotActive = errors.New("statemachine: not an active member that may lead")
)

// Leave starts to leave the cluster in an orderly way. When the node has left, after LeaderTimeout
// at the latest, Output.Stop is ErrLeft. A second call has no effect.
func (m *Machine) Leave(now time.Time) Output {
	m.beginCall(now)
	if !m.stopped && !m.operator.leaving {
		m.operator.leaving = true
		m.operator.until = m.now.Add(m.timing.LeaderTimeout)
		m.operator.nextAt = m.now
		m.giveUp(m.findSuccessors(member.Address{}), false)
	}
	return m.endCall()
}

// giveUp ends the leadership of this node, if any.
func (m *Machine) giveUp(successors []member.Address, stays bool) {
	switch m.role {
	case member.Leading:
		m.handOver(successors, stays)
	case member.Provisional:
		m.stepDown(member.Claim{}, CauseHandOver)
	case member.Seeking, member.Following:
	}
}

// StopLeading stops the machine of a node that ends without leaving. If the node leads, it frees
// its followers, which then elect another leader. The caller must end its terms first, and must
// have saved the version that it leads. Output.Stop is ErrStopped.
func (m *Machine) StopLeading(now time.Time) Output {
	m.beginCall(now)
	if !m.stopped {
		m.giveUp(nil, true)
		m.becomeStopped(ErrStopped)
	}
	return m.endCall()
}

// Transfer hands leadership to the member at the given address, or to any suitable member if it is
// zero. If that member does not vote within HeartbeatInterval, another member is elected instead.
// Transfer returns ErrNotLeader or ErrNotActive.
func (m *Machine) Transfer(now time.Time, to member.Address) (Output, error) {
	m.beginCall(now)
	if m.stopped || m.role != member.Leading {
		return m.endCall(), ErrNotLeader
	}
	able := m.findSuccessors(to)
	e, _ := m.durable.Held.Roster.Find(to)
	if len(able) == 0 || !to.IsZero() && !m.maySucceed(e) {
		return m.endCall(), ErrNotActive
	}
	m.handOver(able, true)
	m.operator.named = !to.IsZero()
	return m.endCall(), nil
}

// ReleaseSeats makes the leader remove seats of members that left until its roster has the given
// number of entries, or until no such seat is left because a joiner got the seat, as long as it
// leads. done reports whether either has happened and every member that did not leave holds that
// state. The error is ErrNotLeader if the node does not lead.
func (m *Machine) ReleaseSeats(now time.Time, keep int) (out Output, done bool, err error) {
	m.beginCall(now)
	if m.stopped || m.role != member.Leading {
		return m.endCall(), false, ErrNotLeader
	}
	m.lead.keep = keep
	s := m.durable.Held
	done = m.isCommitted() &&
		(len(s.Roster) <= keep || !slices.ContainsFunc(s.Roster, isSeat))
	for _, e := range s.Roster {
		p := m.lead.peer(e.Address)
		done = done && (p == nil || isSeat(e) || p.number.Compare(s.Number) >= 0)
	}
	return m.endCall(), done, nil
}

// Drain asks the node to let other nodes lead for the rest of this run. A leader hands over as soon
// as there is a successor. The node stands for election only if no other node stands.
func (m *Machine) Drain(now time.Time) Output {
	m.beginCall(now)
	m.operator.drained = true
	return m.endCall()
}

// Prefer sets the preference of this node for the rest of this run, and undoes Drain. A leader that
// becomes a witness hands over as soon as there is a successor.
func (m *Machine) Prefer(now time.Time, p member.Preference) Output {
	m.beginCall(now)
	m.operator.drained = false
	m.traits.Preference = p
	m.shown.changed = true
	if p == member.NeverLeads && m.role != member.Leading &&
		slices.Contains(m.propose.Attempt.Candidates, m.self.Address) {
		m.dropAttempt()
	}
	return m.endCall()
}

// SetLabels sets the labels of this node for the rest of this run.
func (m *Machine) SetLabels(now time.Time, l member.Labels) Output {
	m.beginCall(now)
	m.traits.Labels = l
	m.shown.changed = true
	return m.endCall()
}

// Traits returns the traits of this node. The leader may not have published them yet.
func (m *Machine) Traits() member.Traits { return m.traits }

// yields reports whether this node is drained or a witness, so that other members should lead.
func (m *Machine) yields() bool {
	return m.operator.drained || m.traits.Preference == member.NeverLeads
}

// drainLeader hands leadership over if this node is drained or a witness.
func (m *Machine) drainLeader() {
	if m.yields() && m.role == member.Leading && m.isHealthy() {
		if able := m.findSuccessors(member.Address{}); len(able) > 0 {
			m.handOver(able, true)
		}
	}
}

// handOverToPreferred hands leadership over to a more preferred member, if this is configured.
func (m *Machine) handOverToPreferred() {
	if to, _ := m.findPreferred(); !to.IsZero() && m.isQuorate(m.now) && m.mayChange() {
		m.handOver(m.findSuccessors(to), true)
		m.operator.named = true
		m.noteLeadership(to)
	}
}

// findPreferred returns the most preferred member to which this leader should hand over, or the
// time at which one may qualify.
func (m *Machine) findPreferred() (to member.Address, at time.Time) {
	var d deadline
	best := m.traits.Preference
	for _, e := range m.durable.Held.Roster {
		at := m.preferredAt(e)
		switch p := m.lead.peer(e.Address); {
		case at.After(m.now):
			d.add(at)
		case !at.IsZero() && e.Preference > best && m.hearsQuorum(p) &&
			m.now.Sub(p.heard) < m.timing.livelySilence():
			best, to = e.Preference, e.Address
		}
	}
	return to, d.at
}

// preferredAt returns from when on this leader should hand over to the member e because of its
// preference; zero for never. The member must have been active for some time, because a member that
// keeps failing must not lead again and again.
func (m *Machine) preferredAt(e member.Member) time.Time {
	if m.cfg.HandOverToPreferred == 0 || m.role != member.Leading || m.operator.leaving ||
		e.Preference <= m.traits.Preference || !m.canSucceedNow(e) {
		return time.Time{}
	}
	since := m.lead.peer(e.Address).activeSince
	if since.IsZero() {
		return since
	}
	return latest(since.Add(m.cfg.HandOverToPreferred), m.findSetback(e.Address).until)
}

// offersTo reports whether this leader would hand over to a member that does not hear M voters. The
// member then asks the voters.
func (m *Machine) offersTo(a member.Address) bool {
	e, _ := m.durable.Held.Roster.Find(a)
	at := m.preferredAt(e)
	return !at.IsZero() && !at.After(m.now) && !m.hearsQuorum(m.lead.peer(a))
}

// findSuccessors returns the members to which this leader can hand over: first the named one, which
// the caller has checked, then the most preferred. Members with the same preference are sorted by
// the state that they showed, the newest first.
func (m *Machine) findSuccessors(named member.Address) []member.Address {
	var able member.Roster
	for _, e := range m.durable.Held.Roster {
		if e.Address == named || m.canSucceedNow(e) {
			able = append(able, e)
		}
	}
	silences := func(e member.Member) time.Duration { // silent members may be dead
		return m.timing.countSilences(m.now.Sub(m.lead.peer(e.Address).heard))
	}
	slices.SortStableFunc(able, func(a, b member.Member) int {
		switch named {
		case a.Address:
			return -1
		case b.Address:
			return 1
		}
		return cmp.Or(comparePreference(a, b), cmp.Compare(silences(a), silences(b)),
			m.lead.peer(b.Address).number.Compare(m.lead.peer(a.Address).number))
	})
	return addresses(able)
}

// canSucceedNow reports whether this leader can hand over to the member e and has heard e recently.
func (m *Machine) canSucceedNow(e member.Member) bool {
	return m.maySucceed(e) &&
		m.now.Sub(m.lead.peer(e.Address).heard) < m.timing.HeartbeatTimeout
}

// maySucceed reports whether this leader may hand over to a member of the held state: the member is
// active and not drained, and has shown a state of this leadership.
func (m *Machine) maySucceed(e member.Member) bool {
	p := m.lead.peer(e.Address)
	return e.Shown() == member.Active && p != nil && p.follows(e) && !p.drained
}

// handOver ends this leadership, which frees its followers, and then proposes one of the
// successors. The argument stays is true if this node remains a member.
func (m *Machine) handOver(successors []member.Address, stays bool) {
	given := m.claim()
	var to member.Address
	if len(successors) > 0 {
		to = successors[0]
		m.operator.save = m.lead.peer(to).save
	}
	m.trace(Trace{Kind: SteppedDown, Peer: to, Version: given.Version, Cause: CauseHandOver})
	m.endLeadership()
	// As in stepDown, the headers carry no claim.
	for _, e := range m.durable.Held.Roster {
		m.send(e.Address, message.MemberLeave{GivenUp: given, Successor: to, Stays: stays})
	}
	m.schedule(handedOver)
	if to.IsZero() {
		return
	}
	o := &m.operator
	o.successors, o.named, o.proven = successors, false, m.quorum > 2
	o.handOverUntil = m.now.Add(m.timing.LeaderTimeout)
	o.handOverAt = m.now
}

// proposeSuccessor proposes one of the successors. At first it must hear M voters, or it would get
// no authority. This leader and the successor alone are M of three nodes.
func (m *Machine) proposeSuccessor() {
	o := &m.operator
	o.handOverAt = m.now.Add(m.timing.handOverInterval())
	candidates, proven := o.successors, o.proven
	switch {
	case o.named:
		candidates, o.named = candidates[:1], false
	case proven:
		candidates = candidates[:min(len(candidates), message.MaxSuccessors)]
	}
	m.beginElection(proven, candidates...)
}

// asksNamed reports whether this node waits for the answer of a named successor, and could propose
// another.
func (m *Machine) asksNamed() bool {
	a, o := m.propose.Attempt, &m.operator
	return !o.handOverUntil.IsZero() && a.Stage == paxos.Pre &&
		len(a.Candidates) == 1 && len(o.successors) > 1
}

// tickHandOver proposes a successor, or ends the hand-over.
func (m *Machine) tickHandOver() {
	o := &m.operator
	o.refused = o.refused && !m.hasChosenLeader()
	switch {
	case o.handOverUntil.IsZero():
	case m.hasChosenLeader() || m.due(o.handOverUntil) || !m.isVoter():
		m.endHandOver()
	case !m.isProposing() && m.due(o.handOverAt):
		m.proposeSuccessor()
	}
}

// tickLeave sends MemberLeave, and stops a node that has left.
func (m *Machine) tickLeave() {
	o := &m.operator
	switch {
	case !o.leaving:
	case m.hasLeft() || m.due(o.until):
		m.trace(Trace{Kind: Left, Peer: m.self.Address})
		m.becomeStopped(ErrLeft)
	case m.role == member.Following && m.due(o.nextAt):
		o.nextAt = m.now.Add(m.timing.HeartbeatInterval)
		m.send(m.claim().Leader, message.MemberLeave{})
	}
}

// hasLeft reports whether the leader has noted that this node leaves, or whether there is no leader
// to ask and no hand-over.
func (m *Machine) hasLeft() bool {
	if m.role != member.Following {
		return m.role == member.Seeking && m.operator.handOverUntil.IsZero()
	}
	e, _ := m.durable.Held.Roster.Find(m.self.Address)
	return m.claim().Chosen && e.Status == member.Leaving && e.Resigned
}

func (m *Machine) endHandOver() {
	m.operator.handOverUntil, m.operator.handOverAt = time.Time{}, time.Time{}
}

// noteRefusals handles an attempt whose candidates all refused to lead, because their traits or a
// drain had not reached this leader. If they are all successors, this node may lead again.
func (m *Machine) noteRefusals(a paxos.Attempt) {
	o := &m.operator
	if o.handOverUntil.IsZero() {
		return // a founding, or an election without a hand-over
	}
	if o.handOverAt = m.now; len(a.Candidates) == len(o.successors) {
		m.endHandOver()
		o.refused = true
		m.schedule(successorsRefused)
	}
}

// hasChosenLeader reports whether this node leads or follows a chosen leader. A provisional leader
// does not end a hand-over: nodes that were cut off may follow one while a successor is being
// proposed (protocol.md 6, leaving leader).
func (m *Machine) hasChosenLeader() bool {
	return m.role == member.Provisional || m.claim().Chosen
}

func (m *Machine) leaveDeadline(d *deadline) {
	d.add(m.operator.handOverUntil)
	if !m.isProposing() {
		d.add(m.operator.handOverAt)
	}
	if m.operator.leaving {
		d.add(m.operator.until)
		if m.role == member.Following {
			d.add(m.operator.nextAt)
		}
	}
}

// onMemberLeave handles MemberLeave from a member that leaves or from a leader that gives up its
// leadership. Such a leader frees the support of its followers and then proposes its successor. If
// it names none, it has stopped, and the followers elect a leader by themselves.
func (m *Machine) onMemberLeave(in message.Message, b message.MemberLeave) {
	if b.GivenUp.IsZero() {
		m.markMemberLeaving(in)
	} else {
		why := leaderHandsOver
		if b.Successor.IsZero() {
			why = leaderEnded
		}
		m.leaveGivenUp(in, b.GivenUp, CauseHandOver, why)
	}
}

// markMemberLeaving changes the status of a member that announced that it leaves.
func (m *Machine) markMemberLeaving(in message.Message) {
	e, ok := m.shownState().Roster.Find(in.From.Address)
	switch {
	case m.role != member.Leading && m.role != member.Provisional:
		m.drop(in, message.ReasonNotLeader)
	case !ok || e.Identity != in.From:
		m.drop(in, message.ReasonUnknownMember)
	case !m.mayChange():
		m.drop(in, message.ReasonLeaderBound)
	case e.Status == member.Leaving && e.Resigned:
		// already marked
	case e.Status == member.Joining:
		m.changeStatuses([]member.Member{leftPlace(e)})
	case m.role == member.Provisional:
		m.changeRoster(m.shownState().Roster.Without(e.Address), member.Address{})
	default:
		e.Status, e.Resigned = member.Leaving, true
		m.changeRoster(m.shownState().Roster.With(e), e.Address)
	}
}
