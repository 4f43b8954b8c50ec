// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// inStuckStack runs a test with three nodes. Their handlers block until release is closed, except
// for events with negative numbers. arrivals lists the events that the nodes have handled.
func inStuckStack(t *testing.T, test func(*testing.T, *stack, *arrivals, chan struct{})) {
	t.Helper()
	inStack(t, 3, func(t *testing.T, s *stack) {
		release := make(chan struct{})
		a := s.receive(func(ctx context.Context, p payload) error {
			if p.Number < 0 {
				return nil
			}
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		s.form()
		test(t, s, a, release)
	})
}

// flood sends numbered events until one fails. It returns the error and the time when the failed
// Send began, and counts the accepted events in the given counter.
func flood(
	ctx context.Context, from *cluster.Node, to member.Address, taken *atomic.Int64,
) (last time.Time, err error) {
	filler := bytes.Repeat([]byte("x"), 1<<10)
	for taken.Load() < 20_000 {
		last = time.Now()
		err := from.Send(ctx, to, payload{int(taken.Load()), filler})
		if err != nil {
			return last, err
		}
		taken.Add(1)
	}
	return last, errors.New("more events were taken than all buffers hold")
}

// A handler that blocks for a minute blocks only its sender, once the buffers between them are
// full. Events of other senders are handled, and the members and the leader stay the same (section
// 9). In the end, all accepted events are handled.
func TestStackHandlerThatBlocksForAMinute(t *testing.T) {
	t.Parallel()
	inStuckStack(t, func(t *testing.T, s *stack, a *arrivals, release chan struct{}) {
		from := s.leader()
		to, third := others(from)[0], others(from)[1]
		c := s.calm(0, 1, 2)
		ctx, stop := context.WithCancel(t.Context())
		var taken atomic.Int64
		sent := make(chan error)
		sender := s.Node(from)
		go func() {
			_, err := flood(ctx, sender, s.Address(to), &taken)
			sent <- err
		}()
		c.rest(5 * time.Second)
		early := taken.Load()
		for range 100 {
			if err := s.Node(third).Send(t.Context(), s.Address(to), payload{-1, nil}); err != nil {
				t.Errorf("Send of another member: %v", err)
			}
		}
		c.rest(55 * time.Second)
		if got := len(a.of(third, to)); got != 100 {
			t.Errorf("got %d events of another member, want 100", got)
		}
		if got := taken.Load(); got != early || got > s.buffered() {
			t.Errorf("%d events were accepted after 5 s, %d after a minute; want no more, at most %d",
				early, got, s.buffered())
		}
		for _, r := range s.Node(to).Status().Receivers {
			if r.Queued > receiver.QueueLength {
				t.Errorf("%d events %q wait for a handler, want at most %d",
					r.Queued, r.Event, receiver.QueueLength)
			}
		}
		stop()
		if err := <-sent; !errors.Is(err, cluster.ErrBusy) {
			t.Errorf("Send: got %v, want ErrBusy", err)
		}
		close(release)
		s.Advance(time.Second)
		if got := a.of(from, to); !slices.Equal(got, upTo(int(early))) {
			t.Errorf("handled %v, want 0 to %d", got, early-1)
		}
		c.holds()
	})
}

// If the sender's own node closes, a waiting Send returns ErrClosed immediately. If the receiver
// closes, the sender learns this one network delay later. Until then it may begin another Send,
// because a closing handler makes room. Each Send may take its full timeout.
func TestStackCloseDuringSend(t *testing.T) {
	t.Parallel()
	for _, sender := range []bool{true, false} {
		inStuckStack(t, func(t *testing.T, s *stack, _ *arrivals, _ chan struct{}) {
			from := others(s.leader())[0]
			to := others(s.leader())[1]
			var taken atomic.Int64
			ended := make(chan time.Time, 1)
			var last time.Time
			var failed error
			node := s.Node(from)
			go func() {
				last, failed = flood(t.Context(), node, s.Address(to), &taken)
				ended <- time.Now()
			}()
			s.Advance(time.Second)
			begin, closes := time.Now(), node
			if !sender {
				closes = s.Node(to)
			}
			if err := closes.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			closed := time.Now()
			limit := mesh.CloseTimeout
			if s.tls {
				limit += roundTrip // time in which the peers learn why
			}
			if took := closed.Sub(begin); took > limit {
				t.Errorf("Close took %v, want at most %v", took, limit)
			}
			end := <-ended
			took, late := end.Sub(last), last.Sub(closed)
			switch {
			case sender && (!errors.Is(failed, cluster.ErrClosed) || end.After(begin)):
				t.Errorf("the sender closed: Send ended after %v with %v, want ErrClosed immediately",
					end.Sub(begin), failed)
			case !sender && (!errors.Is(failed, mesh.ErrUnreachable) &&
				!errors.Is(failed, cluster.ErrNotActive) || took > mesh.SendTimeout || late > oneWay):
				t.Errorf("the receiver closed: Send began %v later, ended after %v with %v; "+
					"want %v at most, %v and ErrUnreachable or ErrNotActive",
					late, took, failed, oneWay, mesh.SendTimeout)
			}
			t.Logf("sender %v: %d events accepted, the last Send began %v after Close and took %v",
				sender, taken.Load(), late, took)
		})
	}
}

// Transfer, Drain and Leave return in time at any rate of packet loss, and succeed at 5 %. At most
// one node has authority at any instant (section 6, Leaving leader).
func TestStackHandOverUnderLoss(t *testing.T) {
	t.Parallel()
	for _, loss := range []float64{0.05, 0.3} {
		inFormedStack(t, 5, func(t *testing.T, s *stack) {
			s.eachPath(athenatest.Path{Loss: loss})
			for _, verb := range []string{"Transfer", "Drain", "Leave", "Leave of a follower"} {
				leads := func() bool { return s.leader() >= 0 }
				s.Within(2*lan().TTLTimeout, "leader", leads)
				i := s.leader()
				token := s.token()
				if verb == "Leave of a follower" {
					i = others(i)[0]
				}
				took, err := s.call(verb, i)
				t.Logf("loss %v: %s: %v after %v", loss, verb, err, took)
				// A failed attempt ends after LeaderTimeout; then the others elect a leader.
				limit := 2*lan().LeaderTimeout + mesh.CloseTimeout
				if s.tls && loss > 0.1 {
					limit += lan().TTLTimeout // TCP waits longer with each loss in a row
				}
				if took > limit || loss < 0.1 && err != nil {
					t.Errorf("loss %v: %s: %v after %v, want nil within %v", loss, verb, err, took, limit)
				}
				s.Within(2*lan().TTLTimeout, "leader", leads)
				switch next := s.leader(); {
				case verb == "Leave of a follower":
				case err == nil && s.token() <= token, loss < 0.1 && next == i:
					t.Errorf("loss %v: after %s of node %d: node %d leads with token %d, had %d",
						loss, verb, i, next, s.token(), token)
				}
				if verb != "Transfer" {
					s.Crash(i) // the node is drained or has left
					s.Start(i)
					s.Within(2*lan().TTLTimeout, "return of the node", func() bool {
						return s.joined[i].Load()
					})
				}
				s.Advance(time.Second)
			}
			s.eachPath(athenatest.Path{})
			s.Within(2*lan().TTLTimeout, "one cluster", s.settled)
		})
	}
}

// call calls a method of a node by its name and returns how long it took.
func (s *stack) call(verb string, i int) (time.Duration, error) {
	s.t.Helper()
	n, begin := s.Node(i), time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), lan().TTLTimeout)
	defer cancel()
	var err error
	switch verb {
	case "Transfer":
		err = n.Transfer(ctx, member.Address{})
	case "Drain":
		err = n.Drain(ctx)
	default:
		err = n.Leave(ctx)
	}
	synctest.Wait()
	return time.Since(begin), err
}
