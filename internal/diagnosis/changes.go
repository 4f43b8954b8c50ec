// SPDX-License-Identifier: Apache-2.0

package diagnosis

import "github.com/athena-go/athena/member"

// Changes describes what one turn changed in the view of a node.
type Changes struct {
	// Members are sorted by address; removed members come last.
	Members []MemberChange
	// Leader reports whether the leader, its version, or its authority has changed.
	Leader bool
	// Cause is why the previous leader was lost; empty if no leader was lost.
	Cause Cause
}

// MemberChange is a change of one member. Each Status is the status that users see.
type MemberChange struct {
	Before member.Member // zero for a new member
	After  member.Member // its status is Removed if it is no longer in the view
}

// CompareViews returns the differences between two views.
func CompareViews(before, after member.View) Changes {
	var c Changes
	for _, m := range after.Members {
		m.Status = m.Shown()
		old, known := before.Member(m.Address)
		old.Status = old.Shown()
		if !known || old.Status != m.Status || old.Identity != m.Identity || old.Traits != m.Traits {
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
	c.Leader = before.Leader != after.Leader || !after.Leader.IsZero() &&
		(before.Version != after.Version || before.Quorate != after.Quorate)
	return c
}
