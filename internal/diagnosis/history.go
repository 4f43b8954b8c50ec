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
	mu              sync.Mutex
	elections       []Election    // the last maxElections, oldest first
	leaderlessSince time.Time     // when the leader with authority was lost; zero if there is one
	leaderless      time.Duration // in total, without the time since leaderlessSince
	quorateUntil    time.Time     // of the last turn
	changes         map[Cause]uint64
}

// noteLoss notes after a turn that there is no leader.
//
// A leader is lost when its authority ends in the view of this node, which may be before the node
// notices. After a pause of the process, a node counts the pause from then on, even if its first
// turn shows a leader again: if most nodes were paused, no leader had their support.
func (h *history) noteLoss(t Turn, trace *electionTrace) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leaderlessSince.IsZero() {
		if view := t.State.View; !view.Quorate {
			h.leaderlessSince = t.Now
			trace.noteLeaderless(t.Now, view)
		}
		if !h.quorateUntil.IsZero() && h.quorateUntil.Before(t.Began) {
			h.leaderlessSince = h.quorateUntil
		}
	}
	h.quorateUntil = t.QuorateUntil
}

// noteElection records and returns the election that a turn completed, if any.
func (h *history) noteElection(t Turn, trace *electionTrace) (ended Election) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.elections); n == 0 && t.NewTerm.Version > 0 ||
		n > 0 && t.NewTerm.Version > h.elections[n-1].Version {
		ended = trace.finishElection(t.Now, t.NewTerm)
		if !h.leaderlessSince.IsZero() {
			ended.Took = t.Now.Sub(h.leaderlessSince)
		}
		if len(h.elections) == maxElections {
			h.elections = slices.Delete(h.elections, 0, 1)
		}
		h.elections = append(h.elections, ended)
		incrementCount(&h.changes, ended.Cause)
	}
	if view := t.State.View; view.Quorate {
		if !h.leaderlessSince.IsZero() {
			h.leaderless += t.Now.Sub(h.leaderlessSince)
			h.leaderlessSince = time.Time{}
		}
		trace.noteQuorate(view)
	}
	return ended
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
