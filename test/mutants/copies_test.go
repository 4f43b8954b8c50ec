// SPDX-License-Identifier: Apache-2.0

package mutants

// copies are the mutants of protocol.md section 3, a restored copy.
var copies = []Mutant{
	{
		Name: "copy-forgets-a-run",
		Rule: "3, a restored copy: a run that a store has forgotten is found",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "runs.Last < e.Incarnation && e.",
			New:  "runs.First < e.Incarnation && e.",
		}},
		Test:    "TestOtherStoresAreNotTakenForCopies",
		Package: "statemachine",
	},
	{
		Name: "copy-forgets-a-state",
		Rule: "3, a restored copy: a state that its leader has forgotten is found",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "s.Revision > 0 && held.Less",
			New:  "s.Revision > 1<<40 && held.Less",
		}},
		Test:    "TestLeaderRestoredFromItsLastRun",
		Package: "statemachine",
	},
	{
		Name: "copy-forgets-an-answer",
		Rule: "3, a restored copy: what a member showed its leader and has forgotten is found",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "forgotAnswer := m.role == member.Leading &&",
			New:  "forgotAnswer := m.role == member.Provisional &&",
		}},
		Test:    "TestFollowerRestoredFromItsLastRun",
		Package: "statemachine",
	},
	{
		Name: "copy-forgets-that-it-led",
		Rule: "3, a restored copy: a version that its leader has forgotten is found by its followers",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "f.claim.Chosen && held.Version",
			New:  "!f.claim.Chosen && held.Version",
		}},
		Test:    "TestRestoredMinorityVotesForNothing",
		Package: "test/sim",
	},
	{
		Name: "copy-takes-a-state",
		Rule: "3, a restored copy: a node finds in a state that its own store was restored",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "!m.isChoosable(s) || !isRestored",
			New:  "m.isChoosable(s) || !isRestored",
		}},
		Test:    "TestOwnCopyIsFoundInAState",
		Package: "statemachine",
	},
	{
		Name: "own-run-forgotten",
		Rule: "3, a restored copy: the run with which a process began is not forgotten",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "&& e.Incarnation < runs.First",
			New:  "&& e.Incarnation <= runs.First",
		}},
		Test:    "TestOtherStoresAreNotTakenForCopies",
		Package: "statemachine",
	},
	{
		Name: "copy-by-anybody",
		Rule: "3, a restored copy: only a voter ends a store that holds something",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "return d.Held.Roster.IsVoter(from.Voter()) ||",
			New:  "return d.Held.Roster.IsVoter(from.Voter()) || true ||",
		}},
		Test:    "TestStrangersEndNoStore",
		Package: "statemachine",
	},
	{
		Name: "accepted-voters-not-believed",
		Rule: "3, a restored copy: a store that holds nothing believes voters of the accepted state",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "return d.Accepted.IsZero() || d.Accepted",
			New:  "return d.Accepted.IsZero() || false && d.Accepted",
		}},
		Test:    "TestStrangersEndNoStore",
		Package: "statemachine",
	},
	{
		Name: "promised-believes-no-node",
		Rule: "3, a restored copy: a store that holds and accepted nothing believes any node",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "return d.Accepted.IsZero() || d.Accepted",
			New:  "return d.Promised.IsZero() || d.Accepted",
		}},
	},
	{
		Name: "floor-of-any-node",
		Rule: "3, a restored copy: an empty store takes a floor only from the address of a seed",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "d.Accepted.IsZero() && !m.isSeedAt(from)",
			New:  "d.Accepted.IsZero() && !m.isSeedAt(from) && from == m.self.Address",
		}},
		Test:    "TestAnEmptyStoreTakesAFloorFromSeedsOnly",
		Package: "statemachine",
	},
	{
		Name: "replaced-leader-not-believed",
		Rule: "3, a restored copy: a leader that a voter of the held state named is believed",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "m.isAsked(from.Address) && m.join.target",
			New:  "false && m.isAsked(from.Address) && m.join.target",
		}},
	},
	{
		Name: "leader-named-by-anybody-believed",
		Rule: "3, a restored copy: only a voter's word makes a leader believed",
		Edits: []Edit{{
			File: "statemachine/conflict.go",
			Old:  "if !c.IsZero() && m.durable.Held.Roster.IsVoter(in.From.Voter()) {",
			New:  "if !c.IsZero() {",
		}},
		Test:    "TestStrangersEndNoStore",
		Package: "statemachine",
	},
	{
		Name: "leader-of-no-member-believed",
		Rule: "3, a restored copy: a leader that no voter named is not believed",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "m.isAsked(from.Address) && m.join.target == m.join.vouched",
			New:  "m.isAsked(from.Address)",
		}},
		Test:    "TestStrangersEndNoStore",
		Package: "statemachine",
	},
	{
		Name: "copy-shown-by-anybody",
		Rule: "3, a restored copy: only a voter's state ends a store that holds something",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "if m.admitted || !m.believesCopy(from) ||",
			New:  "if m.admitted ||",
		}},
		Test:    "TestStrangersShowNoCopy",
		Package: "statemachine",
	},
	{
		Name: "copy-proves-an-end",
		Rule: "3, a restored copy: a copy does not prove that an earlier run has ended",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  "\tif m.refusesCopy(in) {\n\t\treturn false\n\t}\n\tm.noteRun(in.From)\n",
			New:  "\tm.noteRun(in.From)\n\tif m.refusesCopy(in) {\n\t\treturn false\n\t}\n",
		}},
		Test:    "TestCopyProvesNoEnd",
		Package: "statemachine",
	},
	{
		Name: "copy-by-a-voter-with-less",
		Rule: "3, a restored copy: a voter that holds a lower version ends no store",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "version < max(1, d.Held.Version) ||",
			New:  "version < 1 ||",
		}},
		Test:    "TestStrangersEndNoStore",
		Package: "statemachine",
	},
	{
		Name: "copy-of-a-member",
		Rule: "3, a restored copy: a run that has its place keeps its store",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "\tif m.admitted {\n\t\tm.runs = message.Runs{}\n\t}\n",
			New:  "",
		}},
		Test:    "TestStrangersEndNoStore",
		Package: "statemachine",
	},
	{
		Name: "copy-that-lost-its-place",
		Rule: "3, a restored copy: a run that lost its place is not refused again",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "\tif m.admitted {\n\t\tm.runs = message.Runs{}\n\t}\n\tif ",
			New:  "\tif m.admitted || ",
		}},
		Test:    "TestFormerMemberIsNotRefused",
		Package: "statemachine",
	},
	{
		Name: "used-token-unnoticed",
		Rule: "3, a majority of copies: a state of the leader's version that another run leads is found",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "s.Version < m.claim().Version {",
			New:  "!m.heldNumber().Less(s.Number) {",
		}},
	},
	{
		Name: "later-state-of-a-vote",
		Rule: "3, a majority of copies: a leader with authority takes no later state from a vote",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "\tcase m.isQuorate(m.now):\n\t\tm.findLater(in, b.State)",
			New:  "\tcase false:\n\t\tm.findLater(in, b.State)",
		}},
		Test:    "TestLaterStateOfAVoteIsReported",
		Package: "statemachine",
	},
	{
		Name: "state-of-another-leader",
		Rule: "3, a majority of copies: a node takes no state of its version from another run",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "leader != m.durable.Held.LeaderIdentity()",
			New:  "leader.Address != m.durable.Held.Leader",
		}},
		Test:    "TestAVersionHasOneLeader",
		Package: "statemachine",
	},
	{
		Name: "copy-without-a-floor",
		Rule: "3, a restored copy: the tokens of a node that gives its store up do not start over",
		Edits: []Edit{{
			File: "statemachine/copies.go",
			Old:  "Floor: min(version-1, paxos.MaxFloor)",
			New:  "Floor: min(0, paxos.MaxFloor)",
		}},
		Test:    "TestStrangersEndNoStore",
		Package: "statemachine",
	},
}
