// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// This file contains the faults that end a run of a process: crashes, lost stores and wrong
// configurations.

// drawCrash draws one process, and sometimes further processes, which are in Args. They crash
// simultaneously and restart at different times.
func (x *chaos) drawCrash(f *Fault) {
	f.Who, f.Lasts = x.drawVictim(), x.drawDowntime()
	if x.rand.IntN(3) > 0 {
		return
	}
	for i := range x.plan.Setup.Processes {
		if i != f.Who && x.rand.IntN(2) == 0 {
			f.Args = append(f.Args, int64(i), x.drawDowntime())
		}
	}
}

func (x *chaos) crashProcess(f Fault) bool {
	crashed := x.crashOne(f.Who, f.Lasts)
	for i := 0; i+1 < len(f.Args); i += 2 {
		if who := f.Args[i]; who >= 0 && int(who) < x.plan.Setup.Processes {
			crashed = x.crashOne(int(who), f.Args[i+1]) || crashed
		}
	}
	return crashed
}

func (x *chaos) crashOne(i int, down int64) bool {
	if !x.c.procs[i].isUp() || !x.mayCrash(i) {
		return false
	}
	x.c.Crash(i)
	x.restartLater(i, down)
	return true
}

// drawInterrupt arms a process for one of its next steps that save something or send more than one
// message. Args[0] is the number of such steps to skip. Args[1] is one plus the number of messages
// sent before the crash. Args[2] is 1 if steps without a save count too, otherwise 0.
func (x *chaos) drawInterrupt(f *Fault) {
	f.Who, f.Lasts = x.drawVictim(), x.drawDowntime()
	f.Args = []int64{
		x.rand.Int64N(4) * x.rand.Int64N(2),
		x.rand.Int64N(2 + int64(x.plan.Setup.Size)),
		x.rand.Int64N(2),
	}
	if f.Class == TornWrites {
		f.Args[2] = 0
	}
}

// armInterrupt arms the process; interruptStep counts the fault when it happens.
func (x *chaos) armInterrupt(f Fault) bool {
	if len(f.Args) == 3 && f.Args[1] >= 0 && x.c.procs[f.Who].isUp() {
		x.armed[f.Who] = armedInterrupt{f, f.Args[0]}
	}
	return false
}

// maxSlowSaves bounds the saves that one fault delays.
const maxSlowSaves = 32

// drawSlowSaves draws the durations of the next saves of a process. Args hold two numbers
// for each save: the duration, and the flags of SlowSave in two bits.
func (x *chaos) drawSlowSaves(f *Fault) {
	t := x.plan.Setup.Timings
	f.Who = x.drawVictim()
	for range int(drawSpread(x.rand, 1, maxSlowSaves)) {
		takes := drawSpread(x.rand, float64(t.HeartbeatInterval)/50, slowest*float64(t.LeaseTimeout))
		f.Args = append(f.Args, int64(takes), x.rand.Int64N(4))
	}
}

// slowest bounds the duration of a save, in multiples of LeaseTimeout.
const slowest = 2.5

// scheduleSlowSaves schedules the slow saves. It does not count them: slowSave counts each slow
// save when it happens.
func (x *chaos) scheduleSlowSaves(f Fault) bool {
	most := int64(slowest * float64(x.plan.Setup.Timings.LeaseTimeout))
	x.slow[f.Who] = nil
	for i := 0; i+1 < len(f.Args); i += 2 {
		x.slow[f.Who] = append(x.slow[f.Who], SlowSave{
			Takes:       time.Duration(min(max(f.Args[i], 0), most)),
			Written:     f.Args[i+1]&1 != 0,
			TimersFirst: f.Args[i+1]&2 != 0,
		})
	}
	return false
}

// slowSave returns the duration of the next save of a process. Memory stores are never slow.
func (x *chaos) slowSave(i int) SlowSave {
	if len(x.slow[i]) == 0 || x.c.procs[i].cfg.Volatile {
		return x.diskSave(i)
	}
	s := x.slow[i][0]
	x.slow[i] = x.slow[i][1:]
	x.countFault(SlowSaves)
	return s
}

func (x *chaos) drawLostDisk(f *Fault) {
	f.Who, f.Lasts = x.rand.IntN(x.plan.Setup.Processes), x.drawDowntime()
}

// loseDisk erases the disk of a process if the protocol tolerates it.
func (x *chaos) loseDisk(f Fault) bool {
	if !x.mayLose(f.Who) {
		return false
	}
	x.c.Crash(f.Who)
	x.c.LoseDisk(f.Who)
	x.restartLater(f.Who, f.Lasts)
	return true
}

func (x *chaos) drawClockBack(f *Fault) {
	x.drawLostDisk(f)
	f.Args = []int64{x.rand.Int64N(1 << 20)}
}

// setClockBack erases the store of a process, sets its wall clock back and restarts it. The
// incarnation of the new store is lower than the last incarnation of the old store.
func (x *chaos) setClockBack(f Fault) bool {
	p := x.c.procs[f.Who]
	switch {
	case len(f.Args) == 0 || f.Args[0] < 0:
		return false
	case p.cfg.Volatile:
		if !x.mayCrash(f.Who) {
			return false
		}
		x.c.Crash(f.Who)
	case !x.loseDisk(f):
		return false
	}
	p.clockSetBack = true
	home := x.c.procs[p.home]
	home.nextIncarnation = 1 + uint64(f.Args[0])%home.nextIncarnation
	x.restartLater(f.Who, f.Lasts)
	return true
}

// drawMisfit draws a process that runs with a different configuration for a while. Args are
// the different values.
func (x *chaos) drawMisfit(f *Fault) {
	f.Who, f.Lasts = x.drawVictim(), x.drawDuration()
	s := x.plan.Setup
	switch f.Class {
	case OtherSize:
		other := int64(s.Size) + 1 + x.rand.Int64N(2)
		if s.Size > 2 && x.rand.IntN(2) == 0 {
			other = int64(s.Size) - 1
		}
		f.Args = []int64{other}
	case OtherSeeds:
		for i := range s.Processes {
			if x.rand.IntN(2) == 0 && len(f.Args) < s.Size {
				f.Args = append(f.Args, int64(i))
			}
		}
	case OtherTimings:
		most := int64(s.Timings.LeaderTimeout)
		f.Args = []int64{most - x.rand.Int64N(most/2)}
	default:
		f.Args = []int64{1 + x.rand.Int64N(2)} // the lower of its two protocol versions
	}
}

// startMisconfigured restarts a process with another configuration, and later with the original
// configuration. Only one process may be misconfigured at a time. If one process is a majority,
// startMisconfigured does nothing: a majority with different seeds would be another cluster, for
// which there are no guarantees.
func (x *chaos) startMisconfigured(f Fault) bool {
	m, ok := x.misfitOf(f)
	if !ok || x.misfit >= 0 || x.c.check.quorum < 2 || !x.c.procs[f.Who].isUp() || !x.mayCrash(f.Who) {
		return false
	}
	x.misfit = f.Who
	x.restartMisfit(f.Who, m)
	var mend func()
	mend = func() {
		if !x.mayCrash(f.Who) {
			x.callLater(time.Duration(max(f.Lasts, shortest))+1, mend)
			return
		}
		x.misfit = -1
		x.restartMisfit(f.Who, misfit{})
	}
	x.callLater(time.Duration(f.Lasts), mend)
	return true
}

func (x *chaos) restartMisfit(i int, m misfit) {
	p := x.c.procs[i]
	started := p.isStarted()
	x.c.Crash(i)
	p.misfit = m
	if started {
		x.c.Start(i)
	}
}

func (x *chaos) misfitOf(f Fault) (misfit, bool) {
	switch {
	case len(f.Args) == 0:
		return misfit{}, false
	case f.Class == OtherSize:
		return misfit{size: int(f.Args[0])}, f.Args[0] > 1 && f.Args[0] <= member.MaxMembers
	case f.Class == OtherProtocol:
		low := uint16(f.Args[0] & 7)
		return misfit{protocol: [2]uint16{low, low + 1}}, low > 0
	case f.Class == OtherTimings:
		t := x.c.procs[f.Who].cfg.Timings
		t.LeaseTimeout = time.Duration(f.Args[0])
		return misfit{lease: t.LeaseTimeout}, t.Validate() == nil
	}
	var m misfit
	for _, i := range f.Args {
		if i < 0 || int(i) >= x.plan.Setup.Processes {
			return misfit{}, false
		}
		m.seeds = append(m.seeds, x.c.procs[i].cfg.Address)
	}
	slices.SortFunc(m.seeds, member.Address.Compare)
	return m, true
}
