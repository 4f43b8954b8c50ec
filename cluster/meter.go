// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Reasons why the node itself drops a frame. Package messaging has further ones, and
// those of the machine have the names of message.Reason.
const (
	dropOtherSender = "other sender"
	dropMisplaced   = "greet out of place"
	dropUnsayable   = "cannot be encoded"
)

// meter counts. The zero meter is ready.
type meter struct {
	drained atomic.Bool
	// rosterLost says that the held roster can elect nobody any more.
	rosterLost atomic.Bool

	mu      sync.Mutex
	dropped map[string]uint64
	refused map[string]uint64
	// unhandled are the events without a handler that were warned of.
	unhandled map[unhandled]bool
}

// unhandled is a kind of event that nobody here handles.
type unhandled struct {
	from member.Address
	name string
}

// maxUnhandled bounds what is remembered of events without a handler; their names
// are whatever the peers send. What is more than that is counted, and no warning.
const maxUnhandled = 256

// unhandledFirst reports whether to warn of an event that nobody handles: once for
// each name and sender.
func (m *meter) unhandledFirst(from member.Address, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unhandled[unhandled{from, name}] || len(m.unhandled) >= maxUnhandled {
		return false
	}
	if m.unhandled == nil {
		m.unhandled = map[unhandled]bool{}
	}
	m.unhandled[unhandled{from, name}] = true
	return true
}

// traced counts what the machine refused.
func (m *meter) traced(t statemachine.Trace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch t.Kind {
	case statemachine.Dropped:
		increment(&m.dropped, t.Reason.String())
	case statemachine.Refused:
		increment(&m.refused, t.Reason.String())
	default:
	}
}

// drop counts a frame that the shell dropped.
func (m *meter) drop(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	increment(&m.dropped, reason)
}

func increment(counts *map[string]uint64, reason string) {
	if *counts == nil {
		*counts = map[string]uint64{}
	}
	(*counts)[reason]++
}

func (m *meter) report(s *Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Drained, s.RosterLost = m.drained.Load(), m.rosterLost.Load()
	s.Dropped, s.Refused = maps.Clone(m.dropped), maps.Clone(m.refused)
}
