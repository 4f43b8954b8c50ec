// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/athena-go/athena/member"

// routeTo finds the process that gets what is sent to an address; -1 for none.
func (c *Cluster) routeTo(from *process, to member.Address) int {
	for i, p := range c.procs[:c.setup.Processes] {
		if p.cfg.Address.Port == to.Port && p.cfg.Address == to {
			return c.routeTwin(from, i)
		}
	}
	return -1
}

// stick is how many messages a connection lasts, on average, before another
// one leads to the other process of an address, if there is one.
const stick = 100

// routeTwin chooses among the processes of one address: as when a name is
// resolved anew at each dial, a sender stays with one while it lives, and then
// takes either.
func (c *Cluster) routeTwin(from *process, home int) int {
	if len(c.setup.Twins) == 0 {
		return home
	}
	twin := -1
	for _, p := range c.procs[c.setup.Processes:] {
		if p.home == home && p != from {
			twin = p.index
		}
	}
	switch {
	case twin < 0 || !c.procs[twin].isUp():
		return home
	case !c.procs[home].isUp():
		return twin
	}
	dialed := &c.dialed[from.index*len(c.procs)+home]
	if *dialed == 0 || c.routes.IntN(stick) == 0 {
		*dialed = 1 + []int{home, twin}[c.routes.IntN(2)]
	}
	return *dialed - 1
}
