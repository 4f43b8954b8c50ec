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
	{
		Name: "end-of-a-running-process",
		Rule: "3, an announced end: it takes the lock of the store first",
		Edits: []Edit{{
			File: "cluster/announce.go",
			Old:  "\t\t\treturn c, fmt.Errorf(\"%w: %w\", ErrRunning, err)\n",
			New: "\t\t\tc, _, _ = store.Peek(n.cfg.DataDir)\n" +
				"\t\t\tunlocked := store.NewMemory([32]byte{})\n" +
				"\t\t\t_ = unlocked.Save(c)\n\t\t\tn.store = unlocked\n",
		}},
		Test: "TestNoEndIsAnnouncedWhileAProcessRuns", Package: "cluster",
	},
	{
		Name: "end-in-the-same-run",
		Rule: "3, an announced end: it is the message of a later run",
		Edits: []Edit{{
			File: "cluster/announce.go",
			Old:  "\tc.Incarnation = nextRun(c)\n",
			New:  "",
		}},
		Test: "TestAnnouncedEndOfALeader", Package: "cluster",
	},
	{
		Name: "end-unsaved",
		Rule: "3, an announced end: the number of its run is saved before it greets",
		Edits: []Edit{{
			File: "cluster/announce.go",
			Old:  "\treturn c, n.store.Save(c)\n",
			New:  "\treturn c, nil\n",
		}},
		Test: "TestAnnounceEndSavesFirst", Package: "cluster",
	},
	{
		Name: "relayed-end-unproved",
		Rule: "3, an announced end: only the store itself proves it",
		Edits: []Edit{{
			File: "cluster/relay.go",
			Old:  "b.StoreKey, b.Proof); err != nil {",
			New:  "b.StoreKey, b.Proof); err != nil && from == run {",
		}},
		Test: "TestForgedEndOfARun", Package: "cluster",
	},
	{
		Name: "end-of-another-cluster",
		Rule: "3, an announced end: the proof names the cluster",
		Edits: []Edit{{
			File: "internal/storekey/storekey.go",
			Old:  "append([]byte(\"athena store, ended\\x00\"), cluster[:]...)",
			New:  "append([]byte(\"athena store, ended\\x00\"), make([]byte, len(cluster))...)",
		}},
		Test: "TestForgedEndOfARun", Package: "cluster",
	},
}
