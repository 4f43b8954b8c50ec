// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"maps"
	"sync"

	"github.com/athena-go/athena/internal/histogram"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Counts holds the counters of a node since its start; cluster.Counts and cluster.Status document
// the fields.
type Counts struct {
	Elections   map[string]uint64
	Proposals   map[Proposal]uint64
	Votes       map[Vote]uint64
	Conflicts   map[string]uint64
	Missed      map[member.Address]uint64
	Transitions map[Transition]uint64
	ClockSteps  uint64
	Replaced    uint64
	Copies      uint64
	Elected     histogram.Durations
	Saved       histogram.Durations
	Dropped     map[string]uint64
	Refused     map[string]uint64
}

// Proposal is the stage of a proposal and its result.
type Proposal struct{ Stage, Result string }

// Vote is an answer to a proposal at a stage.
type Vote struct {
	Stage   string
	Granted bool
}

// Transition is a change of the status of a member.
type Transition struct{ From, To member.Status }

// Results of proposals and elections.
const (
	resultWon       = "won"
	resultLost      = "lost"
	resultOvertaken = "overtaken"
	resultFollowed  = "followed"
	resultFailed    = "failed"
)

// Metrics counts what happens in a node. The zero value is ready for use.
type Metrics struct {
	Saved   histogram.Histogram // durations of saves of the store
	elected histogram.Histogram

	mu     sync.Mutex
	counts Counts        // without its histograms
	open   message.Stage // stage of this node's current proposal; 0 if there is none
}

func incrementCount[K comparable](counts *map[K]uint64, key K) {
	if *counts == nil {
		*counts = map[K]uint64{}
	}
	(*counts)[key]++
}

// addDrop counts a frame that was dropped before it reached the machine.
func (m *Metrics) addDrop(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	incrementCount(&m.counts.Dropped, reason)
}

// AddClockStep counts a forward step of the wall clock.
func (m *Metrics) AddClockStep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.ClockSteps++
}

// addTurn counts what happened in a turn of the event loop. ended is the change of leader that the
// turn completed, if any.
func (m *Metrics) addTurn(
	traces []statemachine.Trace, members []MemberChange, ended Election, self member.Address,
) {
	if len(traces) == 0 && len(members) == 0 && ended.IsZero() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range traces {
		m.addTrace(t)
	}
	for _, c := range members {
		if c.Before.Status != c.After.Status {
			incrementCount(&m.counts.Transitions, Transition{c.Before.Status, c.After.Status})
		}
		if c.After.Status == member.Removed {
			delete(m.counts.Missed, c.After.Address) // otherwise the map would grow with each address
		}
	}
	if ended.IsZero() {
		return
	}
	if ended.Cause != CauseStart {
		m.elected.Observe(ended.Took)
	}
	result := resultFollowed
	if ended.Leader == self {
		result = resultWon
	}
	incrementCount(&m.counts.Elections, result)
}

// addTrace counts one decision of the machine. m.mu must be held.
func (m *Metrics) addTrace(t statemachine.Trace) {
	c := &m.counts
	if rule := causes[t.Cause].rule; rule != "" {
		incrementCount(&c.Conflicts, rule)
	}
	switch t.Kind {
	case statemachine.Dropped:
		incrementCount(&c.Dropped, t.Reason.String())
	case statemachine.Refused:
		incrementCount(&c.Refused, t.Reason.String())
		if t.Event == message.KindProposal {
			incrementCount(&c.Votes, Vote{t.Stage.String(), false})
		}
	case statemachine.Voted:
		incrementCount(&c.Votes, Vote{t.Stage.String(), true})
	case statemachine.Missed:
		incrementCount(&c.Missed, t.Peer)
	case statemachine.Replaced:
		c.Replaced++
	case statemachine.FoundCopy, statemachine.FoundLater:
		c.Copies++
	case statemachine.Proposing:
		m.endProposal(resultOvertaken, message.Pre)
	case statemachine.ProposingFormal:
		m.endProposal(resultWon, message.Formal)
	case statemachine.Elected:
		m.endProposal(resultWon, 0)
	case statemachine.GaveUpProposal:
		m.endProposal(resultLost, 0)
		incrementCount(&c.Elections, resultFailed)
	case statemachine.Follows:
		m.endProposal(resultOvertaken, 0)
	default:
	}
}

// endProposal counts the result of this node's current proposal, if any, and sets the next stage.
// The stage 0 means that there is no proposal. m.mu must be held.
func (m *Metrics) endProposal(result string, next message.Stage) {
	if m.open != 0 {
		incrementCount(&m.counts.Proposals, Proposal{m.open.String(), result})
	}
	m.open = next
}

// copyWithZeros returns a copy of m, with 0 for each of the given keys that m lacks.
func copyWithZeros[K comparable](m map[K]uint64, keys ...K) map[K]uint64 {
	out := make(map[K]uint64, len(keys))
	for _, key := range keys {
		out[key] = 0
	}
	maps.Copy(out, m)
	return out
}

// readCounts returns a copy of all counters.
func (m *Metrics) readCounts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	var proposals []Proposal
	var votes []Vote
	for _, stage := range []message.Stage{message.Pre, message.Formal} {
		for _, result := range []string{resultWon, resultLost, resultOvertaken} {
			proposals = append(proposals, Proposal{stage.String(), result})
		}
		votes = append(votes, Vote{stage.String(), true}, Vote{stage.String(), false})
	}
	c := m.counts
	return Counts{
		Elections:   copyWithZeros(c.Elections, resultWon, resultFollowed, resultFailed),
		Proposals:   copyWithZeros(c.Proposals, proposals...),
		Votes:       copyWithZeros(c.Votes, votes...),
		Conflicts:   copyWithZeros(c.Conflicts, everyRule...),
		Missed:      maps.Clone(c.Missed),
		Transitions: maps.Clone(c.Transitions),
		ClockSteps:  c.ClockSteps,
		Replaced:    c.Replaced,
		Copies:      c.Copies,
		Elected:     m.elected.Read(),
		Saved:       m.Saved.Read(),
		Dropped:     maps.Clone(c.Dropped),
		Refused:     maps.Clone(c.Refused),
	}
}
