// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"slices"

	"github.com/athena-go/athena/member"
)

// Outcome of counting votes.
type Outcome uint8

// The outcomes of a count.
const (
	Pending Outcome = iota // undecided, votes are missing
	Won                    // enough granted
	Lost                   // enough can no longer be reached
)

// Electorate says whose votes count and how many are needed.
type Electorate struct {
	Roster member.Roster // its voters count, by address and store id
	Quorum int           // M
	// Seeds is set in a founding: a majority of them must grant too, so that
	// two halves of more than N processes cannot both found.
	Seeds []member.Address
}

// Ballots counts the votes of one stage of one attempt, one a voter.
type Ballots struct {
	Version uint64 // that is voted on
	votes   []ballot
	best    Accepted // see Adopt; the others are let go, since each has a whole state
}

// ballot is what is kept of a vote.
type ballot struct {
	from    member.Identity
	granted bool
}

// Vote is one answer to a proposal as the proposer counts it.
type Vote struct {
	From     member.Identity
	Granted  bool
	Accepted Accepted // what the voter accepted before; of a pre vote
}

// Add counts v unless its voter has voted in this stage already; the first
// vote stands.
func (b *Ballots) Add(v Vote) bool {
	for _, o := range b.votes {
		if o.from.Voter() == v.From.Voter() {
			return false
		}
	}
	b.votes = append(b.votes, ballot{v.From, v.Granted})
	if a := v.Accepted; v.Granted && a.ID.Version == b.Version && a.ID.Compare(b.best.ID) > 0 {
		b.best = a
	}
	return true
}

// Count decides over the electorate: votes of others do not count.
func (b *Ballots) Count(e Electorate) Outcome {
	granted, open := 0, 0
	seedsGranted, seedsOpen := 0, 0
	for _, m := range e.Roster {
		if !m.IsVoter() {
			continue
		}
		isSeed := slices.Contains(e.Seeds, m.Address)
		v, voted := b.of(m.Voter())
		switch {
		case !voted:
			open++
			seedsOpen += count(isSeed)
		case v.granted:
			granted++
			seedsGranted += count(isSeed)
		}
	}
	seedQuorum := 0
	if e.Seeds != nil {
		seedQuorum = member.Quorum(len(e.Seeds))
	}
	switch {
	case granted >= e.Quorum && seedsGranted >= seedQuorum:
		return Won
	case granted+open < e.Quorum || seedsGranted+seedsOpen < seedQuorum:
		return Lost
	default:
		return Pending
	}
}

func (b *Ballots) of(v member.Voter) (ballot, bool) {
	for _, o := range b.votes {
		if o.from.Voter() == v {
			return o, true
		}
	}
	return ballot{}, false
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Adopt is the value that an earlier attempt may have got chosen at this version: the
// one accepted under the highest ballot among granted votes.
func (b *Ballots) Adopt() (Accepted, bool) { return b.best, !b.best.IsZero() }

// Granted reports whether exactly this run of this node granted.
func (b *Ballots) Granted(id member.Identity) bool {
	return slices.ContainsFunc(b.votes, func(v ballot) bool { return v.granted && v.from == id })
}

// Initial is the state in which candidate would start to lead version: base
// with the candidate active, the runs of those that granted, and the records that
// these leave; revision 0.
func (b *Ballots) Initial(
	base member.State, candidate member.Address, version uint64,
) member.State {
	roster := slices.Clone(base.Roster)
	for i, m := range roster {
		if v, ok := b.of(m.Voter()); ok && v.granted && v.from.Incarnation > m.Incarnation {
			// A later run is no longer the one that left on purpose.
			roster[i].Incarnation, roster[i].Resigned = v.from.Incarnation, false
		}
		if m.Address == candidate {
			roster[i].Status = member.Active
			roster[i].Gone, roster[i].Resigned = false, false
		}
	}
	return member.State{
		Number:  member.Number{Version: version},
		Cluster: base.Cluster,
		Leader:  candidate,
		Roster:  roster,
		Records: base.Records.In(roster),
	}
}
