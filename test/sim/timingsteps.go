// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/internal/message"
)

// This file contains the fault that changes the timings of a cluster in steps, while the processes
// accept two sets of timings (protocol.md 8, two sets of timings).

// The steps of a process. In each step but the first and the last it accepts two sets.
const (
	oldOnly = iota
	oldAcceptsNew
	newAcceptsOld
	newOnly
	timingSteps
)

// setsOf returns the own and the other timings of a process in a step.
func setsOf(step int, old, next message.Timings) (own, other message.Timings) {
	switch step {
	case oldOnly:
		return old, message.Timings{}
	case oldAcceptsNew:
		return old, next
	case newAcceptsOld:
		return next, old
	}
	return next, message.Timings{}
}

// stepArgs is the number of Args of each restart: its time, the process, and the step.
const stepArgs = 3

// drawTimingSteps draws the new timings and the restarts. In half of the faults each step is
// complete before the next one begins, as an operator should do it. In the others each process has
// times of its own, and some stay behind, go back or skip a step.
func (x *chaos) drawTimingSteps(f *Fault) {
	old := x.c.setup.Timings
	next := x.otherTimings(old)
	for _, d := range timingsOf(&next) {
		f.Args = append(f.Args, int64(*d))
	}
	longest := old.Longer(next)
	pause := longest.LeaseTimeout + longest.HoldTimeout()
	orderly := x.rand.IntN(2) == 0
	last := x.rand.IntN(len(x.c.procs))
	begin := time.Duration(0)
	for step := oldAcceptsNew; step <= newOnly; step++ {
		span := x.drawUpTo(pause) + time.Millisecond
		for i := range x.c.procs {
			at, to := begin+x.drawUpTo(span), step
			if !orderly {
				at = x.drawUpTo(4 * pause)
				if i == last || x.rand.IntN(4) == 0 {
					to = x.rand.IntN(timingSteps)
				}
			}
			f.Args = append(f.Args, int64(at), int64(i), int64(to))
		}
		begin += span + x.drawUpTo(2*pause)
	}
}

// applyTimingSteps applies the fault. It does nothing if processes have memory stores: the restarts
// would form a new cluster, for which there are no guarantees.
func (x *chaos) applyTimingSteps(f Fault) bool {
	next, ok := timingsIn(f.Args)
	old := x.c.setup.Timings
	if !ok || len(x.plan.Setup.Volatile) > 0 || old.ValidateOther(next) != nil {
		return false
	}
	x.c.setup.Timings = next
	for args := f.Args[timingArgs:]; len(args) >= stepArgs; args = args[stepArgs:] {
		i, step := int(args[1]), int(args[2])
		if i < 0 || i >= len(x.c.procs) || step < 0 || step >= timingSteps {
			continue
		}
		own, other := setsOf(step, old, next)
		x.callLater(time.Duration(args[0]), func() { x.c.Reconfigure(i, own, other) })
	}
	return true
}
