// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
)

// fixedSource is the source of Static, which always leads, and of Standby, which never leads.
type fixedSource struct {
	self leader.Holder // zero for Standby

	mu      sync.Mutex
	lease   *leader.Lease // nil for Standby
	changed chan struct{}
}

// newFixedSource returns the source of Static for the given Holder, or the source of Standby if the
// Holder is zero.
func newFixedSource(self leader.Holder) *fixedSource {
	s := &fixedSource{self: self, changed: make(chan struct{})}
	if self != (leader.Holder{}) {
		s.lease = leader.NewLease(leader.LeaseConfig{Holder: self, Own: true})
	}
	return s
}

// State implements leader.Source.
func (s *fixedSource) State() (leader.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return leader.State{}, s.changed
	}
	return leader.State{Term: s.lease.Term()}, s.changed
}

// Resign ends the term and begins another one, because no other member leads instead.
func (s *fixedSource) Resign(t leader.Term, _ error, _ time.Duration) error {
	s.mu.Lock()
	lease := s.lease
	s.mu.Unlock()
	if lease == nil || lease.Term() != t || lease.Ended() {
		return nil
	}
	lease.End(leader.ErrResigned)
	_ = lease.Wait(context.Background()) // fails only if its context ends
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = leader.NewLease(leader.LeaseConfig{Holder: s.self, Own: true})
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Close implements leader.Source.
func (s *fixedSource) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease != nil {
		s.lease.End(leader.ErrClosed)
	}
	return nil
}
