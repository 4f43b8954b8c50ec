// SPDX-License-Identifier: Apache-2.0

package observe

import "github.com/athena-go/athena/member"

// Changes is what one turn changed in the view of a node.
type Changes struct {
	// Members are sorted by address, the members that are gone after all others.
	Members []MemberChange
	// Leader reports whether the leader, its version, or its authority changed.
	Leader bool
	// Cause is why the leader before does not lead; empty while a leader with authority
	// was not lost.
	Cause Cause
}

// MemberChange is a change of one member, with each status as it is shown.
type MemberChange struct {
	Before member.Member // zero for a new member
	After  member.Member // Removed for a member that is gone
}

// Compare returns the differences between two views.
func Compare(before, after member.View) Changes {
	var c Changes
	for _, m := range after.Members {
		m.Status = m.Shown()
		old, known := before.Member(m.Address)
		old.Status = old.Shown()
		if !known || old.Status != m.Status || old.Identity != m.Identity {
			c.Members = append(c.Members, MemberChange{Before: old, After: m})
		}
	}
	for _, old := range before.Members {
		old.Status = old.Shown()
		if _, still := after.Member(old.Address); !still && old.Status != member.Removed {
			gone := old
			gone.Status = member.Removed
			c.Members = append(c.Members, MemberChange{Before: old, After: gone})
		}
	}
	c.Leader = leaderOf(before) != leaderOf(after)
	return c
}

// viewLeader is what a view shows of its leader.
type viewLeader struct {
	address member.Address
	version uint64
	quorate bool
}

func leaderOf(v member.View) viewLeader {
	if v.Leader.IsZero() {
		return viewLeader{} // a version without a leader is not shown
	}
	return viewLeader{v.Leader, v.Version, v.Quorate}
}
