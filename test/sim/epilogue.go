// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// roundTrip is an upper bound for a round trip in the calm network.
func (j *judge) roundTrip() time.Duration { return j.c.setup.Timings.HeartbeatInterval / 10 }

// checkMinorityFaults checks invariant L3 while members of a minority crash, restart, are
// paused and lose their links to the leader.
func (j *judge) checkMinorityFaults() {
	c, t, r := j.c, j.c.setup.Timings, j.rand
	leader := c.Leader()
	var weak []int
	for _, i := range r.Perm(c.setup.Processes) {
		spare := c.votersUp(c.procs[leader].store.Held.Roster) - len(weak) - c.check.quorum
		if i != leader && spare > 0 && c.procs[i].isUp() && c.hasVote(c.procs[i]) {
			weak = append(weak, i)
		}
	}
	if len(weak) == 0 {
		return
	}
	c.noteRun(Phase, "disturbs %v", processNames(weak))
	over := false
	var next func()
	next = func() {
		if over {
			return
		}
		i := weak[r.IntN(len(weak))]
		d := time.Duration(drawSpread(r, float64(t.HeartbeatInterval), 3*float64(t.LeaderTimeout)))
		switch r.IntN(5) {
		case 0:
			c.Pause(i)
			c.After(d, func() { c.Resume(i, r.IntN(2) == 0) })
		case 1:
			if !c.procs[i].cfg.Volatile {
				c.Crash(i)
				c.After(d, func() { c.Start(i) })
			}
		default:
			pairs := []pair{{i, leader}, {leader, i}, {i, weak[0]}}[r.IntN(3):]
			c.cutPairs(pairs, 1)
			c.After(d, func() { c.cutPairs(pairs, -1) })
		}
		c.After(d/2, next)
	}
	next()
	j.checkSteady(4*t.TTLTimeout, "because of a minority that was cut off", weak...)
	over = true
}

// processNames formats processes.
type processNames []int

func (n processNames) String() string {
	all := make([]string, len(n))
	for i, process := range n {
		all[i] = nameOf(process)
	}
	return strings.Join(all, ", ")
}

// checkCrash checks invariant L1 after the leader of a healthy cluster has crashed.
func (j *judge) checkCrash() {
	c, t := j.c, j.c.setup.Timings
	start := c.now
	c.noteRun(Phase, "the leader crashes")
	old := c.Leader()
	if c.procs[old].cfg.Volatile && !c.mayForget(old) {
		c.Pause(old)
	} else {
		c.Crash(old)
	}
	drained, best := j.drainedDelay(old), j.bestPreference(old)
	// An earlier fault may restart the crashed leader, and it may lead again.
	run := c.procs[old].identity()
	next := func() bool {
		return c.Leader() >= 0 && (c.Leader() != old || c.procs[old].identity() != run)
	}
	if limit := 2*t.TTLTimeout + drained; !c.RunUntil(limit, next) {
		j.noteFailure("L1", "still no quorate leader %v after the last one crashed", limit)
		return
	}
	j.recordMeasure("leader after a crash", start,
		t.LeaderTimeout+3*t.HeartbeatInterval+8*j.roundTrip()+drained)
	j.checkElected(best)
	j.checkSteady(t.TTLTimeout, "after a failover")
}

// isolateLeader checks invariants L4 and L2: an isolated leader is replaced. Later it rejoins
// without disturbing the cluster.
func (j *judge) isolateLeader() {
	c, t := j.c, j.c.setup.Timings
	old, start := c.Leader(), c.now
	c.noteRun(Phase, "the leader is isolated")
	side, limit := j.cutLeader(old), 2*t.TTLTimeout
	if len(side) > 1 {
		// The connected members hear the leader for longer. Section 11 allows 2.5 x LeaderTimeout.
		limit = max(limit, 5*t.LeaderTimeout/2)
	}
	if !c.hasCandidate(side...) {
		c.healLinks(calmLink(t))
		return
	}
	// Members that still hear the leader notice its loss later than the others.
	drained := j.drainedDelay(side...)
	limit += drained
	replaced := func() bool { return c.Leader() >= 0 && c.Leader() != old }
	if !c.RunUntil(limit, replaced) {
		j.noteFailure("L4", "%s is cut off, but has not been replaced within %v", nameOf(old), limit)
		return
	}
	j.recordMeasure("leader after isolation", start, 5*t.LeaderTimeout/2+drained)
	c.RunFor(time.Duration(j.rand.Int64N(int64(2 * t.TTLTimeout))))
	if c.check.first != nil || c.Leader() < 0 {
		return
	}
	leader, version := c.Leader(), c.Authority(c.Leader())
	// A leader that was drained or has become a witness hands over as soon as it can.
	yields := !c.procs[leader].mayLead() && slices.ContainsFunc(c.procs,
		func(p *process) bool { return p.isUp() && p.mayLead() })
	start = c.now
	c.healLinks(calmLink(t))
	if !c.RunUntil(2*t.TTLTimeout+5*t.RetryInterval, c.Settled) {
		j.noteFailure("L2", "not all members are active after the isolated leader reconnected")
		return
	}
	if yields {
		j.checkDrainedLeader()
		return
	}
	j.recordMeasure("all active after a heal", start, 4*t.HeartbeatInterval+4*j.roundTrip())
	if c.Leader() != leader || c.Authority(leader) != version {
		j.noteFailure("L3", "%s lost its authority for version %d to the reconnected former leader",
			nameOf(leader), version)
		return
	}
	j.checkSteady(t.TTLTimeout, "after another member had been cut off")
}

// cutLeader cuts the leader off from the others. It may stay connected to some members, but too few
// for a lease. cutLeader returns the leader and these members.
func (j *judge) cutLeader(leader int) (side []int) {
	kept := j.rand.IntN(max(j.c.check.quorum-1, 1))
	side = []int{leader}
	for _, o := range j.rand.Perm(len(j.c.procs)) {
		switch {
		case o == leader:
		case kept > 0:
			kept--
			side = append(side, o)
		default:
			j.c.Cut(leader, o)
		}
	}
	return side
}

// checkLeaving checks that a transfer moves leadership, and that a leaving member is
// removed soon and permanently.
func (j *judge) checkLeaving() {
	c, t, r := j.c, j.c.setup.Timings, j.rand
	if !j.checkHandOver() {
		return
	}
	c.RunFor(2 * t.HeartbeatInterval)
	if c.check.first != nil || !c.Settled() {
		return
	}
	who := r.IntN(c.setup.Processes)
	if p := c.procs[who]; !p.isUp() || !c.hasVote(p) || !c.hasCandidate(who) ||
		p.cfg.Volatile && !c.mayForget(who) {
		return
	}
	start, drained := c.now, j.drainedDelay(who)
	c.noteRun(Phase, "%s leaves", nameOf(who))
	c.Leave(who)
	if !c.RunUntil(2*t.LeaderTimeout, func() bool { return !c.Up(who) }) {
		c.check.noteViolation("leave", "%s has not left within %v", nameOf(who), 2*t.LeaderTimeout)
		return
	}
	j.recordExpected("stopped after leave", start, t.LeaderTimeout)
	if err := c.stopped[len(c.stopped)-1].Err; !errors.Is(err, statemachine.ErrLeft) {
		c.check.noteViolation("leave", "%s stopped with %v, want ErrLeft", nameOf(who), err)
		return
	}
	gone := func() bool {
		if !c.Settled() {
			return false
		}
		m, ok := c.View(c.Leader()).Member(c.Address(who))
		return !ok || m.Status == member.Removed
	}
	// A leaving leader whose hand-over fails stops without notifying a successor.
	if limit := 2*t.TTLTimeout + drained; !c.RunUntil(limit, gone) {
		c.check.noteViolation("leave", "%s has left, but was not removed within %v", nameOf(who), limit)
		return
	}
	j.recordExpected("removed after leave", start, 2*t.LeaderTimeout+drained)
}
