// SPDX-License-Identifier: Apache-2.0

package mutants

// durable lists the mutants of section 6 (durable), and of the other rules about the order
// of states.
var durable = []Mutant{
	{
		Name: "promise-dropped-early",
		Rule: "6, durable: a promise ends with a held state of its version",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "if a.Promised.Version <= s.Version {",
			New:  "if a.Promised.Version > 0 {",
		}},
	},
	{
		Name: "accepted-dropped-early",
		Rule: "6, durable: an accepted value ends with a held state of its version",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "if a.Accepted.ID.Version <= s.Version {",
			New:  "if a.Accepted.ID.Version > 0 {",
		}, {
			File: "statemachine/state.go",
			Old:  "case s.Version < m.durable.Bound():\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "saved-too-late",
		Rule: "6, durable: state is saved before anything that depends on it is sent",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "\tm.durable = d\n\tm.dirty = true\n",
			New:  "\tm.dirty = m.durable.Held.Number != d.Held.Number\n\tm.durable = d\n",
		}},
	},
	{
		Name: "forgets-by-time",
		Rule: "6, fewer than M: a durable store is never discarded",
		Edits: []Edit{{
			File: "statemachine/founding.go",
			Old:  "if m.RosterLost() && m.cfg.Volatile {",
			New:  "if m.RosterLost() || m.due(m.declareAt()) && !m.heldNumber().IsZero() {",
		}},
	},
	{
		Name: "old-state-taken",
		Rule: "1: the held state only grows",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "case !m.heldNumber().Less(s.Number):\n",
			New:  "case m.heldNumber() == s.Number:\n",
		}},
	},
	{
		Name: "followers-freed-too-early",
		Rule: "6, leaving leader: authority ends before its followers are freed",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "Peer: to, Version: given.Version, Cause: CauseHandOver})\n\tm.endLeadership()\n",
			New: "Peer: to, Version: given.Version, Cause: CauseHandOver})\n" +
				"\tif !stays {\n\t\tm.endLeadership()\n\t}\n",
		}},
	},
	{
		Name: "state-without-its-predecessor",
		Rule: "2: an update applies only to the revision before it",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "case n != member.Number{Version: held.Version, Revision: held.Revision + 1}:\n",
			New:  "case n.Version != held.Version:\n",
		}},
	},
	{
		Name: "islands",
		Rule: "7: a node that hears a better claim leaves its leader",
		Edits: []Edit{{
			File: "statemachine/conflict.go",
			Old:  "\t\t!c.BetterThan(m.claim()),\n",
			New:  "\t\t!m.claim().IsZero(),\n",
		}},
	},
}
