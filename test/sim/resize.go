// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Resize is the change of the size of a process, which is down for some time.
type Resize struct {
	Process, Size int
	At, Down      time.Duration
}

// Release is a request to remove the seats of members that left until Keep entries remain.
type Release struct {
	Keep int
	At   time.Duration
}

func (c *Cluster) planResizes(s Setup) {
	for _, z := range s.Resizes {
		c.After(z.At, func() { c.resize(z) })
	}
	for _, z := range s.Releases {
		c.After(z.At, func() { c.releaseSeats(z) })
	}
}

// releaseSeats passes the request to all processes. All but a leader refuse it.
func (c *Cluster) releaseSeats(z Release) {
	for i := range c.procs {
		c.giveOrder(i, "release seats", func(p *process, now time.Time) statemachine.Output {
			out, _, err := p.machine.ReleaseSeats(now, z.Keep)
			p.releases = p.releases || err == nil
			return out
		})
	}
}

// resize changes the size of a process that is down, and starts the process later.
func (c *Cluster) resize(z Resize) {
	p := c.procs[z.Process]
	c.Crash(z.Process)
	if p.store.CheckSize(z.Size) == nil {
		p.cfg.Size = z.Size
		c.setup.Size = max(c.setup.Size, z.Size)
		c.check.size = c.setup.Size
		c.check.quorum = member.Quorum(c.setup.Size)
	}
	c.After(z.Down, func() { c.Start(z.Process) })
}

// quorumOf returns the quorum of the process that runs, or last ran, at an address.
func (k *checker) quorumOf(a member.Address) int {
	if n := k.sizes[a]; n > 0 {
		return member.Quorum(n)
	}
	return k.quorum
}
