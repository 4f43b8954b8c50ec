// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// Message is a message between the members of a group with the strategy Lowest.
type Message = lowest.Message

// Peers connects the members of a group for Over. Its methods are called concurrently and must
// not block.
type Peers interface {
	// Self returns the id of this member, as the others list it in Members. It also returns a number
	// that is greater than in every earlier opening of the group by this member.
	Self() (id string, run uint64)
	// Members returns all members whose messages count, whether reachable or not, in any order.
	Members() []string
	// Send sends a message to one member, or to all others if to is empty. The message may
	// be lost. Delivery must happen in another goroutine.
	Send(to string, m Message)
}

// Over opens a group with the strategy Lowest among peers that are not a cluster. The caller must
// pass each incoming message to the function deliver, with the id of its sender. The error joins
// all faults of the options.
func Over(p Peers, group string, o Options) (
	c *leader.Candidate, deliver func(from string, m Message), err error,
) {
	o, err = o.withDefaults(group)
	if err == nil && o.Strategy != Lowest {
		err = fmt.Errorf("election: Options.Strategy is %v: Over supports only Lowest", o.Strategy)
	}
	if err != nil {
		return nil, nil, err
	}
	s := newLowestSource(p, o.Timing, func() uint64 { return 0 })
	c = leader.New(context.Background(), s, leader.Options{RetryFor: o.RetryFor})
	return c, s.deliverMessage, nil
}

// lowestSource runs the state machine of a group with the strategy Lowest.
type lowestSource struct {
	peers  Peers
	sample time.Duration
	floor  func() uint64 // each new term is greater than floor()
	moved  chan struct{} // buffered; signals that the deadline may have changed
	stop   chan struct{} // closed by Close
	over   chan struct{} // closed when runMachine has returned

	mu      sync.Mutex
	machine *lowest.Machine
	lease   *leader.Lease // lease of the newest term; nil before the first term
	shown   lowestTerm    // the term of lease
	changed chan struct{}
}

// lowestTerm is the term of a leader that the machine reports.
type lowestTerm struct {
	leader string // "" for none
	term   uint64
	own    bool
}

func newLowestSource(p Peers, timing Timing, floor func() uint64) *lowestSource {
	id, run := p.Self()
	s := &lowestSource{
		peers: p, sample: timing.Sample, floor: floor, moved: make(chan struct{}, 1),
		stop: make(chan struct{}), over: make(chan struct{}), changed: make(chan struct{}),
	}
	s.machine = lowest.New(time.Now(), lowest.Config{
		Self: id, Run: run, Members: p.Members(), Timing: lowest.Timing(timing),
	})
	go s.runMachine()
	return s
}

// State implements leader.Source.
func (s *lowestSource) State() (leader.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return leader.State{}, s.changed
	}
	return leader.State{Term: s.lease.Term()}, s.changed
}

// Resign implements leader.Source. The member keeps declaring itself leader until its work has
// returned, so that no other member starts work earlier. It ignores the pause: this rule, not the
// member, chooses who leads.
func (s *lowestSource) Resign(t leader.Term, _ error, _ time.Duration) error {
	s.mu.Lock()
	lease, was := s.lease, s.shown
	s.mu.Unlock()
	if lease == nil || lease.Term() != t || lease.Ended() {
		return nil
	}
	lease.End(leader.ErrResigned)
	_ = lease.Wait(context.Background()) // fails only if its context is done
	s.stepMachine(func(now time.Time) { s.machine.Yield(now, was.term) })
	return nil
}

// Close implements leader.Source.
func (s *lowestSource) Close(context.Context) error {
	s.stepMachine(func(time.Time) { s.machine.Close() })
	close(s.stop)
	<-s.over
	return nil
}

// runMachine advances the machine at its deadlines, and at least once per sample so that it sees
// the current members.
func (s *lowestSource) runMachine() {
	defer close(s.over)
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		s.mu.Lock()
		wait := s.sample
		if at := s.machine.Deadline(); !at.IsZero() {
			wait = min(wait, max(0, time.Until(at)))
		}
		s.mu.Unlock()
		t.Reset(wait)
		select {
		case <-t.C:
			s.stepMachine(s.machine.Advance)
		case <-s.moved:
		case <-s.stop:
			return
		}
	}
}

// deliverMessage passes a message from another member to the machine.
func (s *lowestSource) deliverMessage(from string, m Message) {
	s.stepMachine(func(now time.Time) { s.machine.Receive(now, from, m) })
}

// stepMachine gives one input to the machine. It ends a term before it sends a message that
// announces the end.
func (s *lowestSource) stepMachine(input func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.machine.Raise(s.floor())
	s.machine.Observe(now, s.peers.Members())
	input(now)
	s.publishTerm()
	for _, o := range s.machine.Sent() {
		s.peers.Send(o.To, o.Message)
	}
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// publishTerm ends the old term and begins the next one if the leader has changed. s.mu must be
// held.
func (s *lowestSource) publishTerm() {
	id, term := s.machine.Leader()
	now := lowestTerm{id, term, s.machine.Leads()}
	if now == s.shown {
		return
	}
	if s.lease != nil {
		cause := leader.ErrSuperseded
		if s.shown.own {
			cause = endCauses[s.machine.Reason()]
		}
		s.lease.End(cause)
	}
	if s.shown = now; id != "" {
		s.lease = leader.NewLease(leader.LeaseConfig{
			Holder: leader.Holder{ID: id, Token: member.TokenOf(int64(term))}, Own: now.own,
		})
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// endCauses maps the machine's reasons for the end of this member's term to the causes of its
// contexts.
var endCauses = map[lowest.Reason]error{
	lowest.Superseded: leader.ErrSuperseded,
	lowest.Yielded:    leader.ErrResigned,
	lowest.Expired:    leader.ErrLeaseEnded,
	lowest.Closed:     leader.ErrClosed,
}
