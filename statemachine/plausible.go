// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Numbers that no sound node sends. What is beyond these limits is refused, so that one
// message can neither use up the numbers that receivers accept (member.MaxCount) nor make
// the fencing token jump beyond what fits into one integer (member.Token.Int64).
const (
	// maxJoinJump is what paxos.MaxVersionJump is, for the bound of a joiner that has no vote. A
	// few elections fail while a seat is given away; each joiner may move the token so far.
	maxJoinJump = 1 << 8
	// maxStateJump is how far the version of a chosen state may lie above the held one: a
	// node may be away for long. An election a second takes 136 years for it.
	maxStateJump = 1 << 32
	// maxRunJump is how far a run of a member may lie above the one that is known. Runs are
	// numbered by the milliseconds since 1970, or by one more than the last.
	maxRunJump = 1 << 44
)

// plausible reports whether a leader of a cluster like this one could have made s.
func (m *Machine) plausible(s member.State) bool {
	leader, ok := s.Roster.Find(s.Leader)
	return ok && leader.Status == member.Active && len(s.Roster) <= m.cfg.Size &&
		s.Version > 0 && s.Version <= m.held().Version+maxStateJump
}

// choosable reports whether M votes could have chosen the leader of s in this node's
// cluster. A founding begins with M voters, and no change leaves fewer.
func (m *Machine) choosable(s member.State) bool {
	return m.plausible(s) && !s.Cluster.IsZero() && s.Roster.Voters() >= m.quorum &&
		(m.cluster().IsZero() || s.Cluster == m.cluster())
}

// sound reports whether a value that is proposed or was accepted makes sense in itself.
func (m *Machine) sound(a paxos.Accepted) bool {
	return m.choosable(a.State) && a.State.Version == a.ID.Version &&
		a.State.Revision == 0 && a.Base.Version < a.ID.Version
}
