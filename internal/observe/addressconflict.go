// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// addressConflictInterval is the minimum time between two warnings about one address.
const addressConflictInterval = time.Minute

// These are the signs that two processes advertise one address. A later run with the same store is
// not a sign, because every restart looks like that.
const (
	conflictStore = "it has a different store"
	conflictAlive = "an earlier run still dials or answers"
)

// noteRun records the run of a peer that greets. It reports whether a later run has already greeted
// from this address. If so, the process of the earlier run is still running, so the later run is
// not a restart.
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

// mayWarnConflict reports whether a warning about this address is due.
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

// listReplacedStores returns the members that have a different store than before under the same
// leader. It omits members that were leaving or removed, because other processes may take their
// seats.
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

// warnAddressConflict warns that two processes may have one address. Only the process that loses
// its seat knows for certain, and it stops. The other nodes only see that another process has the
// seat.
func (o *Observer) warnAddressConflict(a member.Address, name, why string) {
	if a == o.cfg.Self || !o.peers.mayWarnConflict(a) {
		return
	}
	o.log.Warn("another process joined under this address; "+
		"unless it restarted, two processes advertise the same address",
		slog.String("peer", addressText(a)), slog.String("name", safetext.PeerText(name)),
		slog.String("why", why))
}
