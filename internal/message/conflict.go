// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// SeedKeepAlive carries a leader's claim, in the header, to every seed and to every member
// that is silent, so that no separate cluster forms.
type SeedKeepAlive struct{}

// SeedKeepAliveAck answers with the claim of the leader that its sender follows, in the
// header.
type SeedKeepAliveAck struct{}

// LeaderRelieve informs a leader of a better claim.
type LeaderRelieve struct {
	Winner member.Claim
}

// ReJoinCluster is sent by a leader that steps down, to all members of its roster. GivenUp
// is the claim of the run that sends it.
type ReJoinCluster struct {
	GivenUp member.Claim
	Winner  member.Claim // zero if there is none
}

// Kind implements Body.
func (SeedKeepAlive) Kind() Kind { return KindSeedKeepAlive }

// Kind implements Body.
func (SeedKeepAliveAck) Kind() Kind { return KindSeedKeepAliveAck }

// Kind implements Body.
func (LeaderRelieve) Kind() Kind { return KindLeaderRelieve }

// Kind implements Body.
func (ReJoinCluster) Kind() Kind { return KindReJoinCluster }
