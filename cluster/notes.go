// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
)

// What a node may be heard to say while this one joins, besides refusals.
var (
	errSilent    = errors.New("no answer")
	errConnected = errors.New("connected, but it let this node not in yet")
)

// notes keeps the last that was heard from each node asked, for the error of a
// Start that gives up.
type notes struct {
	mu    sync.Mutex
	asked []Answer // fixed: the other seeds, in their order
	// refused counts the seeds whose last answer was that they cannot belong
	// to one cluster with this node.
	refused  map[member.Address]bool
	hopeless chan struct{} // closed when all seeds refused
	gaveUp   bool          // it is closed
}

func (s *notes) start(seeds []member.Address, self member.Address) {
	s.refused = map[member.Address]bool{}
	s.hopeless = make(chan struct{})
	for _, a := range seeds {
		if a != self {
			s.asked = append(s.asked, Answer{From: a, Err: errSilent})
		}
	}
}

// note replaces what was last heard from a seed; others are not kept.
func (s *notes) note(from member.Address, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.asked {
		if s.asked[i].From == from {
			s.asked[i].Err = err
		}
	}
}

// refusal notes that a seed and this node can never be in one cluster.
func (s *notes) refusal(from member.Address, err error) {
	s.note(from, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if a.From == from && !s.refused[from] {
			s.refused[from] = true
			if len(s.refused) == len(s.asked) && !s.gaveUp {
				s.gaveUp = true
				close(s.hopeless)
			}
		}
	}
}

// connected notes that a greet was admitted: a refusal before it is history.
func (s *notes) connected(from member.Address) {
	s.note(from, errConnected)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refused, from)
}

// joinResponse notes why a leader did not let this node in.
func (s *notes) joinResponse(m message.Message) {
	if b, ok := m.Body.(message.JoinClusterResponse); ok && !b.Accepted {
		s.note(m.From.Address, fmt.Errorf("join refused: %s", b.Reason))
	}
}

// answers lists what was heard.
func (s *notes) answers() []Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}
