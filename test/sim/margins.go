// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// A run at the margins (Plan.margins) tests how much clock drift is tolerated by leases, the hold
// of records and the wait after a start. Some clocks have the slowest rate. All others, at least a
// quorum, have the fastest rate. The network is fast, so that a new leader or owner uses little of
// the margin. The faults occur in sequences, because independent faults almost never occur in these
// orders. Each sequence starts when the cluster has settled.

// streamMargins is used only in runs at the margins.
const streamMargins = -7

// atMargins selects one in eight runs with 3 to 5 members. With fewer members, the fast clocks are
// not a majority. More members only cost time.
func atMargins(r *rand.Rand, size int) bool {
	return r.IntN(8) == 0 && size >= 3 && size <= 5
}

// drawMargins changes the plan to a run at the margins. Half of these runs also have other faults,
// but these are so rare that the cluster settles in between.
func drawMargins(r *rand.Rand, p *Plan, o Options) {
	s := &p.Setup
	s.Processes, s.Twins, s.Volatile, s.Rejects, s.Claimants = s.Size, nil, nil, nil, nil
	s.Seeds = r.Perm(s.Size)
	s.Skew, s.Keys = true, 1
	s.Slow = r.Perm(s.Size)[:1+r.IntN(s.Size-member.Quorum(s.Size))]
	t := &s.Timings
	t.TTLTimeout = t.LeaderTimeout * time.Duration(1+r.IntN(2))
	s.Link = Link{
		Delay:  1 + time.Duration(r.Int64N(int64(t.HeartbeatInterval/50))),
		Jitter: t.HeartbeatInterval / 400,
	}
	others := p.Faults & (Breaks | Pauses | Crashes | Interrupts | Operators)
	p.Faults = Skew
	if r.IntN(2) == 0 {
		p.Faults |= others
	}
	p.Starts = p.Starts[:s.Processes]
	p.pace, p.guided, p.Reckless = 4*t.LeaderTimeout, 0.01, false
	if p.For = t.LeaderTimeout * time.Duration(25+r.IntN(25)); o.For > 0 {
		p.For = o.For
	}
	p.margins, p.without = true, o.Without
}

// runSequence waits until the cluster has settled and then runs a sequence of faults. Each
// sequence calls runSequence when it ends.
func (x *chaos) runSequence() {
	t := x.plan.Setup.Timings
	x.waitUntil(4*t.LeaderTimeout, x.c.Settled, func() {
		x.callLater(x.drawUpTo(t.HeartbeatInterval), func() {
			switch x.rand.IntN(3) {
			case 0:
				x.silenceLeader()
			case 1:
				x.silenceOwner()
			default:
				x.restartAndCut()
			}
		})
	})
}

// waitUntil calls f when cond is true or limit has passed.
func (x *chaos) waitUntil(limit time.Duration, cond func() bool, f func()) {
	step := x.plan.Setup.Timings.HeartbeatInterval / 8
	if limit < step || cond() {
		f()
		return
	}
	x.callLater(step, func() { x.waitUntil(limit-step, cond, f) })
}

// inflictFault applies and records a fault of a sequence.
func (x *chaos) inflictFault(f Fault) {
	if x.plan.without&f.Class != 0 {
		return
	}
	f.At = x.c.now
	x.c.recording.recordFault(f)
	x.applyFault(f)
}

// cutFor cuts links for d and calls f after they have healed. This order is the same in a replay.
func (x *chaos) cutFor(d time.Duration, pairs []pair, f func()) {
	cut := Fault{Class: Cuts, Lasts: int64(d)}
	for _, p := range pairs {
		cut.Args = append(cut.Args, p.packPair())
	}
	x.inflictFault(cut)
	x.callLater(d+1, f)
}

// drawAbout draws a duration from 3/4 to 5/4 of d. If d is a limit, a silence of this duration ends
// shortly before or after the limit.
func (x *chaos) drawAbout(d time.Duration) time.Duration { return d*3/4 + x.drawUpTo(d/2) }

// handOverTo transfers leadership to a process. It calls f soon after the cluster has settled with
// this leader or LeaderTimeout has passed.
func (x *chaos) handOverTo(to int, f func()) {
	if l := x.c.Leader(); l >= 0 && l != to {
		x.inflictFault(Fault{Class: Operators, Who: l, Args: []int64{2, int64(to) + 1}})
	}
	t := x.plan.Setup.Timings
	x.waitUntil(t.LeaderTimeout, func() bool { return x.c.Leader() == to && x.c.Settled() }, func() {
		x.callLater(x.drawUpTo(2*t.HeartbeatInterval), f)
	})
}

// drawByClock draws a process with a slow or with a fast clock.
func (x *chaos) drawByClock(slow bool) int {
	order := x.rand.Perm(x.plan.Setup.Size)
	i := slices.IndexFunc(order, func(p int) bool {
		return slices.Contains(x.plan.Setup.Slow, p) == slow
	})
	return order[i]
}

// silenceLeader cuts off a leader with a slow clock, one way or both ways, for about LeaderTimeout.
// The support of its followers then ends early, and its own lease ends late.
func (x *chaos) silenceLeader() {
	slow := x.drawByClock(true)
	x.handOverTo(slow, func() {
		var pairs []pair
		for o := range x.c.procs {
			if o != slow {
				pairs = append(pairs, pair{slow, o})
			}
		}
		if x.rand.IntN(2) == 0 {
			for _, p := range pairs {
				pairs = append(pairs, pair{p.to, p.from})
			}
		}
		x.cutFor(x.drawAbout(x.plan.Setup.Timings.LeaderTimeout), pairs, x.runSequence)
	})
}

// silenceOwner separates the owner of a record from the leader, one way or both ways, for about
// HoldTimeout. The owner has a slow clock and the leader a fast one. Meanwhile other processes keep
// requesting the record (holders.sendRequest).
func (x *chaos) silenceOwner() {
	t := x.plan.Setup.Timings
	x.handOverTo(x.drawByClock(false), func() {
		slow := x.drawByClock(true)
		owns := func() bool { // there may be no request for a record yet
			return len(x.c.keys) > 0 && !x.c.Holds(slow, x.c.keys[0]).IsZero()
		}
		x.waitUntil(t.HoldTimeout(), owns, func() {
			l := x.c.Leader()
			if l < 0 || l == slow {
				x.runSequence()
				return
			}
			pairs := []pair{{slow, l}, {l, slow}}[:1+x.rand.IntN(2)]
			x.cutFor(x.drawAbout(t.HoldTimeout()), pairs, x.runSequence)
		})
	})
}

// restartAndCut restarts M-1 voters and simultaneously cuts them and one other member off from
// their leader. In half of the cases the other member was isolated before, for long enough to
// declare itself a provisional leader.
func (x *chaos) restartAndCut() {
	t := x.plan.Setup.Timings
	l := x.c.Leader()
	if l < 0 {
		x.runSequence()
		return
	}
	order := x.rand.Perm(x.plan.Setup.Size)
	order = append(slices.DeleteFunc(order, func(i int) bool { return i == l }), l)
	quorum := member.Quorum(x.plan.Setup.Size)
	restart := func() {
		f := Fault{Class: Crashes, Who: order[1]}
		for _, i := range order[2:quorum] {
			f.Args = append(f.Args, int64(i), 0)
		}
		x.cutFor(x.drawAbout(t.LeaderTimeout), cutSides(order, quorum), x.runSequence)
		x.inflictFault(f)
	}
	if x.rand.IntN(2) == 0 {
		restart()
		return
	}
	alone := t.LeaderTimeout + giveUp*t.TTLTimeout + x.drawUpTo(t.LeaderTimeout)
	x.cutFor(alone, cutSides(order, 1), restart)
}

// giveUp x TTLTimeout is the time without a chosen leader after which a seed that holds a state
// declares itself a provisional leader (protocol.md section 4).
const giveUp = 3
