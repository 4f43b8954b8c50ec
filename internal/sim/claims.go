// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
)

// This file contains the rule for connections to one address of which several processes claim to
// have it (protocol.md 8, claims). A process accepts a message from another store than that of the
// member at an address only if a connection that it dials reaches the sender. A twin can be dialed
// at its address, a claimant cannot: it only has the connections that it dials itself.

// noteShared finds the processes whose address several processes claim to have. The rule concerns
// no others, because every connection to their address reaches them.
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
	isOwner := known && owner.StoreID == store
	if c.adopted == nil {
		return isOwner || !known || c.routeTwin(p, from.home, false) == from.index
	}
	holder, adopted := c.holderOf(p, from.home)
	accepts := isOwner
	switch {
	case isOwner:
	case from.claims:
		// Without a member at the address, the first process that greets from it has the address.
		accepts = !known && (holder < 0 || holder == from.index)
	default:
		claimed := holder >= 0 && c.procs[holder].claims
		accepts = !known || !claimed && c.routeTwin(p, from.home, false) == from.index
	}
	if accepts {
		*adopted = from.index + 1
	}
	return accepts
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

// holderOf returns the process to which p has a connection for an address, or -1. A connection of a
// claimant ends when p learns that the address belongs to another store. adopted is where the
// number + 1 of that process is kept.
func (c *Cluster) holderOf(p *process, home int) (holder int, adopted *int) {
	adopted = &c.adopted[p.index*len(c.procs)+home]
	if *adopted == 0 {
		return -1, adopted
	}
	o := c.procs[*adopted-1]
	owner, known := p.store.Held.Roster.Find(o.cfg.Address)
	if !o.isUp() || c.net.linkOf(p.index, o.index).cuts+c.net.linkOf(o.index, p.index).cuts > 0 ||
		o.claims && known && owner.StoreID != o.store.StoreID {
		*adopted = 0
		return -1, adopted
	}
	return o.index, adopted
}

// routeClaimed selects the process that receives messages to an address that claimants may claim.
// A sender answers a claimant on the connection that the claimant dialed.
func (c *Cluster) routeClaimed(from *process, home int) int {
	holder, adopted := c.holderOf(from, home)
	if holder >= 0 && c.procs[holder].claims {
		return holder
	}
	to := c.routeTwin(from, home, true)
	if c.procs[to].isUp() {
		*adopted = to + 1
	}
	return to
}

// forgetConnections ends the connections of a process that is down.
func (c *Cluster) forgetConnections(i int) {
	for n := range c.adopted {
		if c.adopted[n] == i+1 || n/len(c.procs) == i {
			c.adopted[n] = 0
		}
	}
}
