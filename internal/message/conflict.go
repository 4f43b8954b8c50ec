// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// SeedKeepAlive carries a leader's claim, in the header, to every seed and to
// every member that it does not hear, so that no island forms.
type SeedKeepAlive struct{}

// SeedKeepAliveAck answers with the claim of the leader that its sender
// follows, in the header.
type SeedKeepAliveAck struct{}

// LeaderRelieve tells a leader that a better claim exists.
type LeaderRelieve struct {
	Winner member.Claim
}

// ReJoinCluster is sent by a leader that steps down, to everyone in its roster
// (case4 of the original design). GivenUp was held by the run that sends it.
type ReJoinCluster struct {
	GivenUp member.Claim
	Winner  member.Claim // zero when nobody won
}

// Kind implements Body.
func (SeedKeepAlive) Kind() Kind { return KindSeedKeepAlive }

// Kind implements Body.
func (SeedKeepAliveAck) Kind() Kind { return KindSeedKeepAliveAck }

// Kind implements Body.
func (LeaderRelieve) Kind() Kind { return KindLeaderRelieve }

// Kind implements Body.
func (ReJoinCluster) Kind() Kind { return KindReJoinCluster }
