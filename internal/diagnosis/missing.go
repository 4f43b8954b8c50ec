// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// MissingTimeout is how long a seed must be missing, or a member out of reach, before that is
// logged: longer than a restart takes.
const MissingTimeout = 30 * time.Second

// MissingSeed is a seed that is not an active member although there is a leader.
type MissingSeed struct {
	Address member.Address
	Why     string // its last answer to this node, or why it did not answer
}

// missingLog contains the missing seeds, and the active members out of reach. The event loop
// updates it every WarnInterval.
type missingLog struct {
	next  time.Time // when to check again
	seeds map[member.Address]missingSince
	cut   []PeerFault
}

// missingSince is when a seed was first found missing, and whether that was logged.
type missingSince struct {
	at     time.Time
	logged bool
}

// listMissing returns the seeds that are missing, in the order of the configuration. Without a
// leader there are none: explainNoLeader then names the nodes that do not answer.
func (o *Reporter) listMissing(s State, peers map[member.Address]peerStatus) (list []MissingSeed) {
	if s.Leader.isZero() {
		return nil
	}
	for _, seed := range o.cfg.Seeds {
		if m, _ := s.View.Members.Find(seed); seed != o.cfg.Self && m.Status != member.Active {
			list = append(list, MissingSeed{seed, cmp.Or(o.faults.explainFault(seed), peers[seed].text)})
		}
	}
	return list
}

// listCutOff returns the active members that this node has not reached for MissingTimeout. They may
// still follow the leader, but when it leaves, this node and they do not elect another.
func listCutOff(s State, peers map[member.Address]peerStatus) (list []PeerFault) {
	for _, m := range s.View.Members {
		if p := peers[m.Address]; m.Status == member.Active && p.cut && !s.Leader.isZero() {
			list = append(list, PeerFault{m.Address, "active, but this node cannot reach it: " + p.text})
		}
	}
	return list
}

// warnMissing logs which seeds are missing, and which are back, if a check is due. The event loop
// calls it in each turn.
func (o *Reporter) warnMissing(now time.Time, s State) {
	l := &o.missing
	if s.Leader.isZero() {
		l.next = now.Add(WarnInterval) // a node that returns connects to its leader first
	}
	if now.Before(l.next) {
		return
	}
	l.next = now.Add(WarnInterval)
	peers := o.peers.listStatuses(s.Held, o.cfg.silentTimeout())
	missing, cut := o.listMissing(s, peers), listCutOff(s, peers)
	for _, f := range cut {
		isKnown := func(known PeerFault) bool { return known.Address == f.Address }
		if !slices.ContainsFunc(l.cut, isKnown) {
			o.log.Warn("an active member cannot be reached", slog.String("peer", addressText(f.Address)),
				slog.String("why", safetext.OneLine(f.Why, maxErrorBytes)))
		}
	}
	l.cut = cut
	current := map[member.Address]missingSince{}
	for _, m := range missing {
		known := cmp.Or(l.seeds[m.Address], missingSince{at: now})
		if !known.logged && now.Sub(known.at) >= MissingTimeout {
			known.logged = true
			o.log.Warn("a seed is missing", slog.String("peer", addressText(m.Address)),
				slog.String("why", safetext.OneLine(m.Why, maxErrorBytes)))
		}
		current[m.Address] = known
	}
	for _, seed := range o.cfg.Seeds {
		if _, still := current[seed]; !still && l.seeds[seed].logged {
			o.log.Info("a missing seed is an active member", slog.String("peer", addressText(seed)))
		}
	}
	l.seeds = current
}
