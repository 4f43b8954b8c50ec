// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
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
// lost member is kept.
func drawClaims(r *rand.Rand, p *Plan) {
	s := &p.Setup
	if r.IntN(4) == 0 {
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
	if p.isStarted() || !x.c.mayClaim(p) {
		return false
	}
	x.c.startClaim(p)
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

// mayClaim reports whether the process with the address of claimant p is a member. An address
// without a member belongs to the process that greets from it first (protocol.md 8, claims).
func (c *Cluster) mayClaim(p *process) bool { return c.hasVote(c.procs[p.home]) }

// startClaim starts claimant p. If it has the address of a seed and may take part in a founding, it
// counts as a seed that lost its store: so many may do so that they are no majority of the seeds.
func (c *Cluster) startClaim(p *process) {
	if p.cfg.JoinOnly = p.isSeed() && !c.check.mayBeBlank(p.cfg.Address); !p.cfg.JoinOnly {
		c.check.noteClaimedSeed(p.cfg.Address)
	}
	c.Start(p.index)
}

// claimed is what the checker knows about claimants.
type claimed struct {
	stores map[member.StoreID]bool
	seeds  []bool                  // set for seeds whose address a claimant has that may found
	placed map[member.Address]bool // set for addresses at which a claimant was a member
}

func newClaimed(seeds int) claimed {
	return claimed{
		stores: map[member.StoreID]bool{},
		seeds:  make([]bool, seeds),
		placed: map[member.Address]bool{},
	}
}

// mayBeBlank reports whether one more seed may have no store without being able to repeat a
// founding.
func (k *checker) mayBeBlank(seed member.Address) bool {
	i := slices.Index(k.seeds, seed)
	return k.claimed.seeds[i] || k.blankSeeds()+1 < member.Quorum(len(k.seeds))
}

// noteClaimedSeed records that a claimant may take part in a founding as a seed.
func (k *checker) noteClaimedSeed(seed member.Address) {
	if i := slices.Index(k.seeds, seed); i >= 0 {
		k.claimed.seeds[i] = true
	}
}

// noteClaimant records the store of a claimant.
func (k *checker) noteClaimant(p *process) {
	if p.claims {
		k.claimed.stores[p.store.StoreID] = true
	}
}

// checkClaimants checks that no claimant got the place of a member. The process that made state s
// after state last is p.
func (k *checker) checkClaimants(p *process, last, s member.State) {
	if len(k.claimed.stores) == 0 {
		return
	}
	for _, m := range s.Roster {
		if !k.claimed.stores[m.StoreID] {
			continue
		}
		k.claimed.placed[m.Address] = true
		if o, ok := last.Roster.Find(m.Address); ok && o.StoreID != m.StoreID {
			k.noteBroken("claim", "%s gives the place of %v to a process that cannot be dialed: "+
				"%s after %s", p.cfg.Name, m.Address, formatState(s), formatState(last))
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

// startClaims starts all claimants of addresses of members, and restarts them every second, and
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
		if c.mayClaim(p) {
			c.noteRun(Phase, "a claimant has the address of %s", p.cfg.Name)
			repeat(time.Second, func() {
				c.Crash(p.index)
				c.startClaim(p)
			})
		}
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
