// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

// maxElections is how many changes of leader a node remembers.
const maxElections = 32

// Election is a change of leader as one node saw it; cluster.Election describes the fields.
// The zero Election is none.
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

func (e Election) copyLists() Election {
	e.Voters, e.Steps = slices.Clone(e.Voters), slices.Clone(e.Steps)
	return e
}

// history remembers the changes of leader of one run, and counts them.
type history struct {
	mu        sync.Mutex
	elections []Election // the last maxElections, the oldest first
	// leaderlessSince is when the node last had no leader with authority; zero while it
	// has one.
	leaderlessSince time.Time
	leaderless      time.Duration // in all, before leaderlessSince
	changes         map[Cause]uint64
}

// updateLeader follows whether there is a leader with authority. It returns why the last one was
// lost, and the change of leader that ended in this turn, zero for none.
func (h *history) updateLeader(t Turn, trace *electionTrace) (Cause, Election) {
	h.mu.Lock()
	defer h.mu.Unlock()
	view := t.State.View
	if h.leaderlessSince.IsZero() && !view.Quorate {
		h.leaderlessSince = t.Now
		trace.noteLeaderless(t.Now, view)
	}
	cause := trace.cause
	var ended Election
	if t.NewTerm.Version > h.lastElection().Version {
		ended = trace.finishElection(t.Now, t.NewTerm)
		if !h.leaderlessSince.IsZero() {
			ended.Took = t.Now.Sub(h.leaderlessSince)
		}
		cause = ended.Cause
		h.addElection(ended)
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

// addElection remembers an election. h.mu must be held.
func (h *history) addElection(e Election) {
	if len(h.elections) == maxElections {
		h.elections = slices.Delete(h.elections, 0, 1)
	}
	h.elections = append(h.elections, e)
	increment(&h.changes, e.Cause)
}

// lastElection is the newest election, zero before the first. h.mu must be held.
func (h *history) lastElection() Election {
	if len(h.elections) == 0 {
		return Election{}
	}
	return h.elections[len(h.elections)-1]
}

// fillReport fills in the part of a Report about elections; leads reports whether there is a
// leader with authority now.
func (h *history) fillReport(now time.Time, leads bool, r *Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.elections {
		r.Elections = append(r.Elections, e.copyLists())
	}
	r.Leaderless = h.leaderless
	if !h.leaderlessSince.IsZero() {
		r.Leaderless += now.Sub(h.leaderlessSince)
	}
	if !leads {
		r.LeaderlessSince = h.leaderlessSince
		if h.leaderlessSince.IsZero() { // the term has ended, and the lease is about to
			r.LeaderlessSince = now
		}
	}
	r.LeaderChanges = withZeros(h.changes, everyCause...)
}
