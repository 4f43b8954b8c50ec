// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/statemachine"
)

// chaos lets faults happen to a cluster, until it is told to end. It draws
// each when its time has come, or takes them from the tape.
type chaos struct {
	c       *Cluster
	plan    Plan
	rand    *rand.Rand
	over    bool
	counts  [classes]int
	classes []Faults // that strike at a time of their own
	focus   int      // process that victims are drawn near; -1 for none
	armed   []arming // by process
	misfit  int      // process whose configuration does not fit; -1 for none
}

// arming waits for the next step of a process that saves something.
type arming struct {
	fault Fault // its class is 0 when nothing waits
	skip  int64 // steps that it lets pass
}

func newChaos(c *Cluster, p Plan) *chaos {
	x := &chaos{
		c: c, plan: p, rand: stream(p.Setup.Seed, streamFaults), focus: -1, misfit: -1,
		armed: make([]arming, len(c.procs)),
	}
	for _, d := range deeds {
		if p.Faults&d.class == 0 {
			continue
		}
		x.classes = append(x.classes, d.class)
		if d.class&(Crashes|Interrupts|Cuts|Partitions|Pauses) != 0 { // the common ones
			x.classes = append(x.classes, d.class, d.class)
		}
	}
	return x
}

// begin starts the processes and the faults.
func (x *chaos) begin() {
	for i, at := range x.plan.Starts {
		x.c.After(at, func() {
			if !x.over { // whoever has not started by then was started
				x.c.Start(i)
			}
		})
	}
	if x.plan.Faults&(Interrupts|TornWrites) != 0 {
		x.c.Interrupt = x.interrupt
	}
	x.c.Ended = x.supervise
	link := x.plan.Setup.Link
	for _, steady := range []struct {
		class Faults
		on    bool
	}{
		{Loss, link.Loss > 0}, {Duplication, link.Duplicate > 0}, {Delay, link.Late > 0},
		{Reordering, link.Unordered}, {Skew, x.plan.Setup.Skew},
	} {
		if steady.on {
			x.count(steady.class)
		}
	}
	switch {
	case x.c.tape.replays():
		for _, f := range x.c.tape.faults {
			x.c.queue.pushFirst(f.At, item{run: func() { x.do(f) }})
		}
	case len(x.classes) > 0:
		x.c.noticed = x.notice
		x.next()
	}
	if x.plan.margins && !x.c.tape.replays() {
		x.sequence()
	}
}

// supervise starts a process again that stopped for a fault, also when chaos
// is over, unless another one has its address.
func (x *chaos) supervise(i int, err error) {
	if errors.Is(err, statemachine.ErrLeft) {
		return
	}
	x.c.After(x.plan.Setup.Timings.RetryInterval, func() {
		if p := x.c.procs[i]; i < x.plan.Setup.Processes && (!x.over || !x.c.occupied(p)) {
			x.c.Start(i)
		}
	})
}

// end stops the faults. What waits for its time does nothing any more.
func (x *chaos) end() {
	x.over = true
	x.c.Interrupt, x.c.noticed = nil, nil
}

func (x *chaos) next() {
	wait := time.Duration(x.rand.ExpFloat64() * float64(x.plan.pace))
	x.later(wait, func() {
		x.strike()
		if x.rand.IntN(6) == 0 {
			x.storm()
		}
		x.next()
	})
}

// strike draws a fault and lets it happen.
func (x *chaos) strike() {
	f := Fault{At: x.c.now, Class: x.classes[x.rand.IntN(len(x.classes))]}
	deedOf(f.Class).draw(x, &f)
	x.c.tape.keepFault(f)
	x.do(f)
}

func (x *chaos) do(f Fault) {
	if !x.over && f.Who < len(x.c.procs) && deedOf(f.Class).do(x, f) {
		x.count(f.Class)
	}
}

// storm lets several faults fall into one LeaderTimeout, as long as elections
// and leases are open.
func (x *chaos) storm() {
	for range 2 + x.rand.IntN(4) {
		x.later(x.upTo(x.plan.Setup.Timings.LeaderTimeout), x.strike)
	}
}

// notice makes a fault more likely where an election or a lease begins or
// ends, and near the one that it concerns.
func (x *chaos) notice(p int, t statemachine.Trace) {
	switch t.What {
	case statemachine.Proposing, statemachine.ProposingFormal, statemachine.BecameLeader,
		statemachine.GainedAuthority, statemachine.SteppedDown:
	default:
		return
	}
	if x.rand.Float64() >= x.plan.guided {
		return
	}
	x.later(1+x.upTo(x.plan.Setup.Timings.HeartbeatInterval/8), func() {
		x.focus = p
		x.strike()
		x.focus = -1
	})
}

// later calls f after d, before all else of that time, unless the faults have
// ended by then.
func (x *chaos) later(d time.Duration, f func()) {
	x.c.queue.pushFirst(x.c.now+max(int64(d), 0), item{run: func() {
		if !x.over {
			f()
		}
	}})
}

func (x *chaos) count(class Faults) {
	x.counts[class.index()]++
	x.c.happened |= class
}

func (x *chaos) upTo(d time.Duration) time.Duration {
	return time.Duration(x.rand.Int64N(int64(d) + 1))
}

// lasting draws how long a fault lasts: any order of size from less than an
// interval to 4 x TTLTimeout.
func (x *chaos) lasting() int64 {
	t := x.plan.Setup.Timings
	return int64(spread(x.rand, float64(t.HeartbeatInterval)/4, 4*float64(t.TTLTimeout)))
}

// down draws how long a process is down.
func (x *chaos) down() int64 {
	if x.rand.IntN(3) == 0 {
		return int64(x.upTo(x.plan.Setup.Timings.HeartbeatInterval))
	}
	return x.lasting()
}

// victim draws a process: the one with authority more often than others.
func (x *chaos) victim() int {
	if x.focus >= 0 && x.focus < x.plan.Setup.Processes && x.rand.IntN(2) == 0 {
		return x.focus
	}
	if x.rand.IntN(3) == 0 {
		if l := x.c.Leader(); l >= 0 && l < x.plan.Setup.Processes {
			return l
		}
	}
	return x.rand.IntN(x.plan.Setup.Processes)
}

// mayCrash keeps memory stores from being lost beyond what is promised, except
// in a reckless run.
func (x *chaos) mayCrash(i int) bool {
	p := x.c.procs[i]
	return !p.cfg.Volatile || x.plan.Reckless || !p.up() || x.c.mayForget(i)
}

// mayLose keeps disks from being lost beyond what is promised, except in a
// reckless run.
func (x *chaos) mayLose(i int) bool {
	return !x.c.procs[i].cfg.Volatile && (x.plan.Reckless || x.c.mayForget(i))
}

// revive starts a process after a while.
func (x *chaos) revive(i int, after int64) {
	x.later(time.Duration(after), func() { x.c.Start(i) })
}
