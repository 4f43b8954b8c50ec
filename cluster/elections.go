// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

// MaxElections is how many changes of leader a node remembers.
const MaxElections = 32

// Election is a change of leader as this node saw it; the zero Election is none.
type Election struct {
	Cause   Cause  // why there was no leader
	Rule    string // of CauseConflict, else empty
	Version uint64 // of the new leader
	Leader  member.Address
	Before  member.Address // the leader before; zero where this node followed none
	// Voters are the members of which this node knows that they voted for the new
	// leader, sorted. The node that proposed it, mostly the leader itself, knows a
	// majority; another one at most its own vote.
	Voters []member.Address
	// Steps are what this node saw on the way, in the order of time.
	Steps []Step
	Took  time.Duration // without a quorate leader, as this node saw it
	Ended time.Time
}

// Step is one step of an election.
type Step struct {
	Name  string        // one of the constants Step...
	After time.Duration // the first step
}

// Names of steps. A node sees some of them, the last two always.
const (
	StepStarted  = "started"  // this node
	StepHeard    = "heard"    // the last word of the leader before
	StepLost     = "lost"     // this node follows, or leads, no more
	StepAsked    = "asked"    // whether the others miss the leader too
	StepProposed = "proposed" // this node asked for promises (pre)
	StepFormal   = "formal"   // a majority promised, this node asked for votes
	StepPromised = "promised" // this node promised to another
	StepVoted    = "voted"    // this node voted for the proposal of another
	StepElected  = "elected"  // this node counted a majority of votes
	StepFollowed = "followed" // this node follows the leader, or leads
	StepQuorate  = "quorate"  // the leader has a lease, as this node knows
)

// IsZero reports whether e is none.
func (e Election) IsZero() bool { return e.Version == 0 }

func (e Election) clone() Election {
	e.Voters, e.Steps = slices.Clone(e.Voters), slices.Clone(e.Steps)
	return e
}

// elections remembers the changes of leader of one run, and counts them.
type elections struct {
	why why // of the loop alone

	mu   sync.Mutex
	list []Election // the last MaxElections, the oldest first
	// since is when the node last had no quorate leader; zero while it has one.
	since      time.Time
	leaderless time.Duration // before since
	changes    map[Cause]uint64
}

func (es *elections) start(self member.Address, now time.Time) {
	es.since = now
	es.why.start(self, now)
}

// leads follows whether there is a quorate leader; began is the tenure that just
// began, nil for none. It returns the cause of what changed, and whether
// a change of leader ended.
func (es *elections) leads(now time.Time, view member.View, began *tenure) (Cause, bool) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.since.IsZero() && !view.Quorate {
		es.since = now
		es.why.leaderless(now, view)
	}
	cause := es.why.cause
	ended := began != nil && began.token > es.last().Version
	if ended {
		e := es.why.election(now, began)
		if !es.since.IsZero() {
			e.Took = now.Sub(es.since)
		}
		cause = e.Cause
		es.add(e)
	}
	if view.Quorate {
		if !es.since.IsZero() {
			es.leaderless += now.Sub(es.since)
			es.since = time.Time{}
		}
		es.why.quorate(view)
	}
	return cause, ended
}

// add remembers an election. The elections are locked.
func (es *elections) add(e Election) {
	if len(es.list) == MaxElections {
		es.list = slices.Delete(es.list, 0, 1)
	}
	es.list = append(es.list, e)
	if es.changes == nil {
		es.changes = map[Cause]uint64{}
	}
	es.changes[e.Cause]++
}

// last is the newest election, zero before the first. The elections are locked.
func (es *elections) last() Election {
	if len(es.list) == 0 {
		return Election{}
	}
	return es.list[len(es.list)-1]
}

func (es *elections) newest() Election {
	es.mu.Lock()
	defer es.mu.Unlock()
	return es.last()
}

// report tells now what monitoring wants to know.
func (es *elections) report(now time.Time, s *Status) {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, e := range es.list {
		s.Elections = append(s.Elections, e.clone())
	}
	s.LastElection = es.last().clone()
	s.Leaderless = es.leaderless
	if !es.since.IsZero() {
		s.Leaderless += now.Sub(es.since)
	}
	if s.Token == 0 {
		s.LeaderlessSince = es.since
		if es.since.IsZero() { // the term has ended, and the lease is about to
			s.LeaderlessSince = now
		}
	}
	s.LeaderChanges = withZeros(es.changes, everyCause...)
}
