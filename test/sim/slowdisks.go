// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/athena-go/athena/statemachine"
)

// This file contains the fault that the disks of some or all processes are slow, and the check that
// a leader is elected meanwhile (protocol.md section 6, slow disks).

// streamSlowDisks draws the faults. The stream before it determines whether a run has them, and the
// one after it how long each save takes.
const streamSlowDisks = -18

// The longest save of a slow disk is drawn between these bounds.
const (
	slowDiskMin = 100 * time.Millisecond
	slowDiskMax = time.Second
)

// drawSlowDisks draws the longest save, which is Args[0], and the processes whose disks are slow.
func (x *chaos) drawSlowDisks(f *Fault) {
	f.Lasts = x.drawDuration()
	f.Args = []int64{int64(drawSpread(x.rand, float64(slowDiskMin), float64(slowDiskMax)))}
	for _, i := range x.rand.Perm(len(x.c.procs))[:1+x.rand.IntN(len(x.c.procs))] {
		f.Args = append(f.Args, int64(i))
	}
}

// slowDisks makes disks slow for a while. Each save takes at least half as long as the longest.
func (x *chaos) slowDisks(f Fault) bool {
	if len(f.Args) < 2 || f.Args[0] < 2 {
		return false
	}
	longest := min(time.Duration(f.Args[0]), slowDiskMax)
	for _, i := range f.Args[1:] {
		if i >= 0 && int(i) < len(x.c.procs) {
			x.disks[i] = slowDisk{longest, x.c.now + f.Lasts}
		}
	}
	return true
}

// slowDisk is a disk that is slow until a time.
type slowDisk struct {
	longest time.Duration
	until   int64
}

// diskSave returns the duration of the next save of a process with a slow disk. Memory stores are
// never slow.
func (x *chaos) diskSave(i int) SlowSave {
	d := x.disks[i]
	if x.c.now >= d.until || x.c.procs[i].cfg.Volatile {
		return SlowSave{}
	}
	return SlowSave{
		Takes:       d.longest/2 + time.Duration(x.saves.Int64N(int64(d.longest/2))),
		Written:     x.saves.IntN(2) == 0,
		TimersFirst: x.saves.IntN(2) == 0,
	}
}

// checkSlowDisks checks invariant L1 if saves take up to d: the disks of all members are slow, or
// of so many that each majority has one, and the leader crashes or is cut off.
func (j *judge) checkSlowDisks() {
	c, t, x := j.c, j.c.setup.Timings, j.x
	c.RunFor(2 * t.TTLTimeout) // until no process remembers slower saves
	old := c.Leader()
	if c.check.first != nil || !c.Settled() {
		return
	}
	if !c.hasCandidate(old) || c.procs[old].cfg.Volatile {
		j.checkSteady(2*t.TTLTimeout, "without faults")
		return
	}
	longest := min(slowDiskMax, t.TTLTimeout/4)
	d := time.Duration(drawSpread(j.rand, float64(min(slowDiskMin, longest/2)), float64(longest)))
	slow := slices.DeleteFunc(j.rand.Perm(c.setup.Processes), func(i int) bool { return i == old })
	if j.rand.IntN(2) == 0 {
		slow = slow[:min(len(slow), c.setup.Size-c.check.quorum)]
	}
	c.noteRun(Phase, "%s have slow disks, with saves of up to %v, and the leader is lost",
		processNames(slow), d)
	clear(x.disks)
	for _, i := range slow {
		x.disks[i] = slowDisk{d, never}
	}
	c.SlowSave = x.diskSave
	led := false // saves that take longer than the lease end authority again
	c.onTrace = func(i int, t statemachine.Trace) {
		led = led || t.Kind == statemachine.GainedAuthority && i != old
	}
	defer func() { c.SlowSave, c.onTrace = nil, nil }()
	start, drained := c.now, j.drainedDelay(old)
	if j.rand.IntN(2) == 0 {
		c.Crash(old)
	} else {
		c.Isolate(old)
	}
	limit := t.LeaderTimeout + 3*t.HeartbeatInterval + 8*d + drained
	if !c.RunUntil(limit, func() bool { return led }) {
		j.noteFailure("L1", "no other leader within %v, although no save takes longer than %v", limit, d)
		return
	}
	j.recordMeasure("leader with slow disks", start, limit)
}
