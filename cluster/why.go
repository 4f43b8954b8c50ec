// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// why gathers from the traces of the machine what will be told of a change of leader:
// its cause, its steps, and who voted.
type why struct {
	self   member.Address
	cause  Cause // the first since there was a quorate leader; empty while there is one
	rule   string
	before member.Address // the last quorate leader
	// version is that in which it led.
	version uint64
	marks   [steps]mark
	votes   votes // counted by this node
	voted   votes // by this node for the proposal of another
}

// votes are votes for one leader of one version.
type votes struct {
	version uint64
	leader  member.Address
	from    []member.Address
}

// step is the index of a mark, in the order in which steps of one time are told.
type step uint8

const (
	atStarted step = iota
	atHeard
	atLost
	atAsked
	atProposed
	atPromised
	atFormal
	atVoted
	atElected
	atFollowed
	steps
)

var stepNames = [steps]string{
	StepStarted, StepHeard, StepLost, StepAsked, StepProposed, StepPromised, StepFormal, StepVoted,
	StepElected, StepFollowed,
}

// mark is when a step was last taken; version is that of the proposal, 0 for steps
// before there is one.
type mark struct {
	at      time.Time
	version uint64
}

func (w *why) start(self member.Address, now time.Time) {
	w.self, w.cause = self, CauseStart
	w.marks[atStarted] = mark{at: now}
}

// traced takes the decisions of one turn.
func (w *why) traced(now time.Time, traces []statemachine.Trace) {
	for _, t := range traces {
		switch t.Kind {
		case statemachine.Suspected, statemachine.Overruled:
			w.lose(now, causes[t.Cause].cause, causes[t.Cause].rule, t.Heard)
		case statemachine.SteppedDown:
			w.lose(now, causes[t.Cause].cause, causes[t.Cause].rule, time.Time{})
		case statemachine.LostAuthority:
			w.lose(now, CauseLeaseLost, "", time.Time{})
		case statemachine.Asking:
			w.marks[atAsked] = mark{at: now}
		case statemachine.Proposing:
			w.marks[atProposed], w.votes = mark{now, t.Version}, votes{}
			w.marks[atFormal], w.marks[atElected] = mark{}, mark{}
		case statemachine.ProposingFormal:
			w.marks[atFormal] = mark{now, t.Version}
			w.votes = votes{version: t.Version, leader: t.Peer}
		case statemachine.Counted:
			if t.Stage == message.Formal && t.Version == w.votes.version {
				w.votes.from = append(w.votes.from, t.Peer)
			}
		case statemachine.Voted:
			w.vote(now, t)
		case statemachine.Elected:
			w.marks[atElected] = mark{now, t.Version}
		case statemachine.Follows, statemachine.BecameLeader:
			w.marks[atFollowed] = mark{now, t.Version}
		default:
		}
	}
}

// lose notes that the leader was lost. The first cause counts: what comes after it
// follows from it.
func (w *why) lose(now time.Time, cause Cause, rule string, last time.Time) {
	if w.cause != "" {
		return
	}
	w.cause, w.rule = cause, rule
	w.marks[atStarted], w.marks[atAsked] = mark{}, mark{}
	w.marks[atHeard], w.marks[atLost] = mark{at: last}, mark{at: now}
}

// leaderless notes that a leader has no authority, where no trace said so: it says it
// itself, or had itself elected to a later version.
func (w *why) leaderless(now time.Time, view member.View) {
	switch {
	case w.cause != "":
	case view.Leader == w.before && view.Version > w.version:
		w.cause = CauseRaised
	default:
		w.lose(now, CauseLeaseLost, "", time.Time{})
	}
}

// quorate notes that there is a leader with authority.
func (w *why) quorate(view member.View) {
	w.cause, w.rule, w.before, w.version = "", "", view.Leader, view.Version
}

func (w *why) vote(now time.Time, t statemachine.Trace) {
	if t.Stage == message.Pre {
		w.marks[atPromised] = mark{now, t.Version}
		return
	}
	w.marks[atVoted] = mark{now, t.Version}
	w.voted = votes{t.Version, t.Peer, []member.Address{w.self}}
}

// election is what was gathered of the change that ends with the tenure t.
func (w *why) election(now time.Time, t *tenure) Election {
	e := Election{
		Cause:   w.cause,
		Rule:    w.rule,
		Version: t.token,
		Leader:  t.leader.Address,
		Before:  w.before,
		Ended:   now,
	}
	if e.Before == e.Leader && (e.Cause == "" || e.Cause == CauseOutvoted) {
		e.Cause = CauseRaised
	}
	e.Cause = cmp.Or(e.Cause, CauseOutvoted) // it never was without a leader
	for _, v := range []votes{w.votes, w.voted} {
		if v.version == e.Version && v.leader == e.Leader {
			e.Voters = append(e.Voters, v.from...)
		}
	}
	slices.SortFunc(e.Voters, member.Address.Compare)
	e.Voters = slices.Compact(e.Voters)
	e.Steps = w.steps(now, e.Version)
	w.marks, w.votes, w.voted = [steps]mark{}, votes{}, votes{}
	return e
}

// steps lists what was seen of the election of a version, which ends now.
func (w *why) steps(now time.Time, version uint64) []Step {
	first := now
	var seen []Step
	for i, m := range w.marks {
		if m.at.IsZero() || m.version != 0 && m.version != version {
			continue
		}
		if m.at.Before(first) {
			first = m.at
		}
		seen = append(seen, Step{stepNames[i], time.Duration(m.at.UnixNano())})
	}
	seen = append(seen, Step{StepQuorate, time.Duration(now.UnixNano())})
	for i := range seen {
		seen[i].After -= time.Duration(first.UnixNano())
	}
	slices.SortStableFunc(seen, func(a, b Step) int { return cmp.Compare(a.After, b.After) })
	return seen
}
