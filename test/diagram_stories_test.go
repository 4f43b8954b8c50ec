// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/athena-go/athena/member"
)

// TestDiagramNormalJoining plays docs/plantuml/NORMAL_JOINING_PROCESS.puml: protocol.md
// sections 3 and 4 for a node that is not a seed.
func TestDiagramNormalJoining(t *testing.T) {
	t.Parallel()
	checkStories(t, "NORMAL_JOINING_PROCESS.puml", []story{{
		part: "the seed knows the leader",
		cast: []string{"seed", "leader", "member"},
		play: func(_ *testing.T, s *stage) {
			c := s.build(3, 0)
			s.form(0, 1)
			s.lead(1)
			s.roll("")
			c.Start(2)
			s.cut("active member", s.showsActive(2))
		},
	}, {
		part: "the node that was named no longer leads",
		cast: []string{"seed", "former", "member", "leader"},
		play: func(_ *testing.T, s *stage) {
			c := s.build(5, 0)
			s.form(0, 1, 3)
			s.lead(1)
			s.roll("")
			c.Start(2)
			s.cut("answer of the seed", s.sent("LeaderResponse(former)", 1))
			c.Pause(2)
			s.lead(3)
			s.roll("")
			c.Resume(2, false)
			s.cut("accepted member", s.sent("JoinClusterResponse(accepted)", 1))
		},
	}, {
		part: "no leader exists",
		cast: []string{"", "seed", "member"},
		play: func(_ *testing.T, s *stage) {
			c := s.build(3, 0, 1)
			s.roll("")
			c.Start(1)
			c.RunFor(lan().RetryInterval / 2)
			c.Start(2)
			s.cut("accepted member", s.sent("JoinClusterResponse(accepted)", 1))
		},
	}})
}

// showsActive reports whether a process shows itself as active.
func (s *stage) showsActive(i int) func() bool {
	return func() bool {
		e, _ := s.c.View(i).Member(s.c.Address(i))
		return e.Status == member.Active
	}
}

// TestDiagramSeedJoining plays docs/plantuml/SEED_JOINING_PROCESS.puml: protocol.md section 4
// for a seed without a state.
func TestDiagramSeedJoining(t *testing.T) {
	t.Parallel()
	checkStories(t, "SEED_JOINING_PROCESS.puml", []story{{
		part: "a leader exists",
		cast: []string{"seed1", "seed2", "leader"},
		play: func(_ *testing.T, s *stage) {
			c := s.build(3, 0, 1)
			// seed1 loses its disk, as if the other two seeds had founded the cluster while seed1 was down.
			// No other store gets its place before it was silent for HeartbeatTimeout.
			s.form(0, 1, 2)
			s.lead(2)
			c.Crash(0)
			c.LoseDisk(0)
			c.RunFor(lan().HeartbeatTimeout + lan().HeartbeatInterval)
			s.roll("")
			c.Start(0)
			s.cut("accepted member", s.sent("JoinClusterResponse(accepted)", 1))
		},
	}, {
		part: "no seed knows a leader",
		cast: []string{"seed1", "seed2"},
		play: func(_ *testing.T, s *stage) {
			c := s.build(2, 0, 1)
			s.roll("")
			c.Start(0)
			c.Start(1)
			s.cut("quorate leader", func() bool { return c.Leader() >= 0 })
		},
	}, {
		part: "no other seed answers",
		cast: []string{"seed1", "seed2"},
		play: func(_ *testing.T, s *stage) {
			c := s.build(3, 0, 1)
			s.dead = "seed2"
			s.roll("")
			c.Start(0)
			s.cut("provisional leader", func() bool { return c.View(0).Role == member.Provisional })
		},
	}})
}

// TestDiagramLeaderConflict plays docs/plantuml/LEADER_CONFLICT_PROCESS.puml: protocol.md section
// 7. The two leaders cannot communicate at first: they learn of each other only from the seed.
func TestDiagramLeaderConflict(t *testing.T) {
	t.Parallel()
	checkStories(t, "LEADER_CONFLICT_PROCESS.puml", []story{{
		part: "the seed follows the loser",
		cast: []string{"seed", "leader2", "leader1"},
		play: func(t *testing.T, s *stage) {
			c := s.build(5, 0, 1, 2)
			s.form(0, 1, 2, 3, 4)
			s.lead(2)
			c.Split(0, 1)
			within(t, c, 4*lan().TTLTimeout, "provisional leader that the seed follows", func() bool {
				return c.View(1).Role == member.Provisional && c.View(0).Leader == c.Address(1)
			})
			s.shift(1)
			s.meet()
			s.roll("SeedKeepAlive(leader1)")
			s.cut("relieved leader", s.sent("LeaderRelieve(leader1)", 1))
			c.Heal()
			s.roll("")
			s.cut("two accepted members", s.sent("JoinClusterResponse(accepted)", 2))
		},
	}, {
		part: "the seed follows the winner",
		cast: []string{"seed", "leader2", "leader1"},
		play: func(t *testing.T, s *stage) {
			c := s.build(3, 0, 1, 2)
			s.form(0, 1, 2)
			s.lead(2)
			c.Isolate(1)
			within(t, c, 4*lan().TTLTimeout, "provisional leader", func() bool {
				return c.View(1).Role == member.Provisional
			})
			s.shift(0)
			s.meet()
			s.roll("SeedKeepAlive(leader2)")
			s.cut("relieved leader", s.sent("LeaderRelieve(leader1)", 1))
			c.Heal()
			s.roll("")
			s.cut("accepted member", s.sent("JoinClusterResponse(accepted)", 1))
		},
	}, {
		part: "the seed belongs to another cluster",
		cast: []string{"seed", "", "leader1"},
		play: func(_ *testing.T, s *stage) {
			s.memory = []int{1, 2}
			c := s.build(3, 0, 1, 2)
			s.form(0, 1, 2)
			// The other two lose their stores and found a new cluster without the seed.
			for i := range 3 {
				c.Crash(i)
			}
			s.form(1, 2)
			s.lead(2)
			s.roll("")
			c.Start(0)
			s.cut("refused seed", s.sent("JoinClusterResponse(other cluster)", 1))
		},
	}})
}

// meet heals the network only between the seed and both leaders, just after leader2 has sent one of
// its periodic queries to its voters.
func (s *stage) meet() {
	s.await("LeaderStatusQuery")
	s.c.Heal()
	s.c.Cut(1, 2)
	for i := 3; i < s.c.Processes(); i++ {
		s.c.Cut(0, i)
		s.c.Cut(1, i)
	}
}
