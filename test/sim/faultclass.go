// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/athena-go/athena/statemachine"
)

// A faultClass draws and applies faults of one class. A drawn fault names its processes, so
// that it has the same effect in a smaller run. do reports whether the fault could be
// applied.
type faultClass struct {
	class Faults
	draw  func(*chaos, *Fault)
	do    func(*chaos, Fault) bool
}

// faultClasses lists the classes of faults that occur at random times.
var faultClasses = [...]faultClass{
	{Loss, (*chaos).drawWeather, (*chaos).changeWeather},
	{Clogs, (*chaos).drawClog, (*chaos).clogLink},
	{Breaks, (*chaos).drawBreak, (*chaos).breakConnections},
	{Cuts, (*chaos).drawCut, (*chaos).cutLinks},
	{Partitions, (*chaos).drawPartition, (*chaos).cutLinks},
	{Topologies, (*chaos).drawTopology, (*chaos).cutLinks},
	{Flapping, (*chaos).drawFlapping, (*chaos).flapLink},
	{Pauses, (*chaos).drawPause, (*chaos).pauseProcess},
	{Suspends, (*chaos).drawSuspend, (*chaos).pauseProcess},
	{Crashes, (*chaos).drawCrash, (*chaos).crashProcess},
	{Interrupts, (*chaos).drawInterrupt, (*chaos).armInterrupt},
	{TornWrites, (*chaos).drawInterrupt, (*chaos).armInterrupt},
	{LostDisks, (*chaos).drawLostDisk, (*chaos).loseDisk},
	{ClocksBack, (*chaos).drawClockBack, (*chaos).setClockBack},
	{Operators, (*chaos).drawOrder, (*chaos).operateNode},
	{Twins, (*chaos).drawTwin, (*chaos).startTwin},
	{OtherSize, (*chaos).drawMisfit, (*chaos).startMisconfigured},
	{OtherSeeds, (*chaos).drawMisfit, (*chaos).startMisconfigured},
	{OtherProtocol, (*chaos).drawMisfit, (*chaos).startMisconfigured},
	{OtherTimings, (*chaos).drawMisfit, (*chaos).startMisconfigured},
	{SlowSaves, (*chaos).drawSlowSaves, (*chaos).scheduleSlowSaves},
	{NewTimings, (*chaos).drawNewTimings, (*chaos).applyNewTimings},
	{NewTraits, (*chaos).drawChange, (*chaos).changeTraits},
	{TimingSteps, (*chaos).drawTimingSteps, (*chaos).applyTimingSteps},
	{Claimants, (*chaos).drawClaimant, (*chaos).startClaimant},
	{Impostors, (*chaos).drawImpostor, (*chaos).sendImpostor},
	{Obituaries, (*chaos).drawObituary, (*chaos).announceEnd},
	{SlowDisks, (*chaos).drawSlowDisks, (*chaos).slowDisks},
	{RestoredCopies, (*chaos).drawCopy, (*chaos).restoreCopy},
}

// faultClassOf returns the entry of a class. It panics for a steady class. Recordings contain no
// steady class, because they are checked when they are read.
func faultClassOf(class Faults) faultClass {
	i := slices.IndexFunc(faultClasses[:], func(d faultClass) bool { return d.class == class })
	return faultClasses[i]
}

// drawWeather gives some links a loss rate of their own. It has no effect in a replay,
// whose recorded fates name the lost messages.
func (x *chaos) drawWeather(f *Fault) {
	for i := range x.c.net.links {
		if x.rand.IntN(3) == 0 {
			f.Args = append(f.Args, int64(i), x.rand.Int64N(300))
		}
	}
}

func (x *chaos) changeWeather(f Fault) bool {
	for i := 0; i+1 < len(f.Args); i += 2 {
		if n := f.Args[i]; n >= 0 && int(n) < len(x.c.net.links) {
			x.c.net.links[n].Loss = float64(f.Args[i+1]) / 1000
		}
	}
	return true
}

// drawClog clogs nodes one after another and releases them in a different order.
func (x *chaos) drawClog(f *Fault) {
	half := x.drawUpTo(maxLate / 2)
	for _, i := range x.rand.Perm(len(x.c.procs))[:1+x.rand.IntN(len(x.c.procs))] {
		f.Args = append(f.Args, int64(i), int64(x.drawUpTo(half)), int64(half+x.drawUpTo(half)))
	}
}

func (x *chaos) clogLink(f Fault) bool {
	start := x.c.now
	for i := 0; i+2 < len(f.Args); i += 3 {
		node, until := int(f.Args[i]), start+f.Args[i+2]
		if node < 0 || node >= len(x.c.procs) {
			continue
		}
		x.callLater(time.Duration(f.Args[i+1]), func() {
			for o := range x.c.procs {
				for _, l := range []*link{x.c.net.linkOf(node, o), x.c.net.linkOf(o, node)} {
					l.clogged = max(l.clogged, until)
				}
			}
		})
	}
	return len(f.Args) > 0
}

// drawBreak breaks the connections of one process to some others.
func (x *chaos) drawBreak(f *Fault) {
	f.Who = x.drawVictim()
	f.Lasts = int64(x.drawUpTo(x.plan.Setup.Timings.HeartbeatInterval))
	for o := range x.c.procs {
		if o != f.Who && x.rand.IntN(2) == 0 {
			f.Args = append(f.Args, int64(o))
		}
	}
}

func (x *chaos) breakConnections(f Fault) bool {
	for _, o := range f.Args {
		if o >= 0 && int(o) < len(x.c.procs) {
			x.c.breakConnection(f.Who, int(o), f.Lasts)
		}
	}
	return len(f.Args) > 0
}

// drawCut cuts one link, one way or both, or makes a process mute or deaf.
func (x *chaos) drawCut(f *Fault) {
	a, b := x.drawVictim(), x.rand.IntN(len(x.c.procs))
	pairs := []pair{{a, b}, {b, a}}[:1+x.rand.IntN(2)]
	if x.rand.IntN(4) == 0 {
		pairs = pairs[:0]
		mute := x.rand.IntN(2) == 0
		for o := range x.c.procs {
			if p := (pair{a, o}); mute {
				pairs = append(pairs, p)
			} else {
				pairs = append(pairs, pair{p.to, p.from})
			}
		}
	}
	x.addPairs(f, pairs)
}

// drawPlaces draws the order of processes in a topology and a position in it.
func (x *chaos) drawPlaces() (order []int, at int) {
	order = x.rand.Perm(len(x.c.procs))
	if i := slices.Index(order, x.drawVictim()); x.rand.IntN(2) == 0 {
		order[0], order[i] = order[i], order[0]
	}
	return order, 1 + x.rand.IntN(max(len(order)-1, 1))
}

func (x *chaos) drawPartition(f *Fault) {
	order, at := x.drawPlaces()
	if x.rand.IntN(3) == 0 {
		at = 1
	}
	pairs := cutSides(order, at)
	if x.rand.IntN(4) == 0 {
		pairs = oneWay(x.rand, pairs, order, at)
	}
	x.addPairs(f, pairs)
}

func (x *chaos) drawTopology(f *Fault) {
	order, at := x.drawPlaces()
	switch x.rand.IntN(3) {
	case 0:
		x.addPairs(f, cutBridge(order, at))
	case 1:
		x.addPairs(f, cutRing(order, x.plan.Setup.Size))
	default:
		x.addPairs(f, cutHub(order))
	}
}

func (x *chaos) addPairs(f *Fault, pairs []pair) {
	f.Lasts = x.drawDuration()
	for _, p := range pairs {
		f.Args = append(f.Args, p.packPair())
	}
}

// pairsOf returns those pairs of a fault whose processes exist.
func (x *chaos) pairsOf(args []int64) []pair {
	var pairs []pair
	for _, n := range args {
		if p := unpackPair(n); p.inRange(len(x.c.procs)) {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func (x *chaos) cutLinks(f Fault) bool {
	pairs := x.pairsOf(f.Args)
	x.c.cutPairs(pairs, 1)
	x.callLater(time.Duration(f.Lasts), func() { x.c.cutPairs(pairs, -1) })
	return len(pairs) > 0
}

// drawFlapping draws links that are cut and healed alternately, with a period near HeartbeatTimeout
// or TTLTimeout. Args[0] is half the period.
func (x *chaos) drawFlapping(f *Fault) {
	t := x.plan.Setup.Timings
	half := [...]time.Duration{t.HeartbeatTimeout, t.TTLTimeout}[x.rand.IntN(2)] / 2
	f.Args = []int64{int64(half/2 + x.drawUpTo(half))}
	if x.rand.IntN(2) == 0 {
		x.drawCut(f)
	} else {
		x.drawPartition(f)
	}
	f.Lasts = max(f.Lasts, 4*f.Args[0])
}

func (x *chaos) flapLink(f Fault) bool {
	if len(f.Args) < 2 || f.Args[0] < shortest {
		return false
	}
	pairs, half, end := x.pairsOf(f.Args[1:]), time.Duration(f.Args[0]), x.c.now+f.Lasts
	sign := 1
	var turn func()
	turn = func() {
		x.c.cutPairs(pairs, sign)
		if sign = -sign; sign < 0 || x.c.now < end {
			x.callLater(half, turn)
		}
	}
	turn()
	return len(pairs) > 0
}

// drawPause draws a pause, and whether timers or queued input are handled first after it.
func (x *chaos) drawPause(f *Fault) {
	f.Who, f.Lasts = x.drawVictim(), x.drawDuration()
	f.Args = []int64{x.rand.Int64N(2)}
}

// drawSuspend draws a suspension. In two of three cases it also draws when the wall clock is set
// forward afterwards.
func (x *chaos) drawSuspend(f *Fault) {
	x.drawPause(f)
	lease := int64(x.plan.Setup.Timings.LeaseTimeout)
	switch x.walls.IntN(3) {
	case 0: // never
	case 1: // the clock is set before the process continues
		f.Args = append(f.Args, 0)
	default:
		f.Args = append(f.Args, x.walls.Int64N(lease))
	}
}

func (x *chaos) pauseProcess(f Fault) bool {
	if p := x.c.procs[f.Who]; !p.isUp() || p.paused {
		return false
	}
	if f.Class == Suspends {
		x.c.Suspend(f.Who)
	} else {
		x.c.Pause(f.Who)
	}
	timersFirst := len(f.Args) > 0 && f.Args[0] > 0
	if len(f.Args) > 1 { // scheduled first, so that it precedes Resume at the same time
		x.callLater(time.Duration(f.Lasts+f.Args[1]), func() { x.c.SetForward(f.Who) })
	}
	x.callLater(time.Duration(f.Lasts), func() { x.c.Resume(f.Who, timersFirst) })
	return true
}

func (x *chaos) drawOrder(f *Fault) {
	f.Who, f.Lasts = x.drawVictim(), x.drawDowntime()
	f.Args = []int64{x.rand.Int64N(4), x.rand.Int64N(int64(x.plan.Setup.Processes + 1))}
}

// operateNode does what an operator may do: leave, close, drain or transfer.
func (x *chaos) operateNode(f Fault) bool {
	p := x.c.procs[f.Who]
	if !p.isUp() || p.paused || len(f.Args) < 2 {
		return false
	}
	switch f.Args[0] {
	case 0:
		if !x.mayCrash(f.Who) {
			return false
		}
		if f.Args[1]%2 == 0 {
			x.c.Leave(f.Who)
		} else {
			x.c.Close(f.Who)
		}
		x.restartLater(f.Who, f.Lasts)
	case 1:
		x.c.Drain(f.Who)
	default:
		to := int(f.Args[1]) - 1
		if to < -1 || to >= x.plan.Setup.Processes {
			return false
		}
		_ = x.c.Transfer(f.Who, to) // a refusal is a valid result
	}
	return true
}

// drawTwin draws a start of the last process but the claimants, which is the twin if there is one.
func (x *chaos) drawTwin(f *Fault) {
	f.Who = len(x.c.procs) - len(x.c.claimants()) - 1
	f.Lasts = x.drawDuration()
}

// startTwin starts a second process at the address of another, with its own store, and
// stops it later.
func (x *chaos) startTwin(f Fault) bool {
	p := x.c.procs[f.Who]
	if p.isStarted() || p.home == p.index || p.claims {
		return false
	}
	p.cfg.JoinOnly = p.isSeed()
	x.c.Start(f.Who)
	x.callLater(time.Duration(f.Lasts), func() { x.c.Crash(f.Who) })
	return true
}

// interruptStep crashes a process in a step for which a fault is armed.
func (x *chaos) interruptStep(i int, out statemachine.Output) (sent int, crash bool) {
	a := &x.armed[i]
	if a.fault.Class == 0 || out.Persist == nil && (a.fault.Args[2] == 0 || len(out.Send) < 2) {
		return 0, false
	}
	if a.skip--; a.skip >= 0 {
		return 0, false
	}
	f := a.fault
	*a = armedInterrupt{}
	if !x.mayCrash(i) {
		return 0, false
	}
	sent = -1
	switch {
	case f.Class == Interrupts:
		sent = int(f.Args[1]) - 1
	case !x.mayLose(i):
		return 0, false
	default:
		x.callLater(0, func() { x.c.LoseDisk(i) })
	}
	x.countFault(f.Class)
	x.restartLater(i, max(f.Lasts, 1))
	return sent, true
}
