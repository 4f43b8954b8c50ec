// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// Report is the state of a Reporter for monitoring; cluster.Status documents the fields.
type Report struct {
	NoLeader        string
	NotSaving       string
	SavePending     time.Duration
	SaveTook        time.Duration
	OtherSeeds      []member.Address
	Silent          []member.Address
	Missing         []MissingSeed
	Faults          []PeerFault
	Elections       []Election
	LeaderChanges   map[Cause]uint64
	Leaderless      time.Duration
	LeaderlessSince time.Time
	Counts          Counts
}

// ReadReport returns the current report of a node in state s.
func (o *Reporter) ReadReport(now time.Time, s State) Report {
	peers := o.peers.listStatuses(s.Held, o.cfg.silentTimeout())
	r := Report{
		NoLeader:   o.explainNoLeader(s, peers),
		OtherSeeds: o.peers.otherSeeds(),
		Missing:    o.listMissing(s, peers),
		Faults:     append(o.faults.listFaults(), listCutOff(s, peers)...),
		Counts:     o.Metrics.readCounts(),
	}
	for addr, p := range peers {
		if !p.reached {
			r.Silent = append(r.Silent, addr)
		}
	}
	r.SavePending, r.SaveTook, r.NotSaving = o.Disk.Read()
	if r.NoLeader != "" && r.NotSaving != "" {
		// Without a disk this node cannot vote, and while its event loop waits for a save, it hears no
		// other node.
		r.NoLeader = r.NotSaving
	}
	slices.SortFunc(r.Silent, member.Address.Compare)
	slices.SortStableFunc(r.Faults, func(a, b PeerFault) int { return a.Address.Compare(b.Address) })
	o.history.fillReport(now, !s.Leader.isZero(), &r)
	return r
}
