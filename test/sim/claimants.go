// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/member"
)

// This file contains the fault of a process that has the address of a member by mistake. The
// process listens elsewhere, so no process reaches it by that address, and its supervisor restarts
// it again and again. It must never get the place of the member.

// streamClaims determines the claimants, the impostors and the SeatTimeout of a run, and
// streamClaimFaults draws the faults of both classes.
const (
	streamClaims      = -13
	streamClaimFaults = -14
)

// drawClaims draws whether processes claim the addresses of members, and for how long the seat of a
// lost member is kept. A process that claims the address of a cluster of one would itself be a
// cluster of one.
func drawClaims(r *rand.Rand, p *Plan) {
	s := &p.Setup
	if r.IntN(4) == 0 && s.Size > 1 {
		p.Faults |= Claimants
		for range 1 + r.IntN(2) {
			s.Claimants = append(s.Claimants, r.IntN(s.Processes))
		}
	}
	if r.IntN(4) == 0 {
		p.Faults |= Impostors
	}
	if r.IntN(2) == 0 {
		s.SeatTimeout = time.Duration(1+r.IntN(4)) * s.Timings.TTLTimeout
	}
}

// drawClaimant draws which claimant starts, and the time between its restarts.
func (x *chaos) drawClaimant(f *Fault) {
	f.Lasts = x.drawDuration()
	f.Args = []int64{
		x.rand.Int64N(int64(len(x.plan.Setup.Claimants))),
		int64(time.Second/2 + x.drawUpTo(time.Second)),
	}
}

// startClaimant starts a claimant, restarts it again and again, and stops it.
func (x *chaos) startClaimant(f Fault) bool {
	all := x.c.claimants()
	if len(f.Args) < 2 || f.Args[0] < 0 || int(f.Args[0]) >= len(all) || f.Args[1] < shortest {
		return false
	}
	p, period, end := all[f.Args[0]], time.Duration(f.Args[1]), x.c.now+f.Lasts
	if p.isStarted() {
		return false
	}
	x.c.Start(p.index)
	var again func()
	again = func() {
		if x.c.now >= end {
			x.c.Crash(p.index)
			return
		}
		x.c.Restart(p.index)
		x.callLater(period, again)
	}
	x.callLater(period, again)
	return true
}

// noteClaimant records the store of a claimant.
func (k *checker) noteClaimant(p *process) {
	if p.claims {
		k.claimants[p.store.StoreID] = true
	}
}

// checkClaimants checks that no claimant gets a place. The process that made state s is p.
func (k *checker) checkClaimants(p *process, s member.State) {
	if len(k.claimants) == 0 {
		return
	}
	for _, m := range s.Roster {
		if k.claimants[m.StoreID] {
			k.noteBroken("claim", "%s gives the place of %v to a process that cannot be dialed: %s",
				p.cfg.Name, m.Address, formatState(s))
		}
	}
}

// checkReplaced checks that a leader that gives the place of member o in state last to another
// store has not heard the member within HeartbeatTimeout, unless the member left on purpose.
func (k *checker) checkReplaced(p *process, last member.State, o member.Member) {
	heard := k.kept[keptKey{p.index, o.Identity}].unbound
	timeout := int64(p.longestTimings().HeartbeatTimeout) / rateMax * rateUnit // on the fastest clock
	if heard > 0 && !o.Resigned && p.stepAt-heard < timeout {
		k.noteBroken("claim", "%s gives the place of %v to another store, but heard the member %v ago, "+
			"want at least %v: %s", p.cfg.Name, o.Address, time.Duration(p.stepAt-heard),
			time.Duration(timeout), formatState(last))
	}
}

// startClaims starts all claimants, and restarts them every second, and
// sends messages of impostors to all processes, until the function that it returns is called. None
// of them may disturb a healthy cluster.
func (j *judge) startClaims() (stop func()) {
	c, t, over := j.c, j.c.setup.Timings, false
	repeat := func(period time.Duration, f func()) {
		var turn func()
		turn = func() {
			if !over {
				f()
				c.After(period, turn)
			}
		}
		turn()
	}
	for _, p := range c.claimants() {
		c.noteRun(Phase, "a claimant has the address of %s", p.cfg.Name)
		repeat(time.Second, func() {
			c.Crash(p.index)
			c.Start(p.index)
		})
	}
	if j.x.plan.Faults&Impostors != 0 {
		r, all := randomStream(c.setup.Seed, streamClaimFaults), c.setup.Processes
		repeat(t.HeartbeatInterval/2, func() {
			up := uint64(drawSpread(r, 1, float64(longest)))
			c.impersonate(r.IntN(all), r.IntN(all+1)-1, r.Int64N(impostorKinds), up)
		})
	}
	return func() {
		over = true
		for _, p := range c.claimants() {
			c.Crash(p.index)
		}
	}
}
