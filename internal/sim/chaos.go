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
	c      *Cluster
	plan   Plan
	rand   *rand.Rand // of the series whose turn it is
	walls  *rand.Rand // of wall clocks
	over   bool
	counts [classes]int
	series []*series
	focus  int          // process that victims are drawn near; -1 for none
	armed  []arming     // by process
	slow   [][]SlowSave // by process: the next saves
	misfit int          // process whose configuration does not fit; -1 for none
}

// series is the faults that are drawn from one stream, at times of their own.
type series struct {
	rand    *rand.Rand
	classes []Faults
	pace    time.Duration // mean time between faults
	guided  float64       // probability that an election draws a fault
}

// arming waits for the next step of a process that saves something.
type arming struct {
	fault Fault // its class is 0 when nothing waits
	skip  int64 // steps that it lets pass
}

func newChaos(c *Cluster, p Plan) *chaos {
	x := &chaos{
		c: c, plan: p, rand: stream(p.Setup.Seed, streamFaults),
		walls: stream(p.Setup.Seed, streamWallClocks), focus: -1, misfit: -1,
		armed: make([]arming, len(c.procs)),
		slow:  make([][]SlowSave, len(c.procs)),
	}
	x.addSeries(x.rand, p.Faults&firstFaults, p.pace, p.guided)
	r := stream(p.Setup.Seed, streamLaterFaults)
	pace, guided := drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&laterFaults&^NewTimings, pace, guided)
	r = stream(p.Setup.Seed, streamNewTimings)
	pace = time.Duration(spread(r, 2, 20) * float64(p.Setup.Timings.LeaderTimeout))
	x.addSeries(r, p.Faults&NewTimings, pace, 0)
	return x
}

// addSeries adds one, where any of the classes strikes at a time of its own.
func (x *chaos) addSeries(r *rand.Rand, on Faults, pace time.Duration, guided float64) {
	s := &series{rand: r, pace: pace, guided: guided}
	for _, d := range deeds {
		if on&d.class == 0 {
			continue
		}
		s.classes = append(s.classes, d.class)
		if d.class&(Crashes|Interrupts|Cuts|Partitions|Pauses) != 0 { // the common ones
			s.classes = append(s.classes, d.class, d.class)
		}
	}
	if len(s.classes) > 0 {
		x.series = append(x.series, s)
	}
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
	if x.plan.Faults&SlowSaves != 0 {
		x.c.SlowSave = x.slowSave
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
	if x.c.tape.replays() {
		for _, f := range x.c.tape.faults {
			x.c.queue.pushFirst(f.At, item{run: func() { x.do(f) }})
		}
		return
	}
	x.c.noticed = x.notice
	for _, s := range x.series {
		x.next(s)
	}
	if x.plan.margins {
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
	x.c.Interrupt, x.c.SlowSave, x.c.noticed = nil, nil, nil
}

func (x *chaos) next(s *series) {
	wait := time.Duration(s.rand.ExpFloat64() * float64(s.pace))
	x.later(wait, func() {
		x.strike(s)
		if s.rand.IntN(6) == 0 {
			x.storm(s)
		}
		x.next(s)
	})
}

// strike draws a fault and lets it happen.
func (x *chaos) strike(s *series) {
	x.rand = s.rand
	f := Fault{At: x.c.now, Class: s.classes[s.rand.IntN(len(s.classes))]}
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
func (x *chaos) storm(s *series) {
	for range 2 + s.rand.IntN(4) {
		x.later(x.upTo(x.plan.Setup.Timings.LeaderTimeout), func() { x.strike(s) })
	}
}

// notice makes a fault more likely where an election or a lease begins or
// ends, and near the one that it concerns.
func (x *chaos) notice(p int, t statemachine.Trace) {
	switch t.Kind {
	case statemachine.Proposing, statemachine.ProposingFormal, statemachine.BecameLeader,
		statemachine.GainedAuthority, statemachine.SteppedDown:
	default:
		return
	}
	for _, s := range x.series {
		if x.rand = s.rand; s.rand.Float64() >= s.guided {
			continue
		}
		x.later(1+x.upTo(x.plan.Setup.Timings.HeartbeatInterval/8), func() {
			x.focus = p
			x.strike(s)
			x.focus = -1
		})
	}
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
