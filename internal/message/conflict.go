// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// SeedKeepAlive brings a leader's claim, which is in its header, to every seed and to every silent
// member. This prevents them from forming a separate cluster.
type SeedKeepAlive struct{}

// SeedKeepAliveAck answers a SeedKeepAlive. Its header contains the claim of the sender's leader.
type SeedKeepAliveAck struct{}

// LeaderRelieve informs a leader of a better claim.
type LeaderRelieve struct {
	Winner member.Claim
}

// ReJoinCluster is sent by a leader that steps down to all members of its roster. GivenUp is the
// claim of the run that sends the message.
type ReJoinCluster struct {
	GivenUp member.Claim
	Winner  member.Claim // zero if there is no winner
}

// Kind implements Body.
func (SeedKeepAlive) Kind() Kind { return KindSeedKeepAlive }

// Kind implements Body.
func (SeedKeepAliveAck) Kind() Kind { return KindSeedKeepAliveAck }

// Kind implements Body.
func (LeaderRelieve) Kind() Kind { return KindLeaderRelieve }

// Kind implements Body.
func (ReJoinCluster) Kind() Kind { return KindReJoinCluster }
