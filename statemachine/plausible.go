// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Numbers that no sound node sends. What is beyond these limits is refused, so that one
// message can neither use up the numbers that receivers accept (member.MaxCount) nor make
// the fencing token jump beyond what fits into one integer (member.Token.Int64).
const (
	// maxVersionJump is how far a version that was not chosen yet (of a proposal, a
	// promise or a bound) may lie above what it follows. Such a version grows by one with
	// each election that fails after its proposal was accepted somewhere: 65,536 of them
	// in a row take an hour and a half at least, with an interval of 100 ms. Voters may go
	// twice as far: what a stranger bound a voter to must not be the end.
	maxVersionJump = 1 << 16
	// maxJoinJump is the same for the bound of a joiner that has no vote. A few elections fail
	// while a seat is given away; each joiner may move the token so far.
	maxJoinJump = 1 << 8
	// maxStateJump is how far the version of a chosen state may lie above the held one: a
	// node may be away for long. An election a second takes 136 years for it.
	maxStateJump = 1 << 32
	// maxRound bounds the rounds of ballots, which grow by one with each proposal. Those of
	// voters and founders may be twice as great.
	maxRound = 1 << 40
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

// jumps reports whether no election can have led to a proposal. A voter that was away for
// long takes the word of another voter for what was chosen meanwhile.
func (m *Machine) jumps(from member.Identity, p message.Proposal) bool {
	last, room := m.held().Version, uint64(1)
	switch {
	case p.Founding && p.ID.Version != 1:
		return true
	case p.Founding:
		room = 2
	case m.votesHere(from.Voter()):
		last, room = max(last, p.Held.Version, p.Base.Version), 2
	}
	return p.ID.Version > last+room*maxVersionJump || p.ID.Ballot.Round > room*maxRound
}
