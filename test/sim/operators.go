// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// This file checks the actions of operators in a healed cluster: draining nodes and handing
// leadership over.

// streamOrders serves the draws of this file.
const streamOrders = -3

// drainSome drains processes in one run of four: some, all, or all but one. L1 and L2 must
// hold regardless.
func (j *judge) drainSome() {
	c, r := j.c, j.orders
	if r.IntN(4) > 0 {
		return
	}
	order := r.Perm(c.setup.Processes)
	n := len(order) - r.IntN(2)
	if r.IntN(2) == 0 {
		n = r.IntN(len(order) + 1)
	}
	order = order[:n]
	c.noteRun(Phase, "drains %v", processNames(order))
	for _, i := range order {
		c.Drain(i)
	}
}

// emptyBound empties the store of each running process that has no vote and is bound above the
// version of the leader, as an operator does who reads that such a node stays outside (protocol.md
// section 3).
func (j *judge) emptyBound() {
	c := j.c
	held := c.procs[c.Leader()].store.Held
	for i, p := range c.procs {
		if !p.isUp() || held.Roster.IsVoter(p.voter()) || p.store.Least() <= held.Version ||
			!c.mayForget(i) {
			continue
		}
		c.noteRun(Phase, "the store of %s is emptied", p.cfg.Name)
		c.Crash(i)
		c.LoseDisk(i)
		p.floor = 0
		c.Start(i)
		j.emptied++
	}
}

// drainedDelay returns the additional time for an election without some processes. It is 2 x
// LeaderTimeout if all other running voters are drained (L1), otherwise 0.
func (j *judge) drainedDelay(without ...int) time.Duration {
	c := j.c
	stands := func(p *process) bool {
		return p.isUp() && p.mayLead() && !slices.Contains(without, p.index) && c.hasVote(p)
	}
	if slices.ContainsFunc(c.procs, stands) {
		return 0
	}
	return 2 * c.setup.Timings.LeaderTimeout
}

// checkHandOver checks invariant L5. In some runs, a member crashes just before the hand-over, or
// is cut off from all but the leader. checkHandOver reports whether leadership moved.
func (j *judge) checkHandOver() bool {
	c, t, r := j.c, j.c.setup.Timings, j.orders
	old := c.Leader()
	version := c.Authority(old)
	able := j.listSuccessors(old)
	if len(able) == 0 {
		if c.missesMember(old) {
			return false // The leader may hand over to a member that is down.
		}
		if err := c.Transfer(old, -1); !errors.Is(err, statemachine.ErrNotActive) {
			c.check.noteViolation("L5",
				"%s has no possible successor, but the transfer returned %v, want ErrNotActive",
				nameOf(old), err)
		}
		return false
	}
	to := -1
	if r.IntN(3) == 0 {
		to = able[r.IntN(len(able))]
	}
	bound, lost := 5*j.roundTrip(), -1
	if dead := able[r.IntN(len(able))]; r.IntN(2) == 0 && len(able) > 1 && j.canLose(dead) {
		defer j.loseSuccessor(dead, old)()
		if lost = dead; dead == to {
			bound += t.HeartbeatInterval // the leader waits for the vote of the lost member
		}
	}
	if c.Authority(old) != version {
		return false // it has handed over to a preferred member
	}
	free := !c.waitsAfterStart(c.procs[old]) && j.countFreeVoters(old, lost) >= c.check.quorum
	start := c.now
	c.noteRun(Phase, "%s hands over", nameOf(old))
	if err := c.Transfer(old, to); err != nil {
		c.check.noteViolation("L5", "%s refused to hand over leadership: %v", nameOf(old), err)
		return false
	}
	limit := 2 * t.LeaderTimeout
	if free {
		limit = bound + 2*t.HeartbeatInterval
	}
	moved := func() bool { return c.Leader() >= 0 && c.Authority(c.Leader()) > version }
	if !c.RunUntil(limit, moved) {
		j.noteFailure("L5", "no other leader within %v of the transfer by %s", limit, nameOf(old))
		return false
	}
	if free {
		j.recordMeasure("leader after a transfer", start, bound)
		if c.Leader() == old {
			j.noteFailure("L5", "%s leads again after it transferred leadership", nameOf(old))
		}
	}
	return true
}

// loseSuccessor crashes a process or, if it could not get authority then, cuts it off from all but
// the leader, until what it heard from others no longer proves a link. The returned function undoes
// this.
func (j *judge) loseSuccessor(i, leader int) func() {
	c := j.c
	if c.check.quorum == 2 || j.orders.IntN(2) == 0 {
		c.Crash(i)
		return func() { c.Start(i) }
	}
	for o := range c.procs {
		if o != i && o != leader {
			c.Cut(i, o)
		}
	}
	c.RunFor(2 * c.setup.Timings.HeartbeatInterval)
	return func() {
		for o := range c.procs {
			if o != i {
				c.Mend(i, o)
			}
		}
	}
}

// listSuccessors lists the processes that may succeed the leader in a settled cluster.
func (j *judge) listSuccessors(leader int) []int {
	var able []int
	held := j.c.procs[leader].store.Held
	for _, p := range j.c.procs {
		m, _ := held.Roster.Find(p.cfg.Address)
		if p.index != leader && p.isUp() && p.mayLead() && m.Identity == p.identity() &&
			m.Shown() == member.Active {
			able = append(able, p.index)
		}
	}
	return able
}

// missesMember reports whether a member that the leader considers active is down.
func (c *Cluster) missesMember(leader int) bool {
	return slices.ContainsFunc(c.procs[leader].store.Held.Roster, func(m member.Member) bool {
		return m.Shown() == member.Active && !slices.ContainsFunc(c.procs, func(p *process) bool {
			return p.isUp() && p.identity() == m.Identity
		})
	})
}

// canLose reports whether a quorum of voters remains if a process crashes.
func (j *judge) canLose(i int) bool {
	c := j.c
	roster := c.procs[c.Leader()].store.Held.Roster
	return !c.procs[i].cfg.Volatile && c.votersUp(roster) > c.check.quorum
}

// countFreeVoters counts the running voters of a leader's state, but for a lost process, that would
// vote for a successor. Voters with a memory store do not vote while they wait after a start
// (protocol.md section 5).
func (j *judge) countFreeVoters(leader, lost int) int {
	c := j.c
	return c.countVoters(c.procs[leader].store.Held.Roster, func(v member.Voter) bool {
		return slices.ContainsFunc(c.procs, func(p *process) bool {
			return p.index != lost && p.isUp() && p.voter() == v && !c.waitsAfterStart(p)
		})
	})
}

// waitsAfterStart reports whether a process has a memory store and does not vote yet. A leader that
// does not vote yet cannot propose a successor.
func (c *Cluster) waitsAfterStart(p *process) bool {
	return p.cfg.Volatile && p.clock.at(c.now).Before(p.machine.VotesAt())
}

// checkDrainedLeader checks that a drained node does not lead if another member could.
func (j *judge) checkDrainedLeader() {
	c := j.c
	if l := c.Leader(); !c.procs[l].mayLead() && len(j.listSuccessors(l)) > 0 {
		j.noteFailure("L5",
			"%s leads although it leaves leadership to others and another member could lead", nameOf(l))
	}
}
