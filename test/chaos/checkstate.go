// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/athena-go/athena/member"
)

// number is the number of a state.
type number struct{ version, revision uint64 }

func (n number) compare(o number) int {
	return cmp.Or(cmp.Compare(n.version, o.version), cmp.Compare(n.revision, o.revision))
}

// shownState is a state of a chosen leader.
type shownState struct {
	leader  string
	members []seat
	by      string          // the first node that showed it
	held    map[string]bool // voters that showed it, or a later one of its version
}

// seats checks the states of chosen leaders in the views of nodes. A quorate view, or the view of
// the leader itself, shows the state that the node holds.
type seats struct {
	size    int // of the cluster
	states  map[number]*shownState
	leaders map[uint64]string // by version
	// newest is the latest state that a store showed, by store id.
	newest  map[string]number
	commits int
	cluster string // cluster id of the first state shown
}

func newSeats() *seats {
	return &seats{
		states: map[number]*shownState{}, leaders: map[uint64]string{}, newest: map[string]number{},
	}
}

// onView checks I1, I7, I11 and that a number identifies one state.
func (s *seats) onView(f *findings, who owner, e evidence) {
	v := e.View
	if !v.Quorate && v.Role != "leader" {
		return // it has no leader, or its leader may be provisional
	}
	s.cluster = cmp.Or(s.cluster, v.Cluster)
	if v.Cluster != "" && v.Cluster != s.cluster {
		f.noteFault("I11", "%s showed a state of cluster %s after states of cluster %s",
			f.nameOf(who), v.Cluster, s.cluster)
	}
	if v.Leader == "" {
		return
	}
	at := number{v.Version, v.Revision}
	if other, known := s.leaders[v.Version]; known && other != v.Leader {
		f.noteFault("I1", "version %d: both %s and %s were chosen as leader", v.Version, other, v.Leader)
	}
	s.leaders[v.Version] = v.Leader
	state := s.states[at]
	if state == nil {
		state = &shownState{leader: v.Leader, members: v.Members, by: who.node, held: map[string]bool{}}
		s.states[at] = state
	}
	if !slices.Equal(state.members, v.Members) {
		f.noteFault("I6", "state %v differs between nodes: %s showed %v, %s showed %v",
			at, state.by, state.members, who.node, v.Members)
	}
	store := who.node + " " + v.StoreID
	if last := s.newest[store]; at.compare(last) < 0 {
		f.noteFault("I7", "%s showed state %v after state %v", f.nameOf(who), at, last)
	}
	s.newest[store] = at
	state.held[who.node] = state.held[who.node] || slices.ContainsFunc(v.Members, func(m seat) bool {
		return m.Name == who.node && m.StoreID == v.StoreID
	})
}

// checkCommitted checks I4: a committed state is part of the first state seen of each later
// version. No node leaves permanently in these runs, so a voter is only replaced by one with a new
// store at the same address. Stores are lost one at a time, so there is at most one replacement
// between a committed state and the next version.
func (s *seats) checkCommitted(f *findings) {
	var order []number
	for at := range s.states {
		order = append(order, at)
	}
	slices.SortFunc(order, number.compare)
	s.spreadRevisions(order)
	var committed number
	for i, at := range order {
		first := i == 0 || order[i-1].version != at.version
		if first && committed.version != 0 {
			s.compareStates(f, committed, at)
		}
		if s.isCommitted(s.states[at]) {
			s.commits++
			committed = at
		}
	}
}

// spreadRevisions marks the holders of a revision as holders of the earlier revisions too.
func (s *seats) spreadRevisions(order []number) {
	for i := len(order) - 2; i >= 0; i-- {
		if order[i].version == order[i+1].version {
			for node := range s.states[order[i+1]].held {
				s.states[order[i]].held[node] = true
			}
		}
	}
}

// isCommitted reports whether a majority of the voters held the state.
func (s *seats) isCommitted(state *shownState) bool {
	held := 0
	for _, m := range state.members {
		if m.Voter && state.held[m.Name] {
			held++
		}
	}
	return held >= member.Quorum(s.size)
}

func (s *seats) compareStates(f *findings, committed, later number) {
	replaced := 0
	next := s.states[later]
	for _, m := range s.states[committed].members {
		if !m.Voter {
			continue
		}
		i := slices.IndexFunc(next.members, func(o seat) bool { return o.Name == m.Name })
		switch {
		case i < 0:
			f.noteFault("I4", "%s is a voter in the committed state %v, but missing from state %v",
				m.Name, committed, later)
		case next.members[i].StoreID != m.StoreID:
			replaced++
		}
	}
	if replaced > 1 {
		f.noteFault("I4", "%d voters of the committed state %v were replaced in state %v",
			replaced, committed, later)
	}
}

// String formats the number like member.Number.
func (n number) String() string { return fmt.Sprintf("%d.%d", n.version, n.revision) }
