// SPDX-License-Identifier: Apache-2.0

package mutants

// restart lists the mutants of the rules about the wait after a restart (sections 5 and
// 10).
var restart = []Mutant{
	{
		Name: "shorter-lease-at-once",
		Rule: "5, restart: a run waits by how much LeaseTimeout was longer in the last run",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "return max(0, o.Lease-next.Lease) + max(0, o.Hold-next.Hold)",
			New:  "return max(0, o.Hold-next.Hold)",
		}},
		Test: "TestShorterLeaseIsWaitedFor",
	},
	{
		Name: "shorter-hold-at-once",
		Rule: "10, restart: a run waits by how much HoldTimeout was longer in the last run",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "return max(0, o.Lease-next.Lease) + max(0, o.Hold-next.Hold)",
			New:  "return max(0, o.Lease-next.Lease)",
		}},
		Test: "TestShorterHoldIsWaitedFor",
	},
	{
		Name: "longer-of-both",
		Rule: "10, restart: the differences of both timings add up",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "return max(0, o.Lease-next.Lease) + max(0, o.Hold-next.Hold)",
			New:  "return max(0, o.Lease-next.Lease, o.Hold-next.Hold)",
		}},
		Test: "TestShorterTimingsAddUp",
	},
	{
		Name: "second-restart-owes-nothing",
		Rule: "5, restart: a run that is restarted during the wait waits for the rest",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old: "\tlease := min(d, max(0, o.Lease-next.Lease))\n" +
				"\treturn Owed{Lease: o.Lease - lease, Hold: o.Hold - (d - lease)}",
			New: "\t_ = d\n\treturn next",
		}},
		Test: "TestSecondRestartOwesTheRest",
	},
	{
		Name: "timings-not-compared",
		Rule: "8: nodes with other timings refuse each other",
		Edits: []Edit{{
			File: "internal/mesh/greet.go",
			Old:  "differ(their.Name, timings[i].Value != their.Value, timings[i].Value, their.Value)",
			New:  "_, _, _ = i, their, timings",
		}},
	},
}
