// SPDX-License-Identifier: Apache-2.0

package mutants

// timings lists the mutants of the rules about two sets of timings (section 8).
var timings = []Mutant{
	{
		Name: "supports-for-its-own-lease",
		Rule: "8, two sets: a follower supports its leader for the longer lease",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "m.now.Add(m.timing.LeaseTimeout)}",
			New:  "m.now.Add(m.timing.own.LeaseTimeout)}",
		}},
		Test: "TestFollowersSupportForTheLongerLease",
	},
	{
		Name: "leads-by-the-longer-lease",
		Rule: "8, two sets: a leader relies on its own lease",
		Edits: []Edit{{
			File: "statemachine/timing.go",
			Old:  "return message.LeaseMargin(t.own.LeaseTimeout) }",
			New:  "return message.LeaseMargin(t.LeaseTimeout) }",
		}},
		Test: "TestALeaderTrustsItsOwnLease",
	},
	{
		Name: "waits-for-its-own-lease",
		Rule: "8, two sets: a restarted voter waits for the longer lease",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "m.startWaitEnd = now.Add(m.timing.LeaseTimeout)",
			New:  "m.startWaitEnd = now.Add(m.timing.own.LeaseTimeout)",
		}},
		Test: "TestARestartedVoterWaitsForTheLongerLease",
	},
	{
		Name: "owes-its-own-lease",
		Rule: "8, two sets: a run owes the longer lease",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "Lease: own.Longer(other).LeaseTimeout,",
			New:  "Lease: own.LeaseTimeout,",
		}},
		Test: "TestARunOwesTheLongerLease",
	},
	{
		Name: "former-leader-by-its-own-lease",
		Rule: "8, two sets: the records of the former leader end after the longer lease",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "return m.lead.since.Add(m.timing.LeaseTimeout)",
			New:  "return m.lead.since.Add(m.timing.own.LeaseTimeout)",
		}},
		Test: "TestAFormerLeaderIsWaitedForByTheLongerLease",
	},
	{
		Name: "drops-after-its-own-hold",
		Rule: "8, two sets: a leader drops records after the longer HoldTimeout",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "return latest(last, m.lead.since).Add(m.timing.HoldTimeout())",
			New:  "return latest(last, m.lead.since).Add(m.timing.own.HoldTimeout())",
		}},
		Test: "TestALeaderDropsAfterTheLongerHold",
	},
	{
		Name: "extends-for-any-hold",
		Rule: "8, two sets: a leader extends records for the shorter HoldTimeout",
		Edits: []Edit{{
			File: "statemachine/timing.go",
			Old:  "return t.shorter.HoldTimeout()\n}\n\n// onlyExtender",
			New:  "return 0\n}\n\n// onlyExtender",
		}},
		Test: "TestALeaderExtendsForTheShorterHold",
	},
	{
		Name: "trusts-itself-for-its-lease",
		Rule: "8, two sets: a leader trusts its own records for the shorter HoldTimeout",
		Edits: []Edit{{
			File: "statemachine/timing.go",
			Old:  "message.LeaseMargin(min(t.own.LeaseTimeout, t.shorter.HoldTimeout()))",
			New:  "message.LeaseMargin(t.own.LeaseTimeout)",
		}},
		Test: "TestALeaderTrustsItselfForTheShorterHold",
	},
	{
		Name: "gives-votes-away-early",
		Rule: "8, two sets: a leader gives no vote away until what earlier ones extended has ended",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "m.timing.changes() && m.now.Before(m.lead.since.Add(m.timing.HoldTimeout()))",
			New:  "false",
		}},
		Test: "TestVotesStayUntilEarlierTrustEnds",
	},
	{
		Name: "one-side-accepts",
		Rule: "8, two sets: each side accepts the timings of the other",
		Edits: []Edit{{
			File: "internal/mesh/greet.go",
			Old:  "!acceptsTimings(our, their) || !acceptsTimings(their, our)",
			New:  "!acceptsTimings(our, their) && !acceptsTimings(their, our)",
		}},
		Test: "TestEachSideAcceptsTheTimings",
	},
}
