// SPDX-License-Identifier: Apache-2.0

package mutants

// founding lists the mutants of section 4: the formation of a cluster.
var founding = []Mutant{
	{
		Name: "question-shows-nothing",
		Rule: "4: a query shows the held state, and a voter of it that holds nothing takes it",
		Edits: []Edit{{
			File: "statemachine/discovery.go",
			Old:  "\tm.learnIfVoteless(in.From, b.Held)\n",
			New:  "",
		}},
		Test: "TestFounderWithoutAVoteShowsItsState",
	},
	{
		Name: "state-with-a-vote-ignored",
		Rule: "4: a node without a vote in its state takes a newer one in which it has one",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "believed := held.IsZero() || held.Roster.IsVoter(from.Voter())",
			New:  "believed := held.IsZero()",
		}},
		Test:    "TestWitnessesHandTheirStateToAVoterThatHoldsLess",
		Package: "statemachine",
	},
	{
		Name: "state-of-a-stranger-taken",
		Rule: "4: such a state is taken only from a voter of the held one",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "believed := held.IsZero() || held.Roster.IsVoter(from.Voter())",
			New:  "believed := true",
		}},
		Test:    "TestStatesWithAVoteAreShownAndTaken",
		Package: "statemachine",
	},
	{
		Name: "asked-node-keeps-its-state",
		Rule: "4: a node shows its state to a voter of it that asks with an earlier one and no vote",
		Edits: []Edit{{
			File: "statemachine/discovery.go",
			Old:  "if b.Held.Less(held.Number) &&",
			New:  "if false && b.Held.Less(held.Number) &&",
		}},
		Test:    "TestStatesWithAVoteAreShownAndTaken",
		Package: "statemachine",
	},
	{
		Name: "voteless-follower-asks-no-member",
		Rule: "4: a follower of a provisional leader without a vote asks the members for a newer state",
		Edits: []Edit{{
			File: "statemachine/discovery.go",
			Old:  "return m.role != member.Seeking && !m.claim().Chosen",
			New:  "return false && !m.claim().Chosen",
		}},
		Test:    "TestAVoterWithoutAVoteAsksForIt",
		Package: "statemachine",
	},
	{
		Name: "founds-beside-a-state",
		Rule: "4: a founding does not begin while another seed shows a held state",
		Edits: []Edit{{
			File: "statemachine/founding.go",
			Old:  "\tif _, _, holds := m.heardSeeds(); holds {",
			New:  "\tif false {",
		}},
		Test: "TestEmptySeedsDoNotFoundBesideAHeldState",
	},
	{
		Name: "founding-without-seeds",
		Rule: "4: a founding needs a majority of the configured seeds",
		Edits: []Edit{{
			File: "paxos/tally.go",
			Old:  "seedQuorum = member.Quorum(len(e.seeds))",
			New:  "seedQuorum = 0",
		}},
	},
	{
		Name: "founding-forgets-accepted",
		Rule: "4: in a founding an accepted value is always adopted",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "case found && (t.Founding || t.mayAdopt(value)):",
			New:  "case found && !t.Founding && t.mayAdopt(value):",
		}},
	},
	{
		Name: "founding-with-any-version",
		Rule: "4: a founding is always for version 1",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "ID:         ID{Version: 1},",
			New:  "ID:         ID{Version: 1 + uint64(p.Failures/2)},",
		}},
	},
	{
		Name: "founding-repeats-tokens",
		Rule: "4: the first state of a cluster is above the tokens of its recovered members",
		Edits: []Edit{{
			File: "statemachine/founding.go",
			Old:  "m.cfg.Seeds, candidates, m.lead.boundSeen)",
			New:  "m.cfg.Seeds, candidates, 0)",
		}},
		Test: "TestARecoveredMinorityIsHeard",
	},
	{
		Name: "recovered-supports-used-tokens",
		Rule: "4: a recovered node does not support a leader whose token may have been used before",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "\tif a.Floor > 0 {\n\t\treturn max(a.Bound(), a.Floor+1)\n\t}\n",
			New:  "",
		}},
		Test: "TestRecoveredStoresFoundAboveTheirTokens",
	},
	{
		Name: "join-only-founds",
		Rule: "4: a seed that lost its disk does not vote in a founding",
		Edits: []Edit{{
			File: "statemachine/founding.go",
			Old:  "case m.cfg.JoinOnly:\n\t\treturn message.ReasonJoinOnly\n",
			New:  "",
		}},
	},
}
