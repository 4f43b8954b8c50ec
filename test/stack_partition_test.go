// SPDX-License-Identifier: Apache-2.0

package test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// These tests cut networks and check exact times: in a bubble only packets take time, and every
// wait of the protocol is known. Section numbers refer to protocol.md.

// oneWay is the one-way delay of a packet.
const oneWay = roundTrip / 2

// election is the time from the first query until the new leader is quorate. The query, the
// pre-votes and the formal votes take a round trip each, and the followers' echoes of its first
// stamp take two (section 6, 2 to 6).
const election = 5 * roundTrip

// turns returns how long the voter with a given index waits before its query: a twentieth of an
// interval for each active member before it, except the lost leader (section 6, 2).
func turns(first, lost int) time.Duration {
	before := first
	if lost < first {
		before--
	}
	return lan().HeartbeatInterval / 20 * time.Duration(before)
}

// leaseGuard is the time from the end of a leader's work to the end of its lease.
func leaseGuard() time.Duration { return lan().HeartbeatInterval / 2 }

// moment is the time of an observed event, with its expected time.
type moment struct {
	what string
	got  time.Time
	want time.Duration
}

// exactly compares observed and expected times, relative to begin.
func (s *stack) exactly(begin time.Time, moments ...moment) {
	s.t.Helper()
	for _, m := range moments {
		if want := begin.Add(m.want); !m.got.Equal(want) {
			s.t.Errorf("%s: got %s, want %v", m.what, clock(begin).at(m.got), m.want)
		}
	}
}

// A leader on the minority side keeps its authority exactly until its lease ends. The other nodes
// suspect the leader LeaderTimeout after its last ack, and elect the next leader within the round
// trips of an election.
func TestStackMinorityLosesAuthorityExactlyAtTheEndOfItsLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size int
		with int // number of followers on the leader's side
	}{{3, 0}, {5, 0}, {5, 1}} {
		inFormedStack(t, tc.size, func(t *testing.T, s *stack) {
			old := s.leader()
			minority, majority := []int{old}, []int(nil)
			for i := range tc.size {
				switch {
				case i == old:
				case len(minority) <= tc.with:
					minority = append(minority, i)
				default:
					majority = append(majority, i)
				}
			}
			beat := s.betweenBeats(old)
			s.Partition(minority)
			s.Advance(3 * time.Second)
			lease, next := message.LeaseMargin(lan().LeaseTimeout), majority[0]
			lost := oneWay + lan().LeaderTimeout
			elected := lost + turns(next, old) + election
			s.exactly(beat,
				moment{"the work ends (Term.Done)", s.watch.shift(old).end, lease - leaseGuard()},
				moment{"it is not quorate (5, Lease)", s.watch.first(beat, old, s.ledBy(old, false)), lease},
				moment{"it steps down (5, End of the lease)",
					s.watch.first(beat, old, leaderless), lease + lan().LeaderTimeout},
				moment{"the next is quorate (6, 2 to 6)",
					s.watch.first(beat, next, s.ledBy(next, true)), elected},
				moment{"the next works", s.watch.shift(next).begin, elected})
			for _, i := range majority {
				s.exactly(beat, moment{"a follower suspects (6, 1)",
					s.watch.first(beat, i, leaderless), lost})
			}
			interval := lan().HeartbeatInterval
			nextBeat := (lease + interval - 1) / interval * interval
			for _, i := range minority[1:] {
				s.exactly(beat, moment{"a follower hears of the end by the next ack",
					s.watch.first(beat, i, s.ledBy(old, false)), nextBeat + oneWay})
			}
			token := s.token()
			s.Heal()
			took := s.Within(rejoined(), "one cluster (11, L2)", s.settled)
			if got := s.leader(); got != next || s.token() != token {
				t.Errorf("after the heal node %d leads with token %d, want %d with %d",
					got, s.token(), next, token)
			}
			t.Logf("N=%d, %d followers with the leader: healed after %v", tc.size, tc.with, took)
		})
	}
}

// A leader that receives no packets still sends healthy acks until its lease ends, but only to
// members that it heard within HeartbeatTimeout. These members suspect the leader LeaderTimeout
// after the last such ack. By then the leader has informed them that they are unreachable. So no
// member waits for the query of another one, and the greatest ballot wins.
func TestStackDeafLeader(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 5, func(t *testing.T, s *stack) {
		old := s.leader()
		next := others(old)[3]
		beat := s.betweenBeats(old)
		for _, i := range others(old) {
			s.Cut(i, old)
		}
		s.Advance(3 * time.Second)
		lease := message.LeaseMargin(lan().LeaseTimeout)
		// The last answers of the followers arrive one round trip after that heartbeat. So the leader
		// sends its last acks HeartbeatTimeout after that heartbeat (section 5).
		lost := lan().HeartbeatTimeout + oneWay + lan().LeaderTimeout
		s.exactly(beat,
			moment{"its work ends", s.watch.shift(old).end, lease - leaseGuard()},
			moment{"it is not quorate", s.watch.first(beat, old, s.ledBy(old, false)), lease},
			moment{"a follower suspects", s.watch.first(beat, next, leaderless), lost},
			moment{"the next is quorate", s.watch.first(beat, next, s.ledBy(next, true)),
				lost + election})
		s.Heal()
		s.Within(rejoined(), "one cluster", s.settled)
	})
}

// If the other nodes receive nothing from a leader, they replace it as if it had crashed. The old
// leader learns of the next leader from a LeaderElected, and then steps down.
func TestStackMuteLeader(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 5, func(t *testing.T, s *stack) {
		old := s.leader()
		next := others(old)[0]
		beat := s.betweenBeats(old)
		for _, i := range others(old) {
			s.Cut(old, i)
		}
		s.Advance(3 * time.Second)
		lost := oneWay + lan().LeaderTimeout
		s.exactly(beat,
			moment{"its work ends", s.watch.shift(old).end,
				message.LeaseMargin(lan().LeaseTimeout) - leaseGuard()},
			moment{"a follower suspects", s.watch.first(beat, next, leaderless), lost},
			moment{"the next is quorate", s.watch.first(beat, next, s.ledBy(next, true)),
				lost + turns(next, old) + election})
		s.Heal()
		s.Within(rejoined(), "one cluster", s.settled)
	})
}

// If no side has a majority, there is no leader until the heal.
func TestStackNoSideHasAMajority(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 5, func(t *testing.T, s *stack) {
		old := s.leader()
		beat := s.betweenBeats(old)
		rest := others(old)
		s.Partition([]int{old, rest[0]}, []int{rest[1]})
		s.Advance(6 * time.Second)
		if n := s.watch.count(beat.Add(time.Second), func(e cluster.Event) bool {
			l, ok := e.(cluster.LeaderChanged)
			return ok && l.Quorate
		}); n > 0 {
			t.Errorf("nodes showed a leader with authority %d times, want none%s", n, s)
		}
		s.Heal()
		took := s.Within(2*lan().TTLTimeout, "leader (11, L1)", func() bool { return s.leader() >= 0 })
		t.Logf("a leader %v after the heal", took)
		s.Within(2*lan().TTLTimeout+5*lan().RetryInterval, "one cluster (11, L2)", s.settled)
	})
}

// The status of an isolated follower becomes Unreachable when it has been silent for
// HeartbeatTimeout, and Leaving after TTLTimeout. No other node is disturbed (section 3).
func TestStackSilentFollower(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 5, func(t *testing.T, s *stack) {
		leader := s.leader()
		rest := others(leader)
		silent := rest[1]
		c := s.calm(leader, rest[0], rest[2], rest[3])
		beat := s.betweenBeats(leader)
		heard := roundTrip // when the answer to that heartbeat arrives, relative to it
		s.isolate(silent)
		c.rest(lan().TTLTimeout + time.Second)
		shown := func(at int, status member.Status) time.Time {
			return s.watch.first(beat, at, s.moved(silent, status))
		}
		s.exactly(beat,
			moment{"unreachable at the leader", shown(leader, member.Unreachable),
				heard + lan().HeartbeatTimeout},
			moment{"unreachable at a follower", shown(rest[0], member.Unreachable),
				heard + lan().HeartbeatTimeout + oneWay},
			moment{"leaving at the leader", shown(leader, member.Leaving), heard + lan().TTLTimeout},
			moment{"removed at the leader: M hold it", shown(leader, member.Removed),
				heard + lan().TTLTimeout + roundTrip},
			moment{"removed at a follower", shown(rest[0], member.Removed),
				heard + lan().TTLTimeout + roundTrip + oneWay})
		s.Heal()
		s.Within(rejoined(), "one cluster", s.settled)
		c.holds()
	})
}

// A cut between two followers disturbs neither them nor their leader. But without the leader they
// elect no other, so both name the cut in their status.
func TestStackFollowersCutFromEachOther(t *testing.T) {
	t.Parallel()
	inFormedStack(t, 3, func(t *testing.T, s *stack) {
		leader := s.leader()
		rest := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader })
		c := s.calm(0, 1, 2)
		named := func() (nodes []int) {
			for i := range 3 {
				if len(s.Node(i).Status().PeerFaults) > 0 {
					nodes = append(nodes, i)
				}
			}
			return nodes
		}
		await := func(want []int) {
			t.Helper()
			for range 120 {
				if slices.Equal(named(), want) {
					return
				}
				s.Advance(time.Second)
			}
			t.Fatalf("after two minutes %v name the cut, want %v", named(), want)
		}
		s.Cut(rest[0], rest[1])
		s.Cut(rest[1], rest[0])
		await(rest)
		fault := s.Node(rest[0]).Status().PeerFaults[0]
		if fault.Address != s.Node(rest[1]).Self().Address ||
			!strings.HasPrefix(fault.Why, "active, but this node cannot reach it: ") {
			t.Errorf("got %v", fault)
		}
		s.Heal()
		await(nil)
		c.holds()
	})
}
