// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// addressConflictInterval is the least time between two warnings about one address.
const addressConflictInterval = time.Minute

// Why two processes seem to advertise one address. A later run of the same store is not a
// reason by itself: every restart looks like that.
const (
	conflictStore = "it has another store"
	conflictAlive = "an earlier run still dials, or answers"
)

// noteRun notes the run in which a peer greets. It reports whether a later run of the same
// address has greeted before, which then was not a restart: the earlier process is alive.
func (p *peerLog) noteRun(id member.Identity) (earlier bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.byAddress[id.Address]
	if peer == nil || id.Incarnation >= peer.run {
		if peer != nil {
			peer.run = id.Incarnation
		}
		return false
	}
	return true
}

// mayWarnConflict reports whether to warn about an address now.
func (p *peerLog) mayWarnConflict(a member.Address) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.byAddress[a]
	if peer == nil || !peer.warned.IsZero() && time.Since(peer.warned) < addressConflictInterval {
		return false
	}
	peer.warned = time.Now()
	return true
}

// storeReplaced lists the members whose place another store took while this node followed,
// or was, one and the same leader. A member that had left or was silent for too long had no
// place to lose.
func (c *Changes) storeReplaced(before, after member.View) member.Roster {
	if before.Leader.IsZero() || before.Leader != after.Leader {
		return nil
	}
	var list member.Roster
	for _, m := range c.Members {
		old, known := before.Members.Find(m.After.Address)
		_, still := after.Members.Find(m.After.Address)
		if known && still && old.Status < member.Leaving && old.StoreID != m.After.StoreID {
			list = append(list, m.After)
		}
	}
	return list
}

// warnAddressConflict warns that two processes may have one address. The process that is
// pushed out knows for certain and ends; the other nodes only see another in its place.
func (o *Observer) warnAddressConflict(a member.Address, name, why string) {
	if a == o.cfg.Self || !o.peers.mayWarnConflict(a) {
		return
	}
	o.log.Warn("this member is taken by another process; "+
		"if this was no restart, two processes advertise one address",
		slog.String("peer", addressText(a)), slog.String("name", safetext.PeerText(name)),
		slog.String("why", why))
}
