// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// electionTrace collects the cause, the steps and the voters of a change of leader from the traces
// of the machine.
type electionTrace struct {
	self    member.Address
	cause   Cause // why the last leader was lost; empty while there is a leader with authority
	rule    string
	before  member.Address // the last leader with authority
	version uint64         // of that leader
	marks   [stepCount]mark
	counted votes // votes of other members for the proposal of this node
	given   votes // vote of this node for the proposal of another member
}

// votes records the members that voted for a leader in one version.
type votes struct {
	version uint64
	leader  member.Address
	from    []member.Address
}

// step is the index of a mark. Steps at the same time are reported in this order.
type step uint8

const (
	stepStarted step = iota
	stepHeard
	stepLost
	stepAsked
	stepProposed
	stepPromised
	stepFormal
	stepVoted
	stepElected
	stepFollowed
	stepCount
)

// stepNames lists the names of the steps; cluster.Step documents them.
var stepNames = [stepCount]string{
	"started", "heard", "lost", "asked", "proposed", "promised", "formal", "voted", "elected",
	"followed",
}

// stepQuorate is the last step of each election.
const stepQuorate = "quorate"

// mark records when a step last occurred.
type mark struct {
	at      time.Time
	version uint64 // version of the proposal; 0 for steps before the proposal
}

func (e *electionTrace) noteStart(self member.Address, now time.Time) {
	e.self, e.cause = self, CauseStart
	e.marks[stepStarted] = mark{at: now}
}

// addTraces adds the traces of one turn.
func (e *electionTrace) addTraces(now time.Time, traces []statemachine.Trace) {
	for _, t := range traces {
		switch t.Kind {
		case statemachine.Suspected, statemachine.Overruled:
			e.noteLoss(now, causes[t.Cause].cause, causes[t.Cause].rule, t.Heard)
		case statemachine.SteppedDown:
			e.noteLoss(now, causes[t.Cause].cause, causes[t.Cause].rule, time.Time{})
		case statemachine.LostAuthority:
			e.noteLoss(now, CauseLeaseLost, "", time.Time{})
		case statemachine.Asking:
			e.marks[stepAsked] = mark{at: now}
		case statemachine.Proposing:
			e.marks[stepProposed], e.counted = mark{now, t.Version}, votes{}
			e.marks[stepFormal], e.marks[stepElected] = mark{}, mark{}
		case statemachine.ProposingFormal:
			e.marks[stepFormal] = mark{now, t.Version}
			e.counted = votes{version: t.Version, leader: t.Peer}
		case statemachine.Counted:
			if t.Stage == message.Formal && t.Version == e.counted.version {
				e.counted.from = append(e.counted.from, t.Peer)
			}
		case statemachine.Voted:
			if t.Stage == message.Pre {
				e.marks[stepPromised] = mark{now, t.Version}
				break
			}
			e.marks[stepVoted] = mark{now, t.Version}
			e.given = votes{t.Version, t.Peer, []member.Address{e.self}}
		case statemachine.Elected:
			e.marks[stepElected] = mark{now, t.Version}
		case statemachine.Follows, statemachine.BecameLeader:
			e.marks[stepFollowed] = mark{now, t.Version}
		default:
		}
	}
}

// noteLoss records that the leader was lost. Only the first cause counts, because later causes
// follow from it.
func (e *electionTrace) noteLoss(now time.Time, cause Cause, rule string, heard time.Time) {
	if e.cause != "" {
		return
	}
	e.cause, e.rule = cause, rule
	e.marks[stepStarted], e.marks[stepAsked] = mark{}, mark{}
	e.marks[stepHeard], e.marks[stepLost] = mark{at: heard}, mark{at: now}
}

// noteLeaderless records that the leader of a view has no authority. If no trace contains the
// cause, either the leader reported its loss of authority, or it was elected again with a later
// version.
func (e *electionTrace) noteLeaderless(now time.Time, view member.View) {
	switch {
	case e.cause != "":
	case view.Leader == e.before && view.Version > e.version:
		e.cause = CauseRaised
	default:
		e.noteLoss(now, CauseLeaseLost, "", time.Time{})
	}
}

// noteQuorate records that the leader of a view has authority.
func (e *electionTrace) noteQuorate(view member.View) {
	e.cause, e.rule, e.before, e.version = "", "", view.Leader, view.Version
}

// finishElection returns the change of leader that is now complete, and clears the trace.
func (e *electionTrace) finishElection(now time.Time, l Leader) Election {
	end := Election{
		Cause: e.cause, Rule: e.rule, Version: l.Version, Leader: l.Address, Before: e.before,
		Ended: now,
	}
	if end.Before == end.Leader && (end.Cause == "" || end.Cause == CauseOutvoted) {
		end.Cause = CauseRaised
	}
	end.Cause = cmp.Or(end.Cause, CauseOutvoted) // this node never missed the leader
	for _, v := range []votes{e.counted, e.given} {
		if v.version == end.Version && v.leader == end.Leader {
			end.Voters = append(end.Voters, v.from...)
		}
	}
	slices.SortFunc(end.Voters, member.Address.Compare)
	end.Voters = slices.Compact(end.Voters)
	end.Steps = e.listSteps(now, end.Version)
	e.marks, e.counted, e.given = [stepCount]mark{}, votes{}, votes{}
	return end
}

// listSteps returns the steps of the election of the given version, which is now complete.
func (e *electionTrace) listSteps(now time.Time, version uint64) []Step {
	first := now
	var seen []Step
	for i, m := range e.marks {
		if m.at.IsZero() || m.version != 0 && m.version != version {
			continue
		}
		if m.at.Before(first) {
			first = m.at
		}
		seen = append(seen, Step{stepNames[i], time.Duration(m.at.UnixNano())})
	}
	seen = append(seen, Step{stepQuorate, time.Duration(now.UnixNano())})
	for i := range seen {
		seen[i].After -= time.Duration(first.UnixNano())
	}
	slices.SortStableFunc(seen, func(a, b Step) int { return cmp.Compare(a.After, b.After) })
	return seen
}
