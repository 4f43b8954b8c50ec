// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// This file contains the fault that changes the timings of a cluster as an operator does, by
// restarting one process after the other.

// timingArgs is the number of timings at the start of the fault's Args.
const timingArgs = 6

// drawNewTimings draws the new timings. For each process it draws the time until a restart with the
// new timings, and the time from there to a second restart. If this is 0, there is no second
// restart. In half of the faults all processes restart twice: the second time while they wait for
// the promises of their last run to expire, or do not vote yet. One process, often the leader,
// restarts only when the others may have elected another leader.
func (x *chaos) drawNewTimings(f *Fault) {
	old := x.c.setup.Timings
	t := x.otherTimings(old)
	for _, d := range timingsOf(&t) {
		f.Args = append(f.Args, int64(*d))
	}
	span := x.drawUpTo(2*old.LeaderTimeout) * time.Duration(x.rand.IntN(2))
	open := statemachine.OwedBy(old, message.Timings{}).Wait(
		statemachine.OwedBy(t, message.Timings{})) + t.LeaseTimeout
	last := x.rand.IntN(len(x.c.procs))
	if l := x.c.Leader(); l >= 0 && x.rand.IntN(2) == 0 {
		last = l
	}
	twice := x.rand.IntN(2) == 0
	for i := range x.c.procs {
		first, again := x.drawUpTo(span), time.Duration(0)
		if i == last {
			first = span + old.LeaseTimeout + x.drawUpTo(old.HoldTimeout())
		}
		if twice {
			again = time.Duration(drawSpread(x.rand, float64(waitStep), float64(open)))
		}
		f.Args = append(f.Args, int64(first), int64(again))
	}
}

// otherTimings draws all timings again, only LeaseTimeout, or only the scale.
func (x *chaos) otherTimings(t message.Timings) message.Timings {
	const times = 5 // ratio of the two intervals of drawTimings
	switch x.rand.IntN(4) {
	case 0:
		return drawTimings(x.rand)
	case 1:
		longer := t.HeartbeatInterval < 500*time.Millisecond
		for _, d := range timingsOf(&t) {
			if longer {
				*d *= times
			} else {
				*d /= times
			}
		}
	default:
		least := t.LeaderTimeout * 2 / 5
		t.LeaseTimeout = least + x.drawUpTo(t.LeaderTimeout-least)
	}
	return t
}

// timingsOf returns the timings in the order of the fault's Args.
func timingsOf(t *message.Timings) [timingArgs]*time.Duration {
	return [...]*time.Duration{
		&t.HeartbeatInterval, &t.HeartbeatTimeout, &t.LeaderTimeout, &t.LeaseTimeout, &t.TTLTimeout,
		&t.RetryInterval,
	}
}

// applyNewTimings applies the fault. It does nothing if processes have memory stores: the restarts
// would form a new cluster, for which there are no guarantees.
func (x *chaos) applyNewTimings(f Fault) bool {
	t, ok := timingsIn(f.Args)
	if !ok || len(x.plan.Setup.Volatile) > 0 {
		return false
	}
	x.c.setup.Timings = t
	for i := range x.c.procs {
		at := timingArgs + 2*i
		if at+1 >= len(f.Args) {
			break
		}
		first, again := time.Duration(f.Args[at]), time.Duration(f.Args[at+1])
		x.callLater(first, func() { x.c.Reconfigure(i, t, message.Timings{}) })
		if again > 0 {
			x.callLater(first+again, func() { x.c.Reconfigure(i, t, message.Timings{}) })
		}
	}
	return true
}

// timingsIn reads the timings of a fault and reports whether they are within bounds.
func timingsIn(args []int64) (t message.Timings, ok bool) {
	if len(args) < timingArgs {
		return t, false
	}
	for i, d := range timingsOf(&t) {
		*d = time.Duration(args[i])
	}
	return t, t.Validate() == nil && max(t.TTLTimeout, t.RetryInterval) <= maxTimeout
}
