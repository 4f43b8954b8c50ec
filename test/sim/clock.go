// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"
)

// The rates of clocks, in parts of rateUnit of global time. The fastest clock runs 1.111
// times as fast as the slowest, just below the 10/9 that a lease tolerates (protocol.md
// section 5).
const (
	rateUnit = 10_000
	rateMin  = rateUnit
	rateMax  = rateUnit + rateUnit/9 - 1
)

// clockSpread bounds the difference between the readings of two clocks.
const clockSpread = 10 * 365 * 24 * time.Hour

// clockEpoch is the reading of a clock without skew at the start of a run.
const clockEpoch = 1_700_000_000 * int64(time.Second)

// clock is the clock of one machine. It has its own rate and offset.
type clock struct {
	offset int64 // reading at global time 0, in nanoseconds since 1970
	rate   int64 // in parts of rateUnit
}

// steadyClock returns a clock that shows global time.
func steadyClock() clock { return clock{offset: clockEpoch, rate: rateUnit} }

// drawClock draws a clock with a random offset and rate, often one of the extreme rates.
func drawClock(r *rand.Rand) clock {
	c := clock{offset: clockEpoch + r.Int64N(int64(clockSpread)), rate: rateMin}
	switch r.IntN(3) {
	case 0:
	case 1:
		c.rate = rateMax
	default:
		c.rate += r.Int64N(rateMax - rateMin + 1)
	}
	return c
}

// at returns the reading of the clock at a global time.
func (c clock) at(global int64) time.Time {
	return time.Unix(0, c.offset+c.timePassed(global)).UTC()
}

func (c clock) timePassed(global int64) int64 {
	return global/rateUnit*c.rate + global%rateUnit*c.rate/rateUnit
}

// globalTime returns the earliest global time at which the clock reads t or later.
func (c clock) globalTime(t time.Time) int64 {
	local := t.UnixNano() - c.offset
	if local <= 0 {
		return 0
	}
	g := local / c.rate * rateUnit
	g += (local%c.rate*rateUnit + c.rate - 1) / c.rate
	for g > 0 && c.timePassed(g-1) >= local {
		g--
	}
	for c.timePassed(g) < local {
		g++
	}
	return g
}

// SetForward sets the wall clock of a machine forward, as NTP or a guest agent does after a
// suspension. The process notices it at its next turn.
func (c *Cluster) SetForward(i int) {
	if p := c.procs[i]; p.isUp() {
		p.clockSetForward = true
	}
}

// readClock reads the clocks of a process, as a node does before each call to its machine.
func (c *Cluster) readClock(p *process) time.Time {
	now := p.clock.at(c.now)
	if p.clockSetForward {
		p.clockSetForward = false
		c.noteProcess(p, WallClockSet, "")
		p.machine.EndTrust(now)
		c.input.Woke = true
		c.check.noteTrustEnded(c.now, p.index)
	}
	return now
}
