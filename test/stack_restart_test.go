// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
)

// A process that restarts before its next heartbeat is not missed. Its first packets end its old
// connections, and it joins immediately (section 3, Restarts). If it led, its voters may vote again
// as soon as they hear of its next run (section 5).
func TestStackRestartWithinAHeartbeat(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 5, func(t *testing.T, s *stack) {
		for _, leads := range []bool{false, true} {
			begin, old := time.Now(), s.leader()
			i := old
			if !leads {
				i = others(old)[0]
			}
			s.betweenBeats(old)
			s.Crash(i)
			s.Start(i)
			took := s.Within(lan().HeartbeatInterval, "one cluster", s.settled)
			if n := s.watch.count(begin, s.moved(i, member.Unreachable)); n > 0 {
				t.Errorf("leads %v: it was shown as unreachable %d times", leads, n)
			}
			if got := s.leader(); !leads && got != old {
				t.Errorf("node %d leads after a restart of %d, want %d", got, i, old)
			}
			t.Logf("leads %v: one cluster after %v", leads, took)
			s.Advance(time.Second)
		}
	})
}

// A process that lost its store is a new member in the same seat (section 3).
func TestStackRestartWithALostStore(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 3, func(t *testing.T, s *stack) {
		s.change = func(_ int, c *cluster.Config) { c.JoinOnly = true }
		for _, leads := range []bool{false, true} {
			old := s.leader()
			i, limit := old, lan().LeaderTimeout+time.Second
			if !leads {
				i, limit = others(old)[0], 2*lan().RetryInterval
			}
			s.Crash(i)
			if err := os.RemoveAll(s.DataDir(i)); err != nil {
				t.Fatal(err)
			}
			s.Start(i)
			took := s.Within(limit, "one cluster", s.settled)
			t.Logf("leads %v: one cluster after %v", leads, took)
			s.Advance(time.Second)
		}
	})
}

// A store can be used only for the address for which it was created (section 1). A start with
// another address disturbs no node.
func TestStackStoreAtAnotherAddress(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 3, func(t *testing.T, s *stack) {
		moves := others(s.leader())[0]
		c := s.calm(s.leader(), others(s.leader())[1])
		s.Crash(moves)
		s.change = func(i int, c *cluster.Config) {
			if i == 3 {
				c.DataDir = s.DataDir(moves)
			}
		}
		s.Start(3)
		err := s.WaitEnd(3)
		if _, ok := errors.AsType[*cluster.StoreMismatchError](err); !ok {
			t.Errorf("Start at another address: got %v, want a StoreMismatchError", err)
		}
		c.rest(time.Second)
		s.Start(moves)
		s.Within(2*lan().RetryInterval, "one cluster", s.settled)
		c.holds()
	})
}

// quicPatience is the longest silence on a connection.
const quicPatience = 30 * time.Second

// If a second process takes over an address, with or without a copy of the store, the address
// belongs to that later run (section 3, Restarts). The first process no longer receives anything,
// and has no authority after its lease has ended.
//
// A copy of a leader's store is not tested. The protocol requires that the earlier run of the
// leader has ended. The lock of a store ensures this. A copy of the store bypasses the lock, and
// then two processes have authority.
func TestStackAddressTakenOver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ copied, leads bool }{{false, false}, {false, true}, {true, false}} {
		inFormedStack(t, 3, func(t *testing.T, s *stack) {
			i := s.leader()
			if !tc.leads {
				i = others(i)[0]
			}
			first := s.TakeOver(i, tc.copied)
			took := s.Within(lan().LeaderTimeout+time.Second, "one cluster", s.settled)
			t.Logf("%+v: one cluster after %v", tc, took)
			s.calm(0, 1, 2).rest(2 * time.Second)
			if _, ok := first.Leader(); ok || first.Err() != nil {
				t.Errorf("%+v: the first process, which hears nothing, shows a leader: %v, ended: %v",
					tc, ok, first.Err())
			}
		})
	}
}

// If the second process ends, the first process receives packets again as soon as the others have
// given up their connections to the second. It then stops, because it has lost its seat to the
// later run.
func TestStackAddressGivenBack(t *testing.T) {
	t.Parallel()
	for _, copied := range []bool{false, true} {
		inFormedStack(t, 3, func(t *testing.T, s *stack) {
			i := others(s.leader())[0]
			first := s.TakeOver(i, copied)
			// Another store first waits until the others find that the first process does not answer, and
			// then until that process is silent.
			s.Within(2*lan().RetryInterval+2*time.Second, "one cluster", s.settled)
			s.Crash(i)
			back := time.Now()
			select {
			case <-first.Done():
			case <-time.After(2 * quicPatience):
			}
			took, limit := time.Since(back), quicPatience+time.Second
			if err := first.Err(); !errors.Is(err, cluster.ErrAddressInUse) || took > limit {
				t.Errorf("copied %v: the first process: got %v after %v, want ErrAddressInUse within %v",
					copied, err, took, limit)
			}
			t.Logf("copied %v: stopped after %v", copied, took)
			s.Start(i)
			s.Within(2*lan().RetryInterval, "one cluster with the second process", s.settled)
		})
	}
}

// fullStore is a real store on a disk that can be full.
type fullStore struct {
	*store.File
	full atomic.Bool
}

func (s *fullStore) Save(c store.Content) error {
	if s.full.Load() {
		return &os.PathError{Op: "write", Path: "athena.state", Err: syscall.ENOSPC}
	}
	return s.File.Save(c)
}

// If a node cannot save a required state, it stops with an error before it sends anything that
// depends on that state (section 6, Durable). The others continue.
func TestStackDiskFull(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		inStack(t, 5, func(t *testing.T, s *stack) {
			var disks [5]*fullStore
			s.store = func(i int) store.Store {
				f, err := store.OpenFile(s.DataDir(i))
				if err != nil {
					t.Error(err)
				}
				disks[i] = &fullStore{File: f}
				return disks[i]
			}
			s.form()
			old := s.leader()
			rest := others(old)
			victim, killed, ends := rest[1], rest[3], lan().HeartbeatTimeout+roundTrip
			if leads {
				victim = old
			} else {
				ends += oneWay // when it detects that the killed node is unreachable
			}
			node := s.Node(victim)
			beat := s.betweenBeats(old)
			disks[victim].full.Store(true)
			s.Crash(killed)
			time.Sleep(time.Until(beat.Add(ends - 1)))
			synctest.Wait()
			if err := node.Err(); err != nil {
				t.Errorf("leads %v: the node ended before it had to save: %v", leads, err)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if err := node.Err(); !errors.Is(err, syscall.ENOSPC) ||
				!strings.Contains(err.Error(), "cannot save state") {
				t.Errorf("leads %v: got %v, want ENOSPC and what it is about", leads, err)
			}
			if leads {
				s.Advance(2 * time.Second)
				// The node gives up leadership when it ends.
				lost := ends + oneWay + lan().HeartbeatInterval/20
				s.exactly(beat, moment{"the next is quorate",
					s.watch.first(beat, rest[0], s.ledBy(rest[0], true)), lost + election})
			} else {
				s.calm(old, rest[0], rest[2]).rest(2 * time.Second)
			}
			s.Crash(victim)
			s.Start(victim)
			s.Start(killed)
			s.Within(2*lan().RetryInterval, "one cluster", s.settled)
		})
	}
}

// A leader whose clock jumps ahead immediately loses its authority, since it cannot tell a jump
// from a pause. A follower whose clock jumps ahead suspects its leader, sends queries, and remains
// a member. No member is removed.
func TestStackClockJumpsAhead(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 3, func(t *testing.T, s *stack) {
		begin, old, token := time.Now(), s.leader(), s.token()
		s.JumpClock(others(old)[0], time.Hour)
		s.Advance(lan().LeaderTimeout)
		s.Within(rejoined(), "one cluster", s.settled)
		if got := s.leader(); got != old || s.token() != token {
			t.Errorf("after the jump of a follower node %d leads with token %d, want %d with %d",
				got, s.token(), old, token)
		}
		term := s.term(old)
		s.JumpClock(old, time.Hour)
		if term.Valid() {
			t.Error("the term is valid an hour after its lease")
		}
		s.Within(lan().LeaderTimeout+time.Second, "next leader", func() bool {
			return s.leader() >= 0 && s.token() > token
		})
		s.Within(lan().LeaderTimeout, "one cluster", s.settled)
		for i := range s.size {
			n := s.watch.count(begin, s.moved(i, member.Leaving))
			if n += s.watch.count(begin, s.moved(i, member.Removed)); n > 0 {
				t.Errorf("node %d left %d times, want never", i, n)
			}
		}
	})
}

// A leader that is suspended for longer than its lease is replaced as if it had crashed. When it
// resumes, it has lost its authority before it does anything: its work ends immediately, and it
// follows the new leader.
func TestStackSuspendedLeader(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 3, func(t *testing.T, s *stack) {
		old := s.leader()
		term, next := s.term(old), others(old)[0]
		beat := s.betweenBeats(old)
		s.suspend(old)
		s.Advance(3 * time.Second)
		if got := s.leader(); got != next {
			t.Fatalf("node %d leads, want %d%s", got, next, s)
		}
		s.exactly(beat, moment{"the next is quorate", s.watch.first(beat, next, s.ledBy(next, true)),
			oneWay + lan().LeaderTimeout + turns(next, old) + election})
		resumed := time.Now()
		s.resume(old)
		if term.Valid() {
			t.Error("it has authority when it resumes")
		}
		if end := s.watch.shift(old).end; !end.Equal(resumed) {
			t.Errorf("its work ended %s after it resumed, want immediately", clock(resumed).at(end))
		}
		took := s.Within(rejoined(), "one cluster", s.settled)
		if got := s.leader(); got != next {
			t.Errorf("node %d leads after the resumption, want node %d to keep leading", got, next)
		}
		t.Logf("one cluster %v after it resumed", took)
	})
}

// A suspended follower disturbs no node, and is active again after it resumes. After more than
// TTLTimeout it rejoins, because it was removed (section 3).
func TestStackSuspendedFollower(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 3, func(t *testing.T, s *stack) {
		leader := s.leader()
		i := others(leader)[0]
		for _, d := range []time.Duration{3 * lan().LeaseTimeout, lan().TTLTimeout + time.Second} {
			c := s.calm(leader, 3-leader-i)
			s.suspend(i)
			c.rest(d)
			if gone := d > lan().TTLTimeout; gone != s.shows(leader, i, member.Removed) {
				t.Errorf("suspended for %v: removed %v, want %v", d, !gone, gone)
			}
			s.resume(i)
			took := s.Within(rejoined(), "one cluster", s.settled)
			c.rest(time.Second)
			t.Logf("suspended for %v: one cluster %v after it resumed", d, took)
		}
	})
}
