// SPDX-License-Identifier: Apache-2.0

package member

// Role is what a node is in its own view.
type Role uint8

const (
	// Seeking nodes follow no leader: they join, ask or propose.
	Seeking Role = iota
	// Following nodes follow the leader of the view.
	Following
	// Provisional leaders declared themselves and have no authority.
	Provisional
	// Leading nodes were chosen; only while Quorate have they authority.
	Leading
)

var roleNames = [...]string{"joining", "follower", "provisional", "leader"}

// String is the name of the role as the admin API writes it.
func (r Role) String() string { return roleNames[r] }

// View is what one node sees and whom it follows: soft, never stored. A View
// is a value of its own; changing it changes nothing in the node.
type View struct {
	Self    Identity
	Role    Role
	Version uint64
	// Revision of the state shown; it belongs to Version.
	Revision uint64
	Leader   Address // zero when the node follows nobody
	// Quorate says that the leader was chosen and, as far as this node knows,
	// has its lease: for the leader itself by its own count, for a follower
	// by the newest ack within LeaderTimeout.
	Quorate bool
	// Members in every status, Removed included, sorted by address.
	Members Roster
}

// Member returns the entry of addr, its status as shown.
func (v View) Member(addr Address) (Member, bool) { return v.Members.Find(addr) }
