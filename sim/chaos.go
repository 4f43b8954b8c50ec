// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/statemachine"
)

// chaos lets faults happen to a cluster, until it is told to end.
type chaos struct {
	c      *Cluster
	plan   plan
	rand   *rand.Rand
	over   bool
	counts [len(faultNames)]int
	deeds  []deed
}

// deed is a fault of one class that chaos can choose.
type deed struct {
	class Faults
	do    func()
}

func newChaos(c *Cluster, p plan) *chaos {
	x := &chaos{c: c, plan: p, rand: stream(p.setup.Seed, streamFaults)}
	for _, d := range []deed{
		{Cuts, x.cutLink},
		{Partitions, x.partition},
		{Pauses, x.pause},
		{Crashes, x.crash},
		{Crashes, x.crash},
		{LostDisks, x.loseDisk},
		{Operators, x.operate},
		{Twins, x.twin},
		{Delay, x.clog},
		{Loss, x.weather},
	} {
		if p.faults&d.class != 0 {
			x.deeds = append(x.deeds, d)
		}
	}
	return x
}

// begin starts the processes and the faults.
func (x *chaos) begin() {
	for _, i := range x.rand.Perm(x.plan.setup.Processes) {
		x.c.After(x.upTo(x.plan.stagger), func() { x.c.Start(i) })
	}
	if x.plan.faults&Crashes != 0 {
		x.c.Interrupt = x.interrupt
	}
	x.c.Ended = x.supervise
	if len(x.deeds) > 0 {
		x.next()
	}
}

// supervise starts a process again that stopped for a fault, also when chaos
// is over, unless another one has its address.
func (x *chaos) supervise(i int, err error) {
	if errors.Is(err, statemachine.ErrLeft) {
		return
	}
	x.c.After(x.plan.setup.Timings.RetryInterval, func() {
		if p := x.c.procs[i]; i < x.plan.setup.Processes && (!x.over || !x.c.occupied(p)) {
			x.c.Start(i)
		}
	})
}

// end stops the faults. What waits for its time does nothing any more.
func (x *chaos) end() {
	x.over = true
	x.c.Interrupt = nil
}

func (x *chaos) next() {
	wait := time.Duration(x.rand.ExpFloat64() * float64(x.plan.pace))
	x.later(wait, func() {
		x.deed()
		if x.rand.IntN(6) == 0 {
			x.storm()
		}
		x.next()
	})
}

func (x *chaos) deed() { x.deeds[x.rand.IntN(len(x.deeds))].do() }

// storm lets several faults fall into one LeaderTimeout, as long as elections
// and leases are open.
func (x *chaos) storm() {
	for range 2 + x.rand.IntN(4) {
		x.later(x.upTo(x.plan.setup.Timings.LeaderTimeout), x.deed)
	}
}

// later calls f after d, unless the faults have ended by then.
func (x *chaos) later(d time.Duration, f func()) {
	x.c.After(d, func() {
		if !x.over {
			f()
		}
	})
}

func (x *chaos) count(class Faults) {
	for i := range x.counts {
		if class == 1<<i {
			x.counts[i]++
		}
	}
}

func (x *chaos) upTo(d time.Duration) time.Duration {
	return time.Duration(x.rand.Int64N(int64(d) + 1))
}

// lasting draws how long a fault lasts: any order of size from less than an
// interval to 4 x TTLTimeout.
func (x *chaos) lasting() time.Duration {
	t := x.plan.setup.Timings
	return time.Duration(spread(x.rand, float64(t.HeartbeatInterval)/4, 4*float64(t.TTLTimeout)))
}

// victim draws a process: the one with authority more often than others.
func (x *chaos) victim() int {
	if x.rand.IntN(3) == 0 {
		if l := x.c.Leader(); l >= 0 {
			return l
		}
	}
	return x.rand.IntN(x.plan.setup.Processes)
}

// interrupt crashes a process in the middle of a step; more often when the
// step is one on which others will rely.
func (x *chaos) interrupt(p int, out statemachine.Output) (sent int, crash bool) {
	odds := x.plan.perStep
	if out.Persist != nil {
		odds *= 10
	}
	for _, m := range out.Send {
		switch m.Body.Kind() {
		case message.KindVote, message.KindProposal, message.KindLeaderElected:
			odds = max(odds, 5*x.plan.perStep)
		}
	}
	if x.rand.Float64() >= odds || !x.mayCrash(p) {
		return 0, false
	}
	x.count(Crashes)
	x.revive(p)
	return x.rand.IntN(len(out.Send)+2) - 1, true
}

// mayCrash keeps memory stores from being lost beyond what is promised, except
// in a reckless run.
func (x *chaos) mayCrash(i int) bool {
	p := x.c.procs[i]
	return !p.cfg.Volatile || x.plan.reckless || !p.up() || x.c.mayForget(i)
}

// crash kills a process and starts it again after a while.
func (x *chaos) crash() {
	i := x.victim()
	if !x.c.procs[i].up() || !x.mayCrash(i) {
		return
	}
	x.count(Crashes)
	x.c.Crash(i)
	x.revive(i)
}

// revive starts a process after a while.
func (x *chaos) revive(i int) {
	wait := x.lasting()
	if x.rand.IntN(3) == 0 {
		wait = x.upTo(x.plan.setup.Timings.HeartbeatInterval)
	}
	x.later(wait, func() {
		if p := x.c.procs[i]; x.plan.clockBack && p.cfg.Volatile && !p.up() && x.rand.IntN(3) == 0 {
			p.next = 1 + x.rand.Uint64N(p.next)
		}
		x.c.Start(i)
	})
}

// loseDisk makes a process forget everything, if it may.
func (x *chaos) loseDisk() {
	i := x.rand.IntN(x.plan.setup.Processes)
	if x.c.procs[i].cfg.Volatile || !x.plan.reckless && !x.c.mayForget(i) {
		return
	}
	x.count(LostDisks)
	x.c.Crash(i)
	x.c.LoseDisk(i)
	x.revive(i)
}

func (x *chaos) pause() {
	i := x.victim()
	if p := x.c.procs[i]; !p.up() || p.paused {
		return
	}
	x.count(Pauses)
	x.c.Pause(i)
	timersFirst := x.rand.IntN(2) == 0
	x.later(x.lasting(), func() { x.c.Resume(i, timersFirst) })
}

// operate does what an operator might do.
func (x *chaos) operate() {
	i := x.victim()
	p := x.c.procs[i]
	if !p.up() || p.paused {
		return
	}
	x.count(Operators)
	switch x.rand.IntN(4) {
	case 0:
		if !x.mayCrash(i) {
			return
		}
		x.c.Leave(i)
		x.revive(i)
	case 1:
		x.c.Drain(i)
	default:
		_ = x.c.Transfer(i, x.rand.IntN(x.plan.setup.Processes+1)-1) // a refusal is an answer
	}
}

// twin starts a second process at the address of another, with a store of its
// own, and ends one of the two later.
func (x *chaos) twin() {
	i := len(x.c.procs) - 1
	p := x.c.procs[i]
	if p.up() {
		return
	}
	x.count(Twins)
	p.cfg.JoinOnly = p.isSeed()
	x.c.Start(i)
	x.later(x.lasting(), func() { x.c.Crash(i) })
}

// cutLink cuts one link, one way or both, or heals later what flaps.
func (x *chaos) cutLink() {
	x.count(Cuts)
	a, b := x.victim(), x.rand.IntN(len(x.c.procs))
	pairs := [][2]int{{a, b}}
	if x.rand.IntN(2) == 0 {
		pairs = append(pairs, [2]int{b, a})
	}
	if x.rand.IntN(4) == 0 { // one that nobody hears, or that hears nobody
		pairs = pairs[:0]
		outward := x.rand.IntN(2) == 0
		for o := range x.c.procs {
			if outward {
				pairs = append(pairs, [2]int{a, o})
			} else {
				pairs = append(pairs, [2]int{o, a})
			}
		}
	}
	x.cut(pairs, x.lasting())
}

func (x *chaos) cut(pairs [][2]int, d time.Duration) {
	x.c.cut(pairs, 1)
	x.later(d, func() { x.c.cut(pairs, -1) })
}

// partition splits the cluster: in halves, one alone, with one that sees both
// sides, in a ring, or around a hub.
func (x *chaos) partition() {
	x.count(Partitions)
	n := len(x.c.procs)
	order := x.rand.Perm(n)
	if i := slices.Index(order, x.victim()); x.rand.IntN(2) == 0 {
		order[0], order[i] = order[i], order[0]
	}
	mode := x.rand.IntN(6)
	at := 1 + x.rand.IntN(max(n-1, 1))
	linked := func(a, b int) bool { // positions in order
		switch mode {
		case 0, 1: // two sides
			return (a < at) == (b < at)
		case 2: // one alone
			return a != 0 && b != 0
		case 3: // two sides and a bridge
			return a == 0 || b == 0 || (a <= at) == (b <= at)
		case 4: // everyone sees neighbours only
			return (a+1)%n == b || (b+1)%n == a || (a+2)%n == b && n > 4
		default: // one sees all, nobody else sees anybody
			return a == 0 || b == 0
		}
	}
	var pairs [][2]int
	for a := range n {
		for b := range n {
			if a != b && !linked(a, b) {
				pairs = append(pairs, [2]int{order[a], order[b]})
			}
		}
	}
	x.cut(pairs, x.lasting())
}

// clog holds back what is sent on some links.
func (x *chaos) clog() {
	x.count(Delay)
	until := x.c.now + int64(x.upTo(maxLate))
	for i := range x.c.net.links {
		if l := &x.c.net.links[i]; x.rand.IntN(4) == 0 {
			l.clogged = max(l.clogged, until)
		}
	}
}

// weather gives some links a loss of their own.
func (x *chaos) weather() {
	x.count(Loss)
	for i := range x.c.net.links {
		if x.rand.IntN(3) == 0 {
			x.c.net.links[i].Loss = 0.3 * x.rand.Float64()
		}
	}
}
