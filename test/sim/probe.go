// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/statemachine"
)

// probeHost asks the host of a leader whether it refuses connections. A host refuses connections if
// its process is down. If Setup.Rejects lists the process, the host always does. If the link is cut
// or the host is suspended, there is no reply.
func (c *Cluster) probeHost(p *process, of statemachine.Probe) {
	to := slices.IndexFunc(c.procs, func(o *process) bool {
		return o.lastRun.Voter() == of.Leader.Voter()
	})
	if to < 0 {
		return
	}
	there, back := c.net.linkOf(p.index, to), c.net.linkOf(to, p.index)
	run := p.runs
	c.After(there.Delay, func() {
		o := c.procs[to]
		refuses := !o.isUp() || slices.Contains(c.setup.Rejects, to) && o.sleptSince == 0
		if !refuses || there.cuts+back.cuts > 0 {
			return
		}
		c.After(back.Delay, func() {
			if p.runs == run {
				c.reportRefused(p, of)
			}
		})
	})
}

// reportRefused informs a machine that the host of a leader refused the connection.
func (c *Cluster) reportRefused(p *process, of statemachine.Probe) {
	switch {
	case p.takesInput():
		c.noteInput(p, steplog.Step{Event: steplog.Refusal, Probe: &of})
		c.settleStep(p, p.machine.Refused(c.readClock(p), of))
	case p.isUp():
		p.keepItem(item{run: func() { c.reportRefused(p, of) }})
	}
}
