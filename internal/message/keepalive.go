// SPDX-License-Identifier: Apache-2.0

package message

import (
	"time"

	"github.com/athena-go/athena/member"
)

// Stamp is a reading of a node's clock, in nanoseconds since an arbitrary start of its run. Only
// that run compares it. Version and Incarnation identify the leadership and the run that made the
// stamp. The zero Stamp means no stamp.
type Stamp struct {
	Version     uint64
	Incarnation uint64
	Clock       int64
}

// IsZero reports whether there is no stamp.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// LeaderKeepAlive is a follower's heartbeat to its leader.
type LeaderKeepAlive struct {
	Number  member.Number // number of the leader's state that the follower has
	Digest  uint64
	Bound   uint64 // version that the follower is bound to, 0 if none
	Echo    Stamp  // the greatest stamp received from this leader, version and run
	Stamp   Stamp  // the follower's own stamp, which the ack echoes
	Drained bool   // the follower must not be proposed as leader
	// Reaches is how many voters the follower heard lately, itself included. It is 0 if the release of
	// the follower does not say.
	Reaches int
	// Save is how long the latest saves of the follower took. It is 0 if it has not saved lately, or
	// if its release does not say.
	Save time.Duration
}

// LeaderKeepAliveAck answers a keep-alive. Only an ack with a stamp makes the
// follower support the leader (protocol.md section 5).
type LeaderKeepAliveAck struct {
	Echo    Stamp // the follower's stamp
	Stamp   Stamp // zero if the keep-alive did not have the leader's version
	Healthy bool
	Quorate bool
	// Extends means that the follower may hold its records for longer, counted from the time of its
	// own stamp in Echo (protocol.md section 10).
	Extends bool
	// Committed is the number of the newest committed state that the leader knows; zero if it knows
	// none.
	Committed member.Number
	// Hold is for how long an ack that Extends does so at most. It is zero if the leader accepts only
	// its own timings: the HoldTimeout of the follower is the same then.
	Hold time.Duration
	// Offers means that the leader would hand over to the follower if the follower heard M voters.
	Offers bool
}

// Kind implements Body.
func (LeaderKeepAlive) Kind() Kind { return KindLeaderKeepAlive }

// Kind implements Body.
func (LeaderKeepAliveAck) Kind() Kind { return KindLeaderKeepAliveAck }
