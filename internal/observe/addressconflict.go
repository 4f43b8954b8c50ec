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

// Signs that two processes advertise one address. A later run of the same store is no such sign,
// because every restart looks like that.
const (
	conflictStore = "it has another store"
	conflictAlive = "an earlier run still dials, or answers"
)

// noteRun notes the run in which a peer greets. It returns true if a later run of the address
// has greeted before: the earlier process still runs, so that this is no restart.
func (p *peerLog) noteRun(id member.Identity) (earlier bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.byAddress[id.Address]
	if peer == nil {
		return false
	}
	earlier = id.Incarnation < peer.run
	peer.run = max(peer.run, id.Incarnation)
	return earlier
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

// listReplacedStores lists the members that have another store than before under the same
// leader. Members that were leaving or removed are not listed: others may take their seats.
func (c *Changes) listReplacedStores(before, after member.View) member.Roster {
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

// warnAddressConflict warns that two processes may have one address. The process that loses its
// seat learns that for certain and ends; the other nodes only see another process in its seat.
func (o *Observer) warnAddressConflict(a member.Address, name, why string) {
	if a == o.cfg.Self || !o.peers.mayWarnConflict(a) {
		return
	}
	o.log.Warn("another process joined under this address; "+
		"unless it restarted, two processes advertise the same address",
		slog.String("peer", addressText(a)), slog.String("name", safetext.PeerText(name)),
		slog.String("why", why))
}
