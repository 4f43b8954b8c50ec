// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"log/slog"
	"time"

	"github.com/athena-go/athena/member"
)

// takenInterval is how long one address is not warned of again.
const takenInterval = time.Minute

// Why an address looks as if two processes advertised it. A later run of the same
// store is no reason by itself: that is what every restart looks like.
const (
	takenStore = "it has another store"
	takenAlive = "an earlier run still dials, or answers"
)

// earlierRun notes the run in which a peer greets, and reports whether a later one
// of its address has greeted before: a process that was restarted says nothing
// any more.
func (s *notes) earlierRun(id member.Identity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.by[id.Address]
	if h == nil || id.Incarnation >= h.run {
		if h != nil {
			h.run = id.Incarnation
		}
		return false
	}
	return true
}

// warnTaken reports whether to warn of an address, which is not done too often.
func (s *notes) warnTaken(a member.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.by[a]
	if h == nil || !h.taken.IsZero() && time.Since(h.taken) < takenInterval {
		return false
	}
	h.taken = time.Now()
	return true
}

// restocked lists the members whose place another store took while this node
// followed, or was, one and the same leader. Who had left or was silent for too
// long has no place that could be taken.
func restocked(before, after member.View) member.Roster {
	if before.Leader.IsZero() || before.Leader != after.Leader {
		return nil
	}
	var list member.Roster
	for _, m := range after.Members {
		old, known := before.Members.Find(m.Address)
		if known && old.Status < member.Leaving && old.StoreID != m.StoreID {
			list = append(list, m)
		}
	}
	return list
}

// logTaken warns that two processes may have one address. The one that is pushed
// out knows for certain and ends; the others only see somebody take its place.
func (n *Node) logTaken(a member.Address, why string) {
	if a == n.cfg.self || !n.heard.warnTaken(a) {
		return
	}
	n.log.Warn("this member is taken by another process; "+
		"if this was no restart, two processes advertise one address",
		slog.String("peer", shown(a)),
		slog.String("name", member.PeerText(memberAt(n.look().view, a).Name)),
		slog.String("why", why))
}
