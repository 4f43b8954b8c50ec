// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// MemberStatusUpdate changes one entry of the roster. It is applied only on
// the revision before Number; anything else asks for alignment.
type MemberStatusUpdate struct {
	Number member.Number
	Member member.Member
}

// ClusterAlignment is the whole state, members in every status (case3 of the
// original design). The header's claim says whether its leader is chosen.
type ClusterAlignment struct {
	State member.State
}

// MemberLeave says that its sender goes, or gives up leadership, on purpose.
// From a member to its leader GivenUp is zero. From a leader to its members
// GivenUp is the claim that ends and Successor whom it proposes.
type MemberLeave struct {
	GivenUp   member.Claim
	Successor member.Address
	Stays     bool // a leader that hands over and remains a member
}

// Kind implements Body.
func (MemberStatusUpdate) Kind() Kind { return KindMemberStatusUpdate }

// Kind implements Body.
func (ClusterAlignment) Kind() Kind { return KindClusterAlignment }

// Kind implements Body.
func (MemberLeave) Kind() Kind { return KindMemberLeave }
