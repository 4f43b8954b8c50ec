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
		c: c, plan: p, rand: randomStream(p.Setup.Seed, streamFaults),
		walls: randomStream(p.Setup.Seed, streamWallClocks), focus: -1, misfit: -1,
		armed: make([]arming, len(c.procs)),
		slow:  make([][]SlowSave, len(c.procs)),
	}
	x.addSeries(x.rand, p.Faults&firstFaults, p.pace, p.guided)
	r := randomStream(p.Setup.Seed, streamLaterFaults)
	pace, guided := drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&laterFaults&^NewTimings, pace, guided)
	r = randomStream(p.Setup.Seed, streamNewTimings)
	pace = time.Duration(drawSpread(r, 2, 20) * float64(p.Setup.Timings.LeaderTimeout))
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

// startFaults starts the processes and the faults.
func (x *chaos) startFaults() {
	for i, at := range x.plan.Starts {
		x.c.After(at, func() {
			if !x.over { // whoever has not started by then was started
				x.c.Start(i)
			}
		})
	}
	if x.plan.Faults&(Interrupts|TornWrites) != 0 {
		x.c.Interrupt = x.interruptStep
	}
	if x.plan.Faults&SlowSaves != 0 {
		x.c.SlowSave = x.slowSave
	}
	x.c.Ended = x.restartFailed
	link := x.plan.Setup.Link
	for _, steady := range []struct {
		class Faults
		on    bool
	}{
		{Loss, link.Loss > 0}, {Duplication, link.Duplicate > 0}, {Delay, link.Late > 0},
		{Reordering, link.Unordered}, {Skew, x.plan.Setup.Skew},
	} {
		if steady.on {
			x.countFault(steady.class)
		}
	}
	if x.c.tape.isReplay() {
		for _, f := range x.c.tape.faults {
			x.c.queue.pushFirst(f.At, item{run: func() { x.applyFault(f) }})
		}
		return
	}
	x.c.noticed = x.raiseOdds
	for _, s := range x.series {
		x.scheduleNext(s)
	}
	if x.plan.margins {
		x.runSequence()
	}
}

// restartFailed starts a process again that stopped for a fault, also when chaos
// is over, unless another one has its address.
func (x *chaos) restartFailed(i int, err error) {
	if errors.Is(err, statemachine.ErrLeft) {
		return
	}
	x.c.After(x.plan.Setup.Timings.RetryInterval, func() {
		if p := x.c.procs[i]; i < x.plan.Setup.Processes && (!x.over || !x.c.isOccupied(p)) {
			x.c.Start(i)
		}
	})
}

// stopFaults stops the faults. What waits for its time does nothing any more.
func (x *chaos) stopFaults() {
	x.over = true
	x.c.Interrupt, x.c.SlowSave, x.c.noticed = nil, nil, nil
}

func (x *chaos) scheduleNext(s *series) {
	wait := time.Duration(s.rand.ExpFloat64() * float64(s.pace))
	x.callLater(wait, func() {
		x.drawFault(s)
		if s.rand.IntN(6) == 0 {
			x.startStorm(s)
		}
		x.scheduleNext(s)
	})
}

// drawFault draws a fault and lets it happen.
func (x *chaos) drawFault(s *series) {
	x.rand = s.rand
	f := Fault{At: x.c.now, Class: s.classes[s.rand.IntN(len(s.classes))]}
	deedOf(f.Class).draw(x, &f)
	x.c.tape.keepFault(f)
	x.applyFault(f)
}

func (x *chaos) applyFault(f Fault) {
	if !x.over && f.Who < len(x.c.procs) && deedOf(f.Class).do(x, f) {
		x.countFault(f.Class)
	}
}

// startStorm lets several faults fall into one LeaderTimeout, as long as elections
// and leases are open.
func (x *chaos) startStorm(s *series) {
	for range 2 + s.rand.IntN(4) {
		x.callLater(x.upTo(x.plan.Setup.Timings.LeaderTimeout), func() { x.drawFault(s) })
	}
}

// raiseOdds makes a fault more likely where an election or a lease begins or
// ends, and near the one that it concerns.
func (x *chaos) raiseOdds(p int, t statemachine.Trace) {
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
		x.callLater(1+x.upTo(x.plan.Setup.Timings.HeartbeatInterval/8), func() {
			x.focus = p
			x.drawFault(s)
			x.focus = -1
		})
	}
}

// callLater calls f after d, before all else of that time, unless the faults have
// ended by then.
func (x *chaos) callLater(d time.Duration, f func()) {
	x.c.queue.pushFirst(x.c.now+max(int64(d), 0), item{run: func() {
		if !x.over {
			f()
		}
	}})
}

func (x *chaos) countFault(class Faults) {
	x.counts[class.index()]++
	x.c.happened |= class
}

func (x *chaos) upTo(d time.Duration) time.Duration {
	return time.Duration(x.rand.Int64N(int64(d) + 1))
}

// drawDuration draws how long a fault lasts: any order of size from less than an
// interval to 4 x TTLTimeout.
func (x *chaos) drawDuration() int64 {
	t := x.plan.Setup.Timings
	return int64(drawSpread(x.rand, float64(t.HeartbeatInterval)/4, 4*float64(t.TTLTimeout)))
}

// drawDowntime draws how long a process is down.
func (x *chaos) drawDowntime() int64 {
	if x.rand.IntN(3) == 0 {
		return int64(x.upTo(x.plan.Setup.Timings.HeartbeatInterval))
	}
	return x.drawDuration()
}

// drawVictim draws a process: the one with authority more often than others.
func (x *chaos) drawVictim() int {
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
	return !p.cfg.Volatile || x.plan.Reckless || !p.isUp() || x.c.mayForget(i)
}

// mayLose keeps disks from being lost beyond what is promised, except in a
// reckless run.
func (x *chaos) mayLose(i int) bool {
	return !x.c.procs[i].cfg.Volatile && (x.plan.Reckless || x.c.mayForget(i))
}

// restartLater starts a process after a while.
func (x *chaos) restartLater(i int, after int64) {
	x.callLater(time.Duration(after), func() { x.c.Start(i) })
}
