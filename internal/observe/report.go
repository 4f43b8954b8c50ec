// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// Report is the state of an Observer for monitoring; cluster.Status documents the fields.
type Report struct {
	NoLeader        string
	OtherSeeds      []member.Address
	Silent          []member.Address
	Elections       []Election
	LeaderChanges   map[Cause]uint64
	Leaderless      time.Duration
	LeaderlessSince time.Time
	Counts          Counts
}

// ReadReport returns the current report of a node in state s.
func (o *Observer) ReadReport(now time.Time, s State) Report {
	peers := o.peers.listStatuses(s.Held, o.cfg.silentTimeout())
	r := Report{
		NoLeader:   o.explainNoLeader(s, peers),
		OtherSeeds: o.peers.otherSeeds(),
		Counts:     o.Metrics.readCounts(),
	}
	for addr, p := range peers {
		if !p.reached {
			r.Silent = append(r.Silent, addr)
		}
	}
	slices.SortFunc(r.Silent, member.Address.Compare)
	o.history.fillReport(now, !s.Leader.isZero(), &r)
	return r
}
