// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"encoding/binary"
	"slices"
)

// sets interns sets of events.
type sets struct {
	members [][]int32 // sorted
	known   map[string]int32
	grown   map[[2]int32]int32 // results of with, by set and event
	shrunk  map[shrinking]int32
}

// shrinking is a set of events and a step after which some of them can no longer have an effect.
type shrinking struct {
	set int32
	by  step
}

type step struct {
	node int
	to   int32 // its new state
}

func newSets() sets {
	return sets{
		members: [][]int32{nil},
		known:   map[string]int32{"": 0},
		grown:   map[[2]int32]int32{},
		shrunk:  map[shrinking]int32{},
	}
}

// with adds an event to a set and returns the new set.
func (s *sets) with(set, event int32) int32 {
	step := [2]int32{set, event}
	if next, ok := s.grown[step]; ok {
		return next
	}
	next := set
	if at, has := slices.BinarySearch(s.members[set], event); !has {
		next = s.numberOf(slices.Insert(slices.Clone(s.members[set]), at, event))
	}
	s.grown[step] = next
	return next
}

// without removes the events that can no longer affect a node after a step, and returns
// the new set.
func (s *sets) without(set int32, by step, dead func(event int32) bool) int32 {
	key := shrinking{set, by}
	next, ok := s.shrunk[key]
	if !ok {
		next = s.numberOf(slices.DeleteFunc(slices.Clone(s.members[set]), dead))
		s.shrunk[key] = next
	}
	return next
}

func (s *sets) numberOf(members []int32) int32 {
	var key []byte
	for _, m := range members {
		key = binary.AppendVarint(key, int64(m))
	}
	if i, ok := s.known[string(key)]; ok {
		return i
	}
	i := int32(len(s.members))
	s.known[string(key)] = i
	s.members = append(s.members, members)
	return i
}
