// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"fmt"

	"github.com/athena-go/athena/member"
)

// Accepted is a value that a voter accepted: a state that names its leader, the number of the state
// that it continues, and the id of its proposal. The zero Accepted means no value.
type Accepted struct {
	ID    ID
	Base  member.Number // number of the held state that State continues; zero in a founding
	State member.State
}

// IsZero reports whether nothing was accepted.
func (a Accepted) IsZero() bool { return a.ID.IsZero() }

// Acceptor is the voter of a node: the rules for voting, and what it must remember about its votes.
// Nothing in it expires.
type Acceptor struct {
	Promised ID           // highest promised or accepted proposal
	Accepted Accepted     // last accepted value
	Held     member.State // newest state of a chosen leader
	// Floor is the highest token of the cluster that this node forgot (athena recover), or 0.
	Floor uint64 `json:",omitempty"`
}

// Durable is the data that a node must not lose in a crash. It is saved and synced before the node
// relies on it or sends any message that depends on it (protocol.md 6, durable).
type Durable struct {
	StoreID     member.StoreID
	Incarnation uint64
	Acceptor
}

// RefusePromise returns the reason to refuse a pre proposal, or NotRefused. fromVoter is set if
// this node counts the proposer's vote.
//
// (S) A voter grants a promise only if the version is above its held version and (version, ballot)
// is above the promised one. A node that holds nothing votes only in foundings (protocol.md 6, 3).
// Package statemachine adds the rules that protect a live leader.
func (a Acceptor) RefusePromise(p Proposal, fromVoter bool) Refusal {
	switch {
	case p.ID.Version <= a.Held.Version:
		return OldVersion
	case p.ID.Compare(a.Promised) <= 0:
		return LowBallot
	}
	return a.refuseEither(p, fromVoter)
}

// Promise promises p, which RefusePromise allowed. It returns the acceptor to save and the value to
// include in the vote.
//
// The vote shows the value that the voter accepted last (protocol.md 6, 3). If a value was chosen,
// every quorum contains a voter that shows this value.
func (a Acceptor) Promise(p Proposal) (Acceptor, Accepted) {
	a.Promised = p.ID
	return a, a.Accepted
}

// RefuseAcceptance returns the reason to refuse a formal proposal, or NotRefused. fromVoter is set
// if this node counts the proposer's vote.
//
// (S) A voter accepts only under three conditions: the version is above its held version, (version,
// ballot) is not below the promised one, and the base is not older than its held state (protocol.md
// 6, 5).
func (a Acceptor) RefuseAcceptance(p Proposal, fromVoter bool) Refusal {
	switch {
	case p.ID.Version <= a.Held.Version:
		return OldVersion
	case p.Base.Less(a.Held.Number):
		return OldBase // the value would undo what the held state committed
	case p.ID.Compare(a.Promised) < 0:
		return LowBallot
	}
	return a.refuseEither(p, fromVoter)
}

// Accept accepts the value of p, which RefuseAcceptance allowed. It returns the acceptor to save.
//
// From then on the voter is bound (protocol.md 6, 5): see Bound.
func (a Acceptor) Accept(p Proposal) Acceptor {
	a.Promised = p.ID
	a.Accepted = Accepted{ID: p.ID, Base: p.Base, State: p.State}
	return a
}

// Bound returns the version of the accepted value until a state of that version is held, or 0. The
// value may or may not be chosen. A bound node takes no state, sends no keep-alive and trusts no
// ack of a lower version (protocol.md 6, 5).
func (a Acceptor) Bound() uint64 { return a.Accepted.ID.Version }

// Least returns the lowest version that this node helps to lead, or 0 for any. It is above Bound's
// for a recovered node: the node takes states up to its Floor, so that it can vote, but neither
// leads nor supports with a token that may have been used before (protocol.md 4, founding).
func (a Acceptor) Least() uint64 {
	if a.Floor > 0 {
		return max(a.Bound(), a.Floor+1)
	}
	return a.Bound()
}

// Take makes s, the state of a chosen leader, the held state. It returns the acceptor to save.
//
// (S) The promise and the accepted value of a version are dropped only when a state of that
// version or a later one is held (protocol.md 6, durable).
func (a Acceptor) Take(s member.State) Acceptor {
	a.Held = s
	if a.Promised.Version <= s.Version {
		a.Promised = ID{}
	}
	if a.Accepted.ID.Version <= s.Version {
		a.Accepted = Accepted{}
	}
	if a.Floor < s.Version {
		a.Floor = 0
	}
	return a
}

// CheckSize returns an error if the size of the cluster must not become n in this store.
//
// (S) No state that the store holds or accepted may have more than n members (protocol.md 3,
// another size). Then a majority of n and one of the earlier size have a voter in common.
func (a Acceptor) CheckSize(n int) error {
	for _, s := range []member.State{a.Held, a.Accepted.State} {
		switch voters := s.Roster.Voters(); {
		case len(s.Roster) > n:
			return fmt.Errorf("the least size is %d, the number of members: those that left keep "+
				"their seats until athena release", len(s.Roster))
		case !s.IsZero() && voters < member.Quorum(n):
			return fmt.Errorf("size %d needs %d voting members, but the cluster has %d: "+
				"the greatest size is %d", n, member.Quorum(n), voters, 2*voters-1)
		}
	}
	return nil
}

// refuseEither applies the rules that both stages have in common.
func (a Acceptor) refuseEither(p Proposal, fromVoter bool) Refusal {
	switch {
	case a.jumpsTooFar(p, fromVoter):
		return VersionJump
	case !p.Founding && a.Held.IsZero():
		return HoldsNothing // otherwise a vote could outlive the state that it was based on
	}
	return NotRefused
}

// Limits of the numbers in a proposal. Without them one message could use up the numbers that
// receivers accept (member.MaxCount), or move the fencing token beyond what fits into one integer
// (member.Token.Int64).
const (
	// MaxVersionJump is the maximum difference between the version of a proposal, promise or bound and
	// the held version. Such a version grows by one with each election that fails after a voter
	// accepted its value. With a HeartbeatInterval of 100 ms, 65,536 failures in a row take at least
	// an hour and a half.
	MaxVersionJump = 1 << 16
	// MaxFloor limits Floor, and the version of the first state of a cluster. It is less than half
	// of what fits into one integer, so that a recovered cluster has as many versions left.
	MaxFloor = 1 << 22
	// maxRound limits the rounds of ballots, which grow by one with each proposal.
	maxRound = 1 << 40
)

// jumpsTooFar reports whether no election can have led to p. (S) The round must be at most 2^40,
// and the version at most 2^16 above the voter's held version. If the proposer is a voter and its
// proposal continues a newer state, that state counts instead. These limits are twice as high for
// voters and founders. No version exceeds member.MaxVersion (protocol.md 3). A node without a vote
// must not be able to bind voters to a version that no other proposal can exceed. A founding
// proposes version 1.
func (a Acceptor) jumpsTooFar(p Proposal, fromVoter bool) bool {
	last, room := a.Held.Version, uint64(1)
	switch {
	case p.Founding && p.ID.Version != 1:
		return true
	case p.Founding:
		room = 2
	case fromVoter:
		last, room = max(last, p.Held.Version, p.Base.Version), 2
	}
	return p.ID.Version > last+room*MaxVersionJump || p.ID.Ballot.Round > room*maxRound ||
		p.ID.Version > member.MaxVersion
}
