// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"slices"

	"github.com/athena-go/athena/member"
)

// outcome is the result of a count.
type outcome uint8

const (
	pending outcome = iota // votes are missing
	won                    // enough granted
	lost                   // too few votes are left to grant
)

// electorate is the set of voters and the number of votes needed.
type electorate struct {
	roster member.Roster // its voters count, by address and store id
	quorum int           // M
	// seeds is set in a founding. A majority of them must also grant, so that two halves of more
	// than N processes cannot both found a cluster.
	seeds []member.Address
}

// tally counts the votes of one stage of an attempt, one per voter.
type tally struct {
	version uint64 // voted on
	votes   []countedVote
	best    Accepted // see adoptValue; other values are not kept, since each contains a whole state
}

// countedVote is the part of a vote that the tally keeps.
type countedVote struct {
	from    member.Identity
	granted bool
}

// addVote counts v. It returns false if the voter has already voted in this stage.
func (t *tally) addVote(v Vote) bool {
	if _, voted := t.findVote(v.From.Voter()); voted {
		return false
	}
	// Clipped, because a copy of the tally may share the slice.
	t.votes = append(slices.Clip(t.votes), countedVote{v.From, v.Granted})
	if a := v.Accepted; v.Granted && a.ID.Version == t.version && a.ID.Compare(t.best.ID) > 0 {
		t.best = a
	}
	return true
}

// countVotes returns the outcome. Votes from outside the electorate do not count.
func (t *tally) countVotes(e electorate) outcome {
	granted, open := 0, 0
	seedsGranted, seedsOpen := 0, 0
	for _, m := range e.roster {
		if !m.IsVoter() {
			continue
		}
		seed := 0
		if slices.Contains(e.seeds, m.Address) {
			seed = 1
		}
		v, voted := t.findVote(m.Voter())
		switch {
		case !voted:
			open++
			seedsOpen += seed
		case v.granted:
			granted++
			seedsGranted += seed
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

// grantedBy reports whether exactly this run granted its vote.
func (t *tally) grantedBy(id member.Identity) bool {
	return slices.Contains(t.votes, countedVote{id, true})
}

// adoptValue returns the value with the highest ballot in the granted votes. This value may already
// be chosen for this version.
func (t *tally) adoptValue() (Accepted, bool) { return t.best, !t.best.IsZero() }

// initialState returns the state in which a candidate would start to lead a version. It is base
// with the new version, revision 0, an active candidate, the incarnations of the voters that
// granted, and the records whose owners remain.
func (t *tally) initialState(
	base member.State, candidate member.Address, version uint64,
) member.State {
	roster := slices.Clone(base.Roster)
	for i, m := range roster {
		if v, ok := t.findVote(m.Voter()); ok && v.granted && v.from.Incarnation > m.Incarnation {
			// An earlier run left on purpose; this run did not.
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
