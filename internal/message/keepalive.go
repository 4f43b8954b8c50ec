// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// Stamp is a reading of a clock, nanoseconds since an arbitrary start of that
// run; only its own run compares it with anything. Version and Incarnation say
// which leadership of which run stamped. The zero Stamp is none.
type Stamp struct {
	Version     uint64
	Incarnation uint64
	Clock       int64
}

// IsZero reports whether there is no stamp.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// LeaderKeepAlive is a follower's heartbeat to its leader.
type LeaderKeepAlive struct {
	Number  member.Number // of the leader's state that the follower has
	Digest  uint64
	Bound   uint64 // version that the follower is bound to, 0 for none
	Echo    Stamp  // the greatest stamp of this leader, version and run
	Stamp   Stamp  // the follower's own clock, for the echo in the ack
	Drained bool   // the follower must not be proposed as leader
}

// LeaderKeepAliveAck answers a keep-alive. Only an ack with a stamp makes the
// follower support the leader (protocol.md section 5).
type LeaderKeepAliveAck struct {
	Echo    Stamp // the follower's stamp
	Stamp   Stamp // zero for a keep-alive that did not show the leader's version
	Healthy bool
	Quorate bool
	// Extends says that the follower may trust its records by Echo, its own stamp
	// (protocol.md section 10).
	Extends bool
	// Committed is the newest state of the leader that is committed; zero where the
	// leader does not know.
	Committed member.Number
}

// Kind implements Body.
func (LeaderKeepAlive) Kind() Kind { return KindLeaderKeepAlive }

// Kind implements Body.
func (LeaderKeepAliveAck) Kind() Kind { return KindLeaderKeepAliveAck }
