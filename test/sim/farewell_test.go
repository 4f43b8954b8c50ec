// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestLateFarewells tests protocol.md section 5 (end of the wait). A restarted voter is cut off
// from the leader that it acknowledged, and receives a late MemberLeave of an earlier leader.
// Random runs hardly ever combine these events. The test therefore draws the leaders in between,
// the delay of the message and the start of the voter.
func TestLateFarewells(t *testing.T) {
	shown := 0
	for seed := range depth(300) {
		r := randomStream(seed, streamOptions)
		s := steady(3 + r.IntN(3))
		s.Seed, s.Skew = seed, r.IntN(2) == 0
		s.Link = Link{Delay: time.Millisecond, Jitter: 10 * time.Millisecond, Unordered: true}
		c := formed(t, s)
		voter := r.IntN(s.Size)
		arrives := c.Now() + 15*time.Second + drawUpTo(r, 20*time.Second)
		if l := c.Leader(); l == voter || !saysFarewell(c, r, voter, arrives) {
			continue
		}
		leader := c.Leader()
		tm := s.Timings
		c.RunFor(arrives - c.Now() - tm.LeaderTimeout - drawUpTo(r, 2*tm.LeaderTimeout))
		kept := c.check.quorum - 2 // voters that stay connected to the leader, in addition to voter
		for _, o := range r.Perm(s.Size) {
			switch {
			case o == leader || o == voter:
			case kept > 0:
				kept--
			default:
				c.Cut(leader, o)
			}
		}
		c.RunFor(arrives - c.Now() - drawUpTo(r, tm.HeartbeatInterval))
		if c.Leader() == leader && leader != voter {
			shown++
		}
		c.Restart(voter)
		c.Cut(leader, voter)
		c.RunFor(3 * tm.LeaderTimeout)
		if v := c.Violation(); v != nil {
			t.Fatalf("seed %d: %v%s", seed, v, c.Describe())
		}
	}
	if least := int(depth(50)); shown < least {
		t.Errorf("a voter left a leader with authority in %d runs, want %d at least", shown, least)
	}
}

// saysFarewell makes the leader hand over, but holds back the leader's message to one voter until
// the given time. It then lets later leaders hand over. It reports whether another process leads.
func saysFarewell(c *Cluster, r *rand.Rand, voter int, until time.Duration) bool {
	first := c.Leader()
	c.Hold(first, voter, until-c.Now())
	if c.Transfer(first, -1) != nil {
		return false
	}
	c.net.linkOf(first, voter).clogged = 0 // the next messages overtake the delayed one
	for range 1 + r.IntN(4) {
		c.RunFor(drawUpTo(r, 2*time.Second))
		if l := c.Leader(); l >= 0 {
			_ = c.Transfer(l, []int{-1, first}[r.IntN(2)]) // may be refused
		}
	}
	c.RunFor(2 * time.Second)
	return c.Leader() >= 0 && c.Leader() != voter
}

func drawUpTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(d)))
}
