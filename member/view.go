// SPDX-License-Identifier: Apache-2.0

package member

// Role is the role of a node in its own View.
type Role uint8

const (
	// Seeking nodes follow no leader: they join, search for a leader, or propose a leader.
	Seeking Role = iota
	// Following nodes follow the leader of the view.
	Following
	// Provisional leaders have declared themselves and have no authority.
	Provisional
	// Leading nodes were chosen. They have authority only while Quorate.
	Leading
)

var roleNames = [...]string{"joining", "follower", "provisional", "leader"}

// String returns the name in the admin API.
func (r Role) String() string { return roleNames[r] }

// View is a snapshot of what one node knows. It is a copy, is never stored, and may be out of date.
type View struct {
	Self    Identity
	Role    Role
	Version uint64
	// Revision is the revision of the state within Version.
	Revision uint64
	Leader   Address // zero if the node follows no leader
	// Quorate reports whether this node knows that the leader was chosen and has its lease. A leader
	// counts its acks. A follower must have received an ack within LeaderTimeout.
	Quorate bool
	// Members lists the members with any status, including Removed, sorted by address.
	Members Roster
}

// Member returns the entry of addr, with the status that the View shows, and false if
// addr is not a member.
func (v View) Member(addr Address) (Member, bool) { return v.Members.Find(addr) }
