// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// waitStep is the interval at which a waiting process saves the rest of its wait.
const waitStep = 100 * time.Millisecond

// startWait is the wait of a started process until the promises of its last run have
// expired.
type startWait struct {
	next statemachine.Owed // what the run will owe
	left time.Duration
}

// isStarted reports whether a process is up or waits before its run.
func (p *process) isStarted() bool { return p.isUp() || p.starting != nil }

// startWaiting starts the wait before a run and returns true, or returns false if no wait is
// necessary. A cluster of one never waits.
func (c *Cluster) startWaiting(p *process) bool {
	cfg := p.nextConfig()
	next := statemachine.OwedBy(cfg.Timings, cfg.OtherTimings)
	if cfg.Size == 1 {
		p.owed = p.owed.Alone(next, p.store.Held.Records)
	}
	left := p.owed.Wait(next)
	if left == 0 {
		return false
	}
	c.noteProcess(p, Waiting, fmt.Sprintf("%v before its run begins", left))
	c.scheduleWait(p, &startWait{next, left})
	return true
}

// scheduleWait schedules the next step of the wait, by the clock of the process.
func (c *Cluster) scheduleWait(p *process, w *startWait) {
	p.starting = w
	step := min(w.left, waitStep)
	c.queue.push(p.clock.globalTime(p.clock.at(c.now).Add(step)), item{run: func() {
		if p.starting != w {
			return
		}
		p.owed = p.owed.After(step, w.next)
		p.waited += step
		if w.left -= step; w.left > 0 {
			c.scheduleWait(p, w)
			return
		}
		p.starting = nil
		c.beginRun(p)
	}})
}

// Reconfigure gives a process other timings and a second set that it accepts, which is zero for
// none. It restarts the process if it is started.
func (c *Cluster) Reconfigure(i int, t, accepted message.Timings) {
	p := c.procs[i]
	started := p.isStarted()
	c.Crash(i)
	p.cfg.Timings, p.cfg.OtherTimings = t, accepted
	if started {
		c.Start(i)
	}
}
