// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/athena-go/athena/member"
)

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
