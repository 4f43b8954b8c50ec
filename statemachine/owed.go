// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"
)

// Owed is what a node may still owe after its last run: for Lease its support to a
// leader, and for Hold after that the trust of owners whose records that leader extended.
// The store keeps it. A run that has begun owes its own LeaseTimeout and HoldTimeout.
type Owed struct {
	Lease, Hold time.Duration
}

// OwedBy is what a run with these timings owes.
func OwedBy(t Timings) Owed { return Owed{Lease: t.LeaseTimeout, Hold: t.HoldTimeout()} }

// Wait is how long a run with these timings must wait before it greets another node. It
// votes for nobody during its own LeaseTimeout, and the records of owners end after its own
// HoldTimeout; what the last run owed beyond these is waited for first, and adds up. (S)
// Otherwise, of three nodes, two that restart with shorter timings would elect a leader
// beside that of the third, which cannot tell them of itself because their timings
// differ; and end records that it still extends.
func (o Owed) Wait(t Timings) time.Duration {
	return max(0, o.Lease-t.LeaseTimeout) + max(0, o.Hold-t.HoldTimeout())
}

// After is what is owed once d of that wait is over. (S) It is saved in the course of the
// wait: a node that is restarted meanwhile owes the rest.
func (o Owed) After(d time.Duration, t Timings) Owed {
	lease := min(d, max(0, o.Lease-t.LeaseTimeout))
	return Owed{Lease: o.Lease - lease, Hold: o.Hold - (d - lease)}
}
