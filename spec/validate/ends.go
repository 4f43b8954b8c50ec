// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
)

// findEnds finds the runs that only announced the end of a run, which have no steps, by the last
// run before them. Only the messages that they sent show that they existed.
func findEnds(steps []steplog.Step) map[member.Identity][]uint64 {
	known := map[member.StoreID][]uint64{} // runs with steps
	addresses := map[member.StoreID]member.Address{}
	for _, s := range steps {
		if s.Saved != nil {
			known[s.Saved.StoreID] = append(known[s.Saved.StoreID], s.Saved.Incarnation)
			addresses[s.Saved.StoreID] = s.Node.Address
		}
	}
	ends := map[member.Identity][]uint64{}
	for _, s := range steps {
		if s.Message == nil || !isAnnouncedEnd(*s.Message) {
			continue
		}
		run := s.Message.From
		runs := known[run.StoreID]
		if slices.Contains(runs, run.Incarnation) || addresses[run.StoreID] != run.Address {
			continue
		}
		last := run
		last.Incarnation = 0
		for _, i := range runs {
			if i < run.Incarnation {
				last.Incarnation = max(last.Incarnation, i)
			}
		}
		if !slices.Contains(ends[last], run.Incarnation) {
			ends[last] = append(ends[last], run.Incarnation)
		}
	}
	for _, all := range ends {
		slices.Sort(all)
	}
	return ends
}

// isAnnouncedEnd reports whether a message announces that the runs before its sender have ended.
func isAnnouncedEnd(m steplog.Message) bool {
	switch m.Body.(type) {
	case message.RunEnded:
		return true
	case message.SeedKeepAlive:
		return m.Claim == member.Claim{}
	default:
		return false
	}
}
