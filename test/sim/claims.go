// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
)

// This file decides whose messages a process accepts if several processes claim one address
// (protocol.md 8, claims). The process accepts a message from another store than that of the
// member at an address only if a connection that it dials reaches the sender. A twin can be dialed
// at its address, a claimant cannot. The rule concerns no others, because every connection to their
// address reaches them.

// noteShared finds the processes whose address several processes claim to have.
func (c *Cluster) noteShared() {
	if total := len(c.procs); total > c.setup.Processes {
		c.asked = make([]int64, total*total)
	}
	for _, p := range c.procs[c.setup.Processes:] {
		p.shared, c.procs[p.home].shared = true, true
	}
}

// acceptsFrom reports whether p accepts a message from another process, which has the given store.
func (c *Cluster) acceptsFrom(p, from *process, store member.StoreID) bool {
	owner, known := p.store.Held.Roster.Find(from.cfg.Address)
	return known && owner.StoreID == store ||
		!from.claims && c.routeTwin(p, from.home, false) == from.index
}

// refuseClaim refuses a message from an address that belongs to another store. p then asks the
// process at that address for an answer, as package mesh makes it do: not more often than twice
// within HeartbeatTimeout.
func (c *Cluster) refuseClaim(p, from *process, store member.StoreID) {
	c.net.stats.Claimed++
	c.noteReached(ruleClaimRefused)
	asked := &c.asked[p.index*len(c.procs)+from.index]
	if *asked > 0 && c.now-*asked < int64(p.cfg.Timings.HeartbeatTimeout)/2 {
		return
	}
	*asked = c.now
	c.noteInput(p, steplog.Step{Event: steplog.Order})
	c.settleStep(p, p.machine.AskPeer(c.readClock(p), from.cfg.Address, store))
}
