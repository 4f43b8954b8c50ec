// SPDX-License-Identifier: Apache-2.0

package paxos

import "github.com/athena-go/athena/member"

// Accepted is a value that a voter accepted: a state with its leader, what it was built on, and
// the proposal that carried it. The zero Accepted stands for no value.
type Accepted struct {
	ID    ID
	Base  member.Number // of the held state that State continues; zero in a founding
	State member.State
}

// IsZero reports whether nothing was accepted.
func (a Accepted) IsZero() bool { return a.ID.IsZero() }

// Acceptor is the voter of one node: what it remembers of its votes, and the rules by which it
// votes. Nothing of it expires.
type Acceptor struct {
	Promised ID           // highest proposal that it promised or accepted
	Accepted Accepted     // value that it accepted last
	Held     member.State // newest state of a chosen leader that it took
}

// Durable is what a node must still know after a crash. It is saved and synced before any message
// that depends on it leaves, and before the node itself counts on it (protocol.md 6, durable).
type Durable struct {
	StoreID     member.StoreID
	Incarnation uint64
	Acceptor
}

// RefusePromise returns the reason to refuse a pre proposal, or NotRefused.
// fromVoter says that the proposer has a vote that this node would count.
//
// (S) "A voter accepts when: version > held version; (version, ballot) > promised; who then holds
// nothing votes in foundings only" (protocol.md 6, 3). The rules that protect a living leader are
// those of the node, which asks for this one first.
func (a Acceptor) RefusePromise(p Proposal, fromVoter bool) Refusal {
	switch {
	case p.ID.Version <= a.Held.Version:
		return OldVersion
	case p.ID.Compare(a.Promised) <= 0:
		return LowBallot
	}
	return a.refuseEither(p, fromVoter)
}

// Promise promises p, which RefusePromise allowed. It returns the acceptor to save and the value
// to show in the vote.
//
// "It stores the promise, and its vote shows the value that it accepted last" (protocol.md 6, 3).
// If that value is chosen, every quorum has a voter that shows it.
func (a Acceptor) Promise(p Proposal) (Acceptor, Accepted) {
	a.Promised = p.ID
	return a, a.Accepted
}

// RefuseAcceptance returns the reason to refuse a formal proposal, or NotRefused.
// fromVoter says that the proposer has a vote that this node would count.
//
// (S) "A voter accepts when: version > held version; (version, ballot) >= promised; base >= own
// held state" (protocol.md 6, 5).
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
// "It stores what it accepted and is bound" (protocol.md 6, 5): see Bound.
func (a Acceptor) Accept(p Proposal) Acceptor {
	a.Promised = p.ID
	a.Accepted = Accepted{ID: p.ID, Base: p.Base, State: p.State}
	return a
}

// Bound is the version of the value that the acceptor accepted, as long as it does not hold a state
// of that version; 0 for none. The value may be chosen or not. "It takes no state, sends no
// keep-alive and believes no ack of a lower version" (protocol.md 6, 5).
func (a Acceptor) Bound() uint64 { return a.Accepted.ID.Version }

// Take makes s, the state of a chosen leader, the held state. It returns the acceptor to save.
//
// (S) "Promise and accepted value of version w are dropped only when a state of version >= w is
// held" (protocol.md 6, durable).
func (a Acceptor) Take(s member.State) Acceptor {
	a.Held = s
	if a.Promised.Version <= s.Version {
		a.Promised = ID{}
	}
	if a.Accepted.ID.Version <= s.Version {
		a.Accepted = Accepted{}
	}
	return a
}

// refuseEither refuses what neither stage allows.
func (a Acceptor) refuseEither(p Proposal, fromVoter bool) Refusal {
	switch {
	case a.jumpsTooFar(p, fromVoter):
		return VersionJump
	case !p.Founding && a.Held.IsZero():
		return HoldsNothing // no vote may outlive the state that it was asked for with
	}
	return NotRefused
}

// Limits of the numbers in a proposal. Without them one message could use up the numbers that
// receivers accept (member.MaxCount), or make the fencing token jump beyond what fits into one
// integer (member.Number.Int64).
const (
	// MaxVersionJump is how far a version that is not chosen yet (of a proposal, a promise or a
	// bound) may lie above the one that it follows. Such a version grows by one with each
	// election that fails after its value was accepted somewhere: 65,536 failures in a row take
	// an hour and a half at least, with a HeartbeatInterval of 100 ms.
	MaxVersionJump = 1 << 16
	// maxRound limits the rounds of ballots, which grow by one with each proposal.
	maxRound = 1 << 40
)

// jumpsTooFar reports whether no election can have led to p. (S) "A proposal is refused if its
// version is more than 2^16 above the voter's held version (a voter's word extends that to the
// state which its proposal continues) or its round is above 2^40; of a voter, and of a founder,
// twice as much is allowed" (protocol.md 3): a node without a vote must not bind voters so high
// that none of them can follow. "A founding proposes version 1."
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
	return p.ID.Version > last+room*MaxVersionJump || p.ID.Ballot.Round > room*maxRound
}
