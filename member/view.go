// SPDX-License-Identifier: Apache-2.0

package member

// Role is the role of a node in its own View.
type Role uint8

const (
	// Seeking nodes follow no leader: they join, ask for one, or propose.
	Seeking Role = iota
	// Following nodes follow the leader of the view.
	Following
	// Provisional leaders declared themselves and have no authority.
	Provisional
	// Leading nodes were chosen. They have authority only while Quorate.
	Leading
)

var roleNames = [...]string{"joining", "follower", "provisional", "leader"}

// String returns the name that the admin API uses.
func (r Role) String() string { return roleNames[r] }

// View is a snapshot of what one node knows. It is a copy, is never stored, and may be out
// of date.
type View struct {
	Self    Identity
	Role    Role
	Version uint64
	// Revision of the state shown, within Version.
	Revision uint64
	Leader   Address // zero if the node follows no leader
	// Quorate reports whether the leader was chosen and has its lease, as far as this node
	// knows: a leader counts its acks, a follower looks for an ack within LeaderTimeout.
	Quorate bool
	// Members of every status, Removed included, sorted by address.
	Members Roster
}

// Member returns the entry of addr, with its status as shown, and false if there is none.
func (v View) Member(addr Address) (Member, bool) { return v.Members.Find(addr) }
