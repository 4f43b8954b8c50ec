// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// CopyDisk keeps a copy of the store of a process.
func (c *Cluster) CopyDisk(i int) { c.procs[i].copied = c.procs[i].store }

// RestoreDisk replaces the store of a process that is down with the copy.
func (c *Cluster) RestoreDisk(i int) {
	p := c.procs[i]
	if p.isStarted() || p.copied.StoreID.IsZero() {
		return
	}
	c.noteProcess(p, DiskRestored, "")
	p.store, p.restored = p.copied, true
	c.check.restored = true
}

// checkCopy checks that a restored copy is found only if there is one.
func (k *checker) checkCopy(p *process, t statemachine.Trace) {
	switch t.Kind {
	case statemachine.FoundCopy, statemachine.FoundLater:
		if !k.restored {
			k.noteViolation("copy", "%s finds a restored copy, but none was restored: %v of %v",
				p.cfg.Name, t.Kind, t.Peer)
		}
	default:
	}
}

// endCopy reports whether a process gives up a store that was restored from a copy. Its operator
// does not let it found a cluster.
func (k *checker) endCopy(p *process) bool {
	restored := p.restored
	p.restored, p.cfg.JoinOnly = false, p.cfg.JoinOnly || restored && p.isSeed()
	return restored
}

// noteCopyVotes records that a restored store voted although it has forgotten votes or states, as
// it does if no other node that remembers them has heard it before.
func (k *checker) noteCopyVotes(p *process, old paxos.Durable) {
	if !p.restored || p.store.Promised == old.Promised && p.store.Accepted.ID == old.Accepted.ID {
		return
	}
	l := k.historyOf(p.voter())
	if old.Held.Number.Less(l.held) || old.Promised.Compare(l.granted) < 0 {
		k.void = fmt.Sprintf("by %v, %s voted with a store that was restored from a copy",
			time.Duration(k.now), p.cfg.Name)
	}
}
