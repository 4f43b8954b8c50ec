// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/athena-go/athena/member"

// routeTo returns the process that receives messages to an address, or -1.
func (c *Cluster) routeTo(from *process, to member.Address) int {
	for i, p := range c.procs[:c.setup.Processes] {
		if p.cfg.Address.Port == to.Port && p.cfg.Address == to {
			return c.routeTwin(from, i, true)
		}
	}
	return -1
}

// messagesPerConnection is the mean number of messages on a connection. The next connection may
// reach the other process at the same address.
const messagesPerConnection = 100

// routeTwin selects one of two processes at the same address. A sender uses one process for a while
// and then chooses again at random, as if the name of the host were resolved for each connection.
// If sends is false, the sender does not choose again.
func (c *Cluster) routeTwin(from *process, home int, sends bool) int {
	twin := -1
	for _, p := range c.twins() {
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
	if *dialed == 0 || sends && c.routes.IntN(messagesPerConnection) == 0 {
		*dialed = 1 + []int{home, twin}[c.routes.IntN(2)]
	}
	return *dialed - 1
}

// twins returns the additional processes that share an address.
func (c *Cluster) twins() []*process {
	n := c.setup.Processes
	return c.procs[n : n+len(c.setup.Twins)]
}

// claimants returns the additional processes that claim an address.
func (c *Cluster) claimants() []*process { return c.procs[c.setup.Processes+len(c.setup.Twins):] }
