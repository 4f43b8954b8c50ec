// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/test/sim"
)

// TestDiagramLeaderElect plays docs/plantuml/LEADER_ELECT.puml: protocol.md section 6.
func TestDiagramLeaderElect(t *testing.T) {
	t.Parallel()
	three := []string{"other", "follower", "leader"}
	five := []string{"follower", "rival", "other", "", "leader"}
	checkStories(t, "LEADER_ELECT.puml", []story{
		{"elected", three, playElected},
		{"the leader is healthy for the others", three, playHealthy},
		{"pre refused", five, playPreRefused},
		{"formal refused", five, playFormalRefused},
		{"an accepted value is adopted", []string{"follower", "other", "leader"}, playAdopted},
		{"the leader hands over", three, playHandOver},
	})
}

// formUnder starts a number of processes, all of them seeds, with the last one as the leader.
func (s *stage) formUnder(size int) *sim.Cluster {
	ids := make([]int, size)
	for i := range ids {
		ids[i] = i
	}
	c := s.build(size, ids...)
	s.form(ids...)
	s.lead(size - 1)
	return c
}

func playElected(_ *testing.T, s *stage) {
	c := s.formUnder(3)
	c.Drain(0) // Process 0 votes but does not stand for election, so that there is only one candidate.
	s.rest()
	c.Crash(2)
	s.dead = "leader"
	s.roll("LeaderStatusQuery")
	s.cut("quorate leader", func() bool { return c.Leader() == 1 })
}

func playHealthy(_ *testing.T, s *stage) {
	c := s.formUnder(3)
	c.Cut(1, 2)
	c.RunFor(lan().HeartbeatTimeout) // The leader reports the follower as unreachable.
	s.shift(0)
	s.roll("LeaderStatusQuery")
	s.cut("answer", s.sent("LeaderStatusQueryResponse(healthy)", 1))
}

// playPreRefused delays the pre-proposal of the follower until a rival has received promises.
func playPreRefused(_ *testing.T, s *stage) {
	c := s.formUnder(5)
	c.Crash(4)
	s.dead = "leader"
	s.await("LeaderStatusQueryResponse(not healthy)")
	s.holdFrom(0, 20*time.Millisecond, 1, 2, 3)
	s.roll("Proposal(pre)")
	s.await("Vote(pre, yes)")
	s.holdFrom(1, 60*time.Millisecond, 0, 2, 3)
	s.cut("refusal", s.sent("Vote(pre, no: promised)", 1))
}

// playFormalRefused lets a rival receive promises between the two proposals of the follower. The
// follower cannot reach that rival.
func playFormalRefused(_ *testing.T, s *stage) {
	c := s.formUnder(5)
	c.Crash(4)
	s.dead = "leader"
	s.await("LeaderStatusQueryResponse(not healthy)")
	c.CutOneWay(0, 1)
	s.roll("Proposal(pre)")
	s.await("Vote(pre, yes)")
	s.holdFrom(0, 20*time.Millisecond, 2, 3)
	s.await("Proposal(formal)")
	s.await("Vote(pre, yes)")
	s.holdFrom(1, 60*time.Millisecond, 0, 2, 3)
	s.cut("refusal", s.sent("Vote(formal, no: promised)", 1))
}

// holdFrom delays the messages from a process to all others by d.
func (s *stage) holdFrom(from int, d time.Duration, to ...int) {
	for _, i := range to {
		s.c.Hold(from, i, d)
	}
}

// playAdopted drops the votes for the follower, so that another voter proposes the same value.
func playAdopted(_ *testing.T, s *stage) {
	c := s.formUnder(3)
	c.Crash(2)
	s.dead = "leader"
	s.await("Vote(pre, yes)")
	s.roll("Proposal(formal)")
	c.Lose = func(from, to int, k message.Kind) bool {
		return from == 1 && to == 0 && k == message.KindVote
	}
	s.cut("elected follower", s.sent("LeaderElected(follower)", 1))
}

func playHandOver(t *testing.T, s *stage) {
	c := s.formUnder(3)
	s.rest()
	s.roll("")
	if err := c.Transfer(2, 1); err != nil {
		t.Fatal(err)
	}
	s.cut("quorate leader", func() bool { return c.Leader() == 1 })
}

// TestDiagramKeepAlive plays docs/plantuml/KEEP_ALIVE.puml: protocol.md section 5.
func TestDiagramKeepAlive(t *testing.T) {
	t.Parallel()
	cast := []string{"follower", "other", "leader"}
	checkStories(t, "KEEP_ALIVE.puml", []story{
		{"a steady interval", cast, playInterval},
		{"a member is silent and returns", cast, playSilence},
		{"the leader loses its majority", cast, playLostMajority},
	})
}

func playInterval(_ *testing.T, s *stage) {
	s.formUnder(3)
	s.roll("LeaderKeepAliveAck(stamp)")
	s.c.RunFor(2 * lan().HeartbeatInterval)
	s.rolling = false
}

func playSilence(_ *testing.T, s *stage) {
	c := s.formUnder(3)
	c.Isolate(0)
	s.roll("MemberStatusUpdate(follower unreachable)")
	s.cut("unreachable", s.sent("MemberStatusUpdate(follower unreachable)", 1))
	c.RunFor(lan().HeartbeatInterval / 2)
	c.Heal()
	s.roll("")
	s.cut("active", s.sent("MemberStatusUpdate(follower active)", 1))
}

func playLostMajority(_ *testing.T, s *stage) {
	c := s.formUnder(3)
	c.Isolate(2)
	s.roll("ReJoinCluster(no leader)")
	s.cut("step down", s.sent("ReJoinCluster(no leader)", 2))
}
