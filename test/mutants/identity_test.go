// SPDX-License-Identifier: Apache-2.0

package mutants

// identity lists the mutants of the rules by which a process cannot use the address of another one,
// or use up the numbers (section 3).
var identity = []Mutant{
	{
		Name: "address-trusted",
		Rule: "3, whose word counts: a voter is trusted with the store that the roster lists",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  "e.IsVoter() && e.StoreID == id.StoreID || m.follows(id) ||",
			New:  "e.IsVoter() && e.Address == id.Address || m.follows(id) ||",
		}},
	},
	{
		Name: "joiner-trusted",
		Rule: "3, whose word counts: a joiner is no voter",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  "return known && e.IsVoter() && ",
			New:  "return known && ",
		}},
		Test:    "TestTheClaimOfAJoinerDeposesNoLeader",
		Package: "statemachine",
	},
	{
		Name: "leader-given-up-by-its-address",
		Rule: "5, support: a leader is given up by its own store",
		Edits: []Edit{{
			File: "statemachine/conflict.go",
			Old:  "if m.follows(in.From) && m.claim() == given {",
			New:  "if m.role == member.Following && m.claim() == given {",
		}},
	},
	{
		Name: "run-of-any-store",
		Rule: "5, support: only a later run of the same store ends a leadership",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "case f.leader.StoreID != from.StoreID:",
			New:  "case f.leader.StoreID != from.StoreID && f.leader.Incarnation >= from.Incarnation:",
		}},
	},
	{
		Name: "place-of-a-member-that-is-heard",
		Rule: "3, restarts: a place goes to another store only if the member is silent",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "case known && m.isHeld(e):",
			New:  "case known && m.isHeld(e) && e.Address == m.self.Address:",
		}},
	},
	{
		Name: "second-vote-given-up",
		Rule: "3, restarts: no second vote is given up while the first store claims its address",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "if m.hearsEvicted(e.Address) || ",
			New:  "if m.hearsEvicted(e.Address) && !e.IsVoter() || ",
		}},
		Test:    "TestNoSecondVoteIsGivenUpWhileTheFirstStoreClaimsItsAddress",
		Package: "statemachine",
	},
	{
		Name: "raised-run-kept",
		Rule: "3, restarts: a raised run that is refused begins again with the number of its clock",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "if m.wasRaised() && (",
			New:  "if m.wasRaised() && m.quorum == 0 && (",
		}},
		Test:    "TestARaisedRunJoinsWithAnotherStore",
		Package: "statemachine",
	},
	{
		Name: "seat-timeout-ignored",
		Rule: "3, seats: the seat of a member is kept for SeatTimeout",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "return p.heard.Add(m.cfg.SeatTimeout)",
			New:  "return p.heard",
		}},
	},
	{
		Name: "lost-joiner-frees-a-seat",
		Rule: "3, seats: a seat stays if another store takes it and is lost",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "if e.Gone {\n\t\te.StoreID",
			New:  "if e.Gone && e.IsVoter() {\n\t\te.StoreID",
		}},
	},
	{
		Name: "second-joiner-frees-a-seat",
		Rule: "3, seats: a seat stays if several stores take it and are lost",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "member.Joining, before.IsVoter() || before.Gone",
			New:  "member.Joining, before.IsVoter()",
		}},
	},
	{
		Name: "seat-without-a-store-is-held",
		Rule: "3, seats: the seat of a store that was lost waits for its member",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "p != nil && !e.StoreID.IsZero() && p.id",
			New:  "p != nil && p.id",
		}},
		Test:    "TestASeatIsKeptWhenAnotherStoreThatTookItIsLost",
		Package: "statemachine",
	},
	{
		Name: "lost-run-forgotten",
		Rule: "3, numbers: each joiner can still exceed the run that has its address",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "e.StoreID, e.Traits = member.StoreID{}, member.Traits{}",
			New:  "e.StoreID, e.Incarnation, e.Traits = member.StoreID{}, 0, member.Traits{}",
		}},
		Test:    "TestAJoinerExceedsTheRunThatASeatLost",
		Package: "statemachine",
	},
	{
		Name: "lost-run-keeps-its-seat",
		Rule: "3, seats: any store joins at the address of a seat without a store",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "known && !e.StoreID.IsZero() && j.Inc",
			New:  "known && j.Inc",
		}},
		Test:    "TestAJoinerExceedsTheRunThatASeatLost",
		Package: "statemachine",
	},
	{
		Name: "stopped-by-a-lost-run",
		Rule: "3, seats: the run that lost its vote returns to a seat without a store",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "m.admitted && !e.StoreID.IsZero()",
			New:  "m.admitted",
		}},
		Test:    "TestARunThatWasCutOffReturnsToASeatWithoutAStore",
		Package: "statemachine",
	},
	{
		Name: "version-raised-by-strangers",
		Rule: "3, numbers: a node without a vote never raises the version",
		Edits: []Edit{{
			File: "statemachine/leader.go",
			Old:  "if !m.shownState().Roster.IsVoter(in.From.Voter()) ||\n\t\tversion > ",
			New:  "if version > ",
		}},
	},
	{
		Name: "version-raised-at-once",
		Rule: "3, numbers: the version is raised at most once in TTLTimeout",
		Edits: []Edit{{
			File: "statemachine/leader.go",
			Old:  "m.now.Sub(m.raisedAt) < m.timing.TTLTimeout {",
			New:  "m.now.Sub(m.raisedAt) < 0 {",
		}},
		Test: "TestAVoterRaisesTheVersionSlowly",
	},
	{
		Name: "version-without-a-maximum",
		Rule: "3, numbers: no node votes for a version for which the token has no room",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  " ||\n\t\tp.ID.Version > member.MaxVersion",
			New:  "",
		}, {
			File: "statemachine/state.go",
			Old:  " && s.Version <= member.MaxVersion",
			New:  "",
		}},
		Test: "TestNoVersionExceedsTheGreatestToken",
	},
	{
		Name: "run-jumps",
		Rule: "3, numbers: a joiner in a run far above that of the leader is refused",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "case j.Incarnation > max(m.self.Incarnation+maxRunLead, e.Incarnation+maxRunsBetween):",
			New:  "case j.Incarnation > max(m.self.Incarnation+4*maxRunLead, e.Incarnation+maxRunsBetween):",
		}},
	},
	{
		Name:  "bound-without-a-vote",
		Rule:  "6, 5: a node accepts no value in whose state it has no vote",
		Edits: []Edit{acceptsWithoutAVote},
	},
	{
		Name: "founds-beside-a-follower",
		Rule: "4: a founding waits for a seed that shows a state, even if the seed follows a leader",
		Edits: []Edit{{
			File: "statemachine/discovery.go",
			Old:  "if !isSeed {",
			New:  "if !isSeed || !in.Claim.IsZero() {",
		}},
		Test:    "TestAFoundingWaitsForASeedThatFollowsALeader",
		Package: "statemachine",
	},
}
