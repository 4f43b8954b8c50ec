// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

// maxElections is the number of changes of leader that a node remembers.
const maxElections = 32

// Election is a change of leader as one node saw it; cluster.Election documents the fields.
// The zero Election means none.
type Election struct {
	Cause   Cause
	Rule    string
	Version uint64
	Leader  member.Address
	Before  member.Address
	Voters  []member.Address
	Steps   []Step
	Took    time.Duration
	Ended   time.Time
}

// Step is one step of an election.
type Step struct {
	Name  string
	After time.Duration // since the first step
}

// IsZero reports whether e is the zero Election.
func (e Election) IsZero() bool { return e.Version == 0 }

// history records and counts the changes of leader in one run.
type history struct {
	mu        sync.Mutex
	elections []Election // the last maxElections, oldest first
	// leaderlessSince is when the leader with authority was lost. It is zero if there is a leader with
	// authority.
	leaderlessSince time.Time
	leaderless      time.Duration // in total, without the time since leaderlessSince
	quorateUntil    time.Time     // of the last turn
	changes         map[Cause]uint64
}

// updateLeader updates the history after a turn. It returns why the last leader was lost, and the
// change of leader that this turn completed, if any.
//
// A leader is lost when its authority ends in the view of this node, which may be before the node
// notices. After a pause of the process, a node counts the pause from then on, even if its first
// turn shows a leader again: if most nodes were paused, no leader had their support.
func (h *history) updateLeader(t Turn, trace *electionTrace) (Cause, Election) {
	h.mu.Lock()
	defer h.mu.Unlock()
	view := t.State.View
	if h.leaderlessSince.IsZero() {
		if !view.Quorate {
			h.leaderlessSince = t.Now
			trace.noteLeaderless(t.Now, view)
		}
		if !h.quorateUntil.IsZero() && h.quorateUntil.Before(t.Began) {
			h.leaderlessSince = h.quorateUntil
		}
	}
	h.quorateUntil = t.QuorateUntil
	cause := trace.cause
	var ended Election
	var last Election
	if len(h.elections) > 0 {
		last = h.elections[len(h.elections)-1]
	}
	if t.NewTerm.Version > last.Version {
		ended = trace.finishElection(t.Now, t.NewTerm)
		if !h.leaderlessSince.IsZero() {
			ended.Took = t.Now.Sub(h.leaderlessSince)
		}
		cause = ended.Cause
		if len(h.elections) == maxElections {
			h.elections = slices.Delete(h.elections, 0, 1)
		}
		h.elections = append(h.elections, ended)
		incrementCount(&h.changes, ended.Cause)
	}
	if view.Quorate {
		if !h.leaderlessSince.IsZero() {
			h.leaderless += t.Now.Sub(h.leaderlessSince)
			h.leaderlessSince = time.Time{}
		}
		trace.noteQuorate(view)
	}
	return cause, ended
}

// fillReport sets the fields of r about elections. hasLeader reports whether there is a leader with
// authority now.
func (h *history) fillReport(now time.Time, hasLeader bool, r *Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.elections {
		e.Voters, e.Steps = slices.Clone(e.Voters), slices.Clone(e.Steps)
		r.Elections = append(r.Elections, e)
	}
	r.Leaderless = h.leaderless
	if !h.leaderlessSince.IsZero() {
		r.Leaderless += now.Sub(h.leaderlessSince)
	}
	if !hasLeader {
		r.LeaderlessSince = h.leaderlessSince
		if h.leaderlessSince.IsZero() { // the term has just ended, and its lease will end soon
			r.LeaderlessSince = now
		}
	}
	r.LeaderChanges = copyWithZeros(h.changes, everyCause...)
}
