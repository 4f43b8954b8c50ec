// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/member"
)

// Status is one consistent look at a node, for people and monitoring.
type Status struct {
	Cluster string
	Size    int
	Quorum  int
	Name    string
	Seed    bool
	View    member.View // Self and Role among it
	// Token is the version of the quorate leader, 0 when there is none.
	Token uint64
	// LeaseRemaining is how long this node keeps authority unless it is
	// extended; 0 on a node without.
	LeaseRemaining time.Duration
	// TermSince is when the present term began here; zero without one.
	TermSince    time.Time
	LastElection Election
	Uptime       time.Duration
	Drained      bool
	// Dropped counts what was refused or dropped, by reason.
	Dropped map[string]uint64
	Traffic Traffic
}

// Election is a change of leader as this node saw it; the zero Election is none.
type Election struct {
	Cause   string        // why there was no leader: "start", "lost", "left"
	Version uint64        // of the new leader
	Leader  member.Address
	Took    time.Duration // from then until the new leader was quorate here
	Ended   time.Time
}

// Traffic counts frames and their bytes.
type Traffic struct {
	SystemSent, SystemReceived Count
	CustomSent, CustomReceived Count
}

// Count is a number of frames and the sum of their lengths.
type Count struct {
	Frames uint64
	Bytes  uint64
}
