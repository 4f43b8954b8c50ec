// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// MemberStatusUpdate changes one entry of the roster. A member applies the update only to the state
// with the revision before Number. Otherwise it asks for alignment.
type MemberStatusUpdate struct {
	Number member.Number
	Member member.Member
}

// MemberTraits announces a member's traits to a leader whose state does not show them yet.
type MemberTraits struct{ member.Traits }

// ClusterAlignment is the whole state, with members in every status. The header's claim shows
// whether the leader of the state is chosen.
type ClusterAlignment struct {
	State member.State
}

// MemberLeave announces that its sender leaves or gives up leadership. If a member sends it to its
// leader, GivenUp is zero. If a leader sends it to its members, GivenUp is the claim that ends, and
// Successor is the member that the leader proposes; zero if it proposes none.
type MemberLeave struct {
	GivenUp   member.Claim
	Successor member.Address
	Stays     bool // the leader remains a member
}

// RunEnded proves that the runs of a store before Run have ended. A member that receives it from
// Run itself relays it to all others.
type RunEnded struct {
	Run member.Identity
	// StoreKey is the public key whose hash is the store id of Run. Proof is the signature by it of
	// Run and of the cluster in the header.
	StoreKey [32]byte
	Proof    [64]byte
}

// Kind implements Body.
func (RunEnded) Kind() Kind { return KindRunEnded }

// Kind implements Body.
func (MemberStatusUpdate) Kind() Kind { return KindMemberStatusUpdate }

// Kind implements Body.
func (MemberTraits) Kind() Kind { return KindMemberTraits }

// Kind implements Body.
func (ClusterAlignment) Kind() Kind { return KindClusterAlignment }

// Kind implements Body.
func (MemberLeave) Kind() Kind { return KindMemberLeave }
