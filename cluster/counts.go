// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"sync"

	"github.com/athena-go/athena/internal/histogram"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Counts are what a node counted since its start, for monitoring. What never occurred
// is 0, and not there where its keys are names, addresses or Transitions.
type Counts struct {
	// Elections counts those that this node saw: it "won", it "followed" another, or
	// its own proposal "failed", after which there may be another one.
	Elections map[string]uint64
	// Proposals counts those of this node by stage and how each ended.
	Proposals map[Proposal]uint64
	// Votes counts the answers of this node to the proposals of others.
	Votes map[Vote]uint64
	// Conflicts counts leaders left or given up for a better claim, by its rule.
	Conflicts map[string]uint64
	// Missed counts late heartbeats, by who was late: of the leader at its members,
	// of members at the leader. It has members alone.
	Missed map[member.Address]uint64
	// Transitions counts the changes of members that this node saw.
	Transitions map[Transition]uint64
	// Lagged counts how often a reader of Events had lagged.
	Lagged uint64
	// ClockSteps counts how often the wall clock was set forward, after which this node had
	// no authority and trusted no record until that was confirmed.
	ClockSteps uint64
	// Elected are how long this node had no leader at each change of leader, but at
	// its start.
	Elected histogram.Durations
	// Saved are how long the store took to save.
	Saved histogram.Durations
	// Requests counts those that this node made, by type and outcome.
	Requests map[Requested]uint64
}

// Proposal is a proposal at a stage, and how that ended: "won", "lost", or
// "overtaken" by another election.
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

// tally keeps the Counts. The zero tally is ready.
type tally struct {
	saved   histogram.Histogram
	elected histogram.Histogram

	mu     sync.Mutex
	counts Counts
	open   message.Stage // of the own proposal under way; 0 for none
}

// count adds one to what a map has for a key.
func count[K comparable](m *map[K]uint64, key K) {
	if *m == nil {
		*m = map[K]uint64{}
	}
	(*m)[key]++
}

// traced counts the decisions of one turn.
func (c *tally) traced(traces []statemachine.Trace) {
	if len(traces) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range traces {
		if rule := causes[t.Cause].rule; rule != "" {
			count(&c.counts.Conflicts, rule)
		}
		switch t.Kind {
		case statemachine.Proposing:
			c.propose(resultOvertaken, message.Pre)
		case statemachine.ProposingFormal:
			c.propose(resultWon, message.Formal)
		case statemachine.Elected:
			c.propose(resultWon, 0)
		case statemachine.GaveUpProposal:
			c.propose(resultLost, 0)
			count(&c.counts.Elections, resultFailed)
		case statemachine.Follows:
			c.propose(resultOvertaken, 0)
		case statemachine.Voted:
			count(&c.counts.Votes, Vote{t.Stage.String(), true})
		case statemachine.Refused:
			if t.Event == message.KindProposal {
				count(&c.counts.Votes, Vote{t.Stage.String(), false})
			}
		case statemachine.Missed:
			count(&c.counts.Missed, t.Peer)
		default:
		}
	}
}

// propose ends the own proposal under way, if there is one, and begins the next
// stage; 0 for none. The tally is locked.
func (c *tally) propose(result string, next message.Stage) {
	if c.open != 0 {
		count(&c.counts.Proposals, Proposal{c.open.String(), result})
	}
	c.open = next
}

// happened counts what the events of one turn tell of members.
func (c *tally) happened(events []Event) {
	if len(events) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		m, ok := e.(MemberChanged)
		if !ok {
			continue
		}
		if m.Before.Status != m.Member.Status {
			count(&c.counts.Transitions, Transition{m.Before.Status, m.Member.Status})
		}
		if m.Member.Status == member.Removed {
			delete(c.counts.Missed, m.Member.Address) // or it would grow with every address
		}
	}
}

// stepped counts a step of the wall clock.
func (c *tally) stepped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.ClockSteps++
}

// ended counts a change of leader.
func (c *tally) ended(e Election, self member.Address) {
	if e.Cause != CauseStart {
		c.elected.Observe(e.Took)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	result := resultFollowed
	if e.Leader == self {
		result = resultWon
	}
	count(&c.counts.Elections, result)
}

// withZeros is a copy of m in which each of keys is.
func withZeros[K comparable](m map[K]uint64, keys ...K) map[K]uint64 {
	out := make(map[K]uint64, len(keys))
	for _, key := range keys {
		out[key] = 0
	}
	maps.Copy(out, m)
	return out
}

func (c *tally) report() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	var proposals []Proposal
	var votes []Vote
	for _, stage := range []message.Stage{message.Pre, message.Formal} {
		for _, result := range []string{resultWon, resultLost, resultOvertaken} {
			proposals = append(proposals, Proposal{stage.String(), result})
		}
		votes = append(votes, Vote{stage.String(), true}, Vote{stage.String(), false})
	}
	out := Counts{
		Elections:   withZeros(c.counts.Elections, resultWon, resultFollowed, resultFailed),
		Proposals:   withZeros(c.counts.Proposals, proposals...),
		Votes:       withZeros(c.counts.Votes, votes...),
		Conflicts:   withZeros(c.counts.Conflicts, everyRule...),
		Missed:      maps.Clone(c.counts.Missed),
		Transitions: maps.Clone(c.counts.Transitions),
		ClockSteps:  c.counts.ClockSteps,
		Elected:     c.elected.Read(),
		Saved:       c.saved.Read(),
	}
	return out
}
