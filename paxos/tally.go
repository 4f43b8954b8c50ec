// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"slices"

	"github.com/athena-go/athena/member"
)

// outcome is the result of counting votes.
type outcome uint8

const (
	pending outcome = iota // undecided, votes are missing
	won                    // enough granted
	lost                   // enough can no longer grant
)

// electorate says whose votes count and how many are needed.
type electorate struct {
	roster member.Roster // its voters count, by address and store id
	quorum int           // M
	// seeds is set in a founding: a majority of them must grant too, so that two halves of more
	// than N processes cannot both found.
	seeds []member.Address
}

// tally counts the votes of one stage of one attempt, one a voter.
type tally struct {
	version uint64 // that is voted on
	votes   []countedVote
	best    Accepted // see adoptValue; the others are dropped, since each has a whole state
}

// countedVote is what is kept of a vote.
type countedVote struct {
	from    member.Identity
	granted bool
}

// addVote counts v. It returns false if its voter has voted in this stage already: the first vote
// stands.
func (t *tally) addVote(v Vote) bool {
	for _, c := range t.votes {
		if c.from.Voter() == v.From.Voter() {
			return false
		}
	}
	// A copy of the tally keeps its votes.
	t.votes = append(slices.Clip(t.votes), countedVote{v.From, v.Granted})
	if a := v.Accepted; v.Granted && a.ID.Version == t.version && a.ID.Compare(t.best.ID) > 0 {
		t.best = a
	}
	return true
}

// countVotes decides over the electorate. Votes of others do not count.
func (t *tally) countVotes(e electorate) outcome {
	granted, open := 0, 0
	seedsGranted, seedsOpen := 0, 0
	for _, m := range e.roster {
		if !m.IsVoter() {
			continue
		}
		isSeed := slices.Contains(e.seeds, m.Address)
		v, voted := t.findVote(m.Voter())
		switch {
		case !voted:
			open++
			seedsOpen += toInt(isSeed)
		case v.granted:
			granted++
			seedsGranted += toInt(isSeed)
		}
	}
	seedQuorum := 0
	if e.seeds != nil {
		seedQuorum = member.Quorum(len(e.seeds))
	}
	switch {
	case granted >= e.quorum && seedsGranted >= seedQuorum:
		return won
	case granted+open < e.quorum || seedsGranted+seedsOpen < seedQuorum:
		return lost
	default:
		return pending
	}
}

func (t *tally) findVote(v member.Voter) (countedVote, bool) {
	for _, c := range t.votes {
		if c.from.Voter() == v {
			return c, true
		}
	}
	return countedVote{}, false
}

// grantedBy reports whether exactly this run of this node granted.
func (t *tally) grantedBy(id member.Identity) bool {
	return slices.Contains(t.votes, countedVote{id, true})
}

// adoptValue returns the value that an earlier attempt may have got chosen at this version: the one
// accepted under the highest ballot among granted votes.
func (t *tally) adoptValue() (Accepted, bool) { return t.best, !t.best.IsZero() }

// initialState is the state in which candidate would start to lead version: base with the
// candidate active, the runs of those that granted, and the records that these leave; revision 0.
func (t *tally) initialState(
	base member.State, candidate member.Address, version uint64,
) member.State {
	roster := slices.Clone(base.Roster)
	for i, m := range roster {
		if v, ok := t.findVote(m.Voter()); ok && v.granted && v.from.Incarnation > m.Incarnation {
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

func toInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
