// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/statemachine"
)

// chaos injects faults into a cluster until stopFaults. It draws each fault when it is due,
// or reads all faults from a recording.
type chaos struct {
	c       *Cluster
	plan    Plan
	rand    *rand.Rand // source of the series that draws now
	walls   *rand.Rand // for wall clocks
	stopped bool
	counts  [classes]int
	series  []*series
	focus   int              // preferred next victim, or -1
	armed   []armedInterrupt // indexed by process
	slow    [][]SlowSave     // the next saves of each process
	disks   []slowDisk       // indexed by process
	saves   *rand.Rand       // for the saves of slow disks
	misfit  int              // process with a different configuration, or -1
}

// series is a sequence of faults drawn from one stream.
type series struct {
	rand    *rand.Rand
	classes []Faults
	pace    time.Duration // mean time between faults
	guided  float64       // probability that an election triggers a fault
}

// armedInterrupt is a fault that occurs when its process next saves or sends in a step.
type armedInterrupt struct {
	fault Fault // class 0: none
	skip  int64 // number of such steps to skip
}

func newChaos(c *Cluster, p Plan) *chaos {
	x := &chaos{
		c: c, plan: p, rand: randomStream(p.Setup.Seed, streamFaults),
		walls: randomStream(p.Setup.Seed, streamWallClocks), focus: -1, misfit: -1,
		armed: make([]armedInterrupt, len(c.procs)),
		slow:  make([][]SlowSave, len(c.procs)),
		disks: make([]slowDisk, len(c.procs)),
		saves: randomStream(p.Setup.Seed, streamSlowDisks-1),
	}
	x.addSeries(x.rand, p.Faults&firstFaults, p.pace, p.guided)
	r := randomStream(p.Setup.Seed, streamLaterFaults)
	pace, guided := drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&laterFaults&^NewTimings, pace, guided)
	r = randomStream(p.Setup.Seed, streamNewTimings)
	pace = time.Duration(drawSpread(r, 2, 20) * float64(p.Setup.Timings.LeaderTimeout))
	x.addSeries(r, p.Faults&NewTimings, pace, 0)
	r = randomStream(p.Setup.Seed, streamTraits)
	pace, guided = drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&NewTraits, pace, guided)
	r = randomStream(p.Setup.Seed, streamTimingSteps)
	pace = time.Duration(drawSpread(r, 4, 40) * float64(p.Setup.Timings.LeaderTimeout))
	x.addSeries(r, p.Faults&TimingSteps, pace, 0)
	r = randomStream(p.Setup.Seed, streamClaimFaults)
	pace, guided = drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&claimFaults, pace, guided)
	r = randomStream(p.Setup.Seed, streamObituaries)
	pace, guided = drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&Obituaries, pace, guided)
	r = randomStream(p.Setup.Seed, streamSlowDisks)
	pace, guided = drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&SlowDisks, pace, guided)
	r = randomStream(p.Setup.Seed, streamCopies)
	pace, guided = drawPace(r, p.Setup.Timings)
	x.addSeries(r, p.Faults&RestoredCopies, pace, guided)
	return x
}

// addSeries adds a series if any of the classes occur at random times.
func (x *chaos) addSeries(r *rand.Rand, on Faults, pace time.Duration, guided float64) {
	s := &series{rand: r, pace: pace, guided: guided}
	for _, d := range faultClasses {
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

// startFaults schedules the start of each process and the faults.
func (x *chaos) startFaults() {
	for i, at := range x.plan.Starts {
		x.c.After(at, func() {
			if !x.stopped { // every process is started when the faults end
				x.c.Start(i)
			}
		})
	}
	if x.plan.Faults&(Interrupts|TornWrites) != 0 {
		x.c.Interrupt = x.interruptStep
	}
	if x.plan.Faults&(SlowSaves|SlowDisks) != 0 {
		x.c.SlowSave = x.slowSave
	}
	x.c.Ended = x.restartFailed
	link := x.plan.Setup.Link
	for _, steady := range []struct {
		class Faults
		on    bool
	}{
		{Loss, link.Loss > 0}, {Duplication, link.Duplicate > 0}, {Delay, link.Late > 0},
		{Reordering, link.Unordered}, {Skew, x.plan.Setup.Skew}, {Workers, x.plan.Setup.Workers > 0},
	} {
		if steady.on {
			x.countFault(steady.class)
		}
	}
	if x.c.recording.isReplay() {
		for _, f := range x.c.recording.faults {
			x.c.queue.pushFirst(f.At, item{run: func() { x.applyFault(f) }})
		}
		return
	}
	x.c.onTrace = x.raiseOdds
	for _, s := range x.series {
		x.scheduleNext(s)
	}
	if x.plan.margins {
		x.runSequence()
	}
}

// restartFailed restarts a process that stopped because of a fault. When the faults have ended, it
// restarts the process only if no other process has its address.
func (x *chaos) restartFailed(i int, err error) {
	if errors.Is(err, statemachine.ErrLeft) {
		return
	}
	x.c.After(x.plan.Setup.Timings.RetryInterval, func() {
		if p := x.c.procs[i]; i < x.plan.Setup.Processes && (!x.stopped || !x.c.isOccupied(p)) {
			x.c.Start(i)
		}
	})
}

// stopFaults stops the faults. Faults that are still scheduled no longer happen.
func (x *chaos) stopFaults() {
	x.stopped = true
	x.c.Interrupt, x.c.SlowSave, x.c.onTrace = nil, nil, nil
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

// drawFault draws a fault and applies it.
func (x *chaos) drawFault(s *series) {
	x.rand = s.rand
	f := Fault{At: x.c.now, Class: s.classes[s.rand.IntN(len(s.classes))]}
	faultClassOf(f.Class).draw(x, &f)
	x.c.recording.recordFault(f)
	x.applyFault(f)
}

func (x *chaos) applyFault(f Fault) {
	if !x.stopped && f.Who < len(x.c.procs) && faultClassOf(f.Class).do(x, f) {
		x.countFault(f.Class)
	}
}

// startStorm draws several faults within one LeaderTimeout, while elections and leases are
// in progress.
func (x *chaos) startStorm(s *series) {
	for range 2 + s.rand.IntN(4) {
		x.callLater(x.drawUpTo(x.plan.Setup.Timings.LeaderTimeout), func() { x.drawFault(s) })
	}
}

// raiseOdds is called when an election or a lease begins or ends. It makes a fault likely, and the
// process concerned a likely victim.
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
		x.callLater(1+x.drawUpTo(x.plan.Setup.Timings.HeartbeatInterval/8), func() {
			x.focus = p
			x.drawFault(s)
			x.focus = -1
		})
	}
}

// callLater calls f after d, before other items that are due at the same time, unless the faults
// have ended.
func (x *chaos) callLater(d time.Duration, f func()) {
	x.c.queue.pushFirst(x.c.now+max(int64(d), 0), item{run: func() {
		if !x.stopped {
			f()
		}
	}})
}

func (x *chaos) countFault(class Faults) {
	x.counts[class.bitIndex()]++
	x.c.happened |= class
}

func (x *chaos) drawUpTo(d time.Duration) time.Duration {
	return time.Duration(x.rand.Int64N(int64(d) + 1))
}

// drawDuration draws the duration of a fault, from less than an interval to 4 x TTLTimeout on
// a logarithmic scale.
func (x *chaos) drawDuration() int64 {
	t := x.plan.Setup.Timings
	return int64(drawSpread(x.rand, float64(t.HeartbeatInterval)/4, 4*float64(t.TTLTimeout)))
}

// drawDowntime draws how long a process stays down.
func (x *chaos) drawDowntime() int64 {
	if x.rand.IntN(3) == 0 {
		return int64(x.drawUpTo(x.plan.Setup.Timings.HeartbeatInterval))
	}
	return x.drawDuration()
}

// drawVictim draws a process. It prefers the process with authority.
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

// mayCrash reports whether process i may crash. In a reckless run every process may crash. In other
// runs, a process with a memory store may crash only if the protocol tolerates the loss of the
// store.
func (x *chaos) mayCrash(i int) bool {
	p := x.c.procs[i]
	return !p.cfg.Volatile || x.plan.Reckless || !p.isUp() || x.c.mayForget(i)
}

// mayLose reports whether process i may lose its disk. The rule is the same as for mayCrash.
func (x *chaos) mayLose(i int) bool {
	return !x.c.procs[i].cfg.Volatile && (x.plan.Reckless || x.c.mayForget(i))
}

// restartLater starts a process after a random time.
func (x *chaos) restartLater(i int, after int64) {
	x.callLater(time.Duration(after), func() { x.c.Start(i) })
}
