// SPDX-License-Identifier: Apache-2.0

package mutants

// classic lists the bugs that the design named before any code was written, except those in the
// other lists. One of them is omitted because it cannot occur: a formal vote for the held version.
// Such a vote is refused in any case, since its base would be older than the held state.
var classic = []Mutant{
	{
		Name: "voter-counted-twice",
		Rule: "6, 6: a voter has one vote, however often it arrives",
		Edits: []Edit{{
			File: "paxos/tally.go",
			Old:  "if _, voted := t.findVote(v.From.Voter()); voted {",
			New:  "if _, voted := t.findVote(v.From.Voter()); voted && v.From.Address.IsZero() {",
		}, {
			File: "paxos/tally.go",
			Old:  "case granted >= e.quorum && seedsGranted >= seedQuorum:",
			New: "case granted > 0 && seedsGranted >= seedQuorum && e.quorum <= len(slices.DeleteFunc(" +
				"slices.Clone(t.votes), func(v countedVote) bool { return !v.granted })):",
		}},
	},
	{
		Name: "short-wait-after-start",
		Rule: "5, restart: the wait is a whole LeaseTimeout",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "m.startWaitEnd = now.Add(m.timing.LeaseTimeout)",
			New:  "m.startWaitEnd = now.Add(m.timing.LeaseTimeout / 8)",
		}},
	},
	{
		Name: "memory-store-keeps-its-name",
		Rule: "5, restart: a memory store that lost its votes is another voter",
		Edits: []Edit{{
			File: "test/sim/process.go",
			Old: "p.store = paxos.Durable{StoreID: c.newStoreID(), " +
				"Incarnation: c.procs[p.home].nextIncarnation}",
			New: "id := p.store.StoreID\n\t\tif id.IsZero() {\n\t\t\tid = c.newStoreID()\n\t\t}\n" +
				"\t\tp.store = paxos.Durable{StoreID: id, Incarnation: c.procs[p.home].nextIncarnation}",
		}},
	},
	{
		Name: "recovers-its-version-only",
		Rule: "6, durable: the promise and the accepted value survive a crash",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "\t\tdurable: d,\n",
			New: "\t\tdurable: paxos.Durable{StoreID: d.StoreID, Incarnation: d.Incarnation, " +
				"Acceptor: paxos.Acceptor{Held: d.Held}},\n",
		}},
	},
	{
		Name: "version-falls-on-relieve",
		Rule: "12: a version never falls, even if a leader gives way",
		Edits: []Edit{{
			File: "statemachine/conflict.go",
			Old:  "\tm.askForPlace(winner)\n}",
			New: "\td := m.durable\n\td.Held.Version = min(d.Held.Version, 1)\n\tm.persist(d)\n" +
				"\tm.digest = d.Held.Digest()\n\tm.askForPlace(winner)\n}",
		}},
	},
	{
		Name: "elects-itself-after-3-ttl",
		Rule: "4: a seed that declares itself has no authority",
		Edits: []Edit{{
			File: "statemachine/role.go",
			Old:  "\tm.setRole(member.Provisional, ",
			New: "\tif !m.heldNumber().IsZero() {\n\t\tm.setHeld(s)\n" +
				"\t\tm.becomeLeader(member.Identity{})\n\t\treturn\n\t}\n" +
				"\tm.setRole(member.Provisional, ",
		}},
	},
	{
		Name: "joins-a-lower-version",
		Rule: "1: the held state only grows, also when joining",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "case b.Accepted && c.Chosen && c.Version < m.heldNumber().Version:\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/conflict.go",
			Old:  "\t\tc.Chosen && c.Version < m.heldNumber().Version,\n",
			New:  "",
		}, {
			File: "statemachine/state.go",
			Old:  "case !m.heldNumber().Less(s.Number):\n",
			New:  "case m.heldNumber() == s.Number:\n",
		}},
	},
	{
		Name: "leader-not-demoted",
		Rule: "7: a leader that takes the state of a later version stops leading",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "if m.role == member.Leading && s.Version > m.claim().Version ||\n",
			New:  "if m.role == member.Leading && m.role == member.Following ||\n",
		}},
	},
	{
		Name: "provisional-is-healthy",
		Rule: "4: a provisional leader does not stop an election",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "\treturn m.role == member.Leading &&\n\t\t(m.isQuorate(m.now)",
			New: "\treturn m.role == member.Provisional || m.role == member.Leading &&\n" +
				"\t\t(m.isQuorate(m.now)",
		}},
		Test: "TestProvisionalLeaderStopsNoElection",
	},
	{
		Name: "promise-for-held-version",
		Rule: "6, 3: a voter promises only above the version that it holds",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old: "\tcase p.ID.Version <= a.Held.Version:\n\t\treturn OldVersion\n" +
				"\tcase p.ID.Compare(a.Promised) <= 0:\n",
			New: "\tcase p.ID.Compare(a.Promised) <= 0:\n",
		}},
	},
	{
		Name: "stamp-of-a-provisional-leader",
		Rule: "4: a provisional leader gets no support",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "if stamped && m.role == member.Leading {",
			New:  "if stamped {",
		}, {
			File: "statemachine/keepalive.go",
			Old: "\tif !m.claim().Chosen {\n" +
				"\t\tif m.now.Sub(f.sentAt) >= m.timing.answerInterval() {\n" +
				"\t\t\tm.sendKeepAlive()\n\t\t}\n\t\treturn\n\t}\n",
			New: "",

			Alone: "no ack of a provisional leader has a stamp",
		}, {
			File: "statemachine/lease.go",
			Old:  "\tif m.role != member.Leading {\n\t\treturn time.Time{}\n\t}\n\tmargin",
			New: "\tif m.role != member.Leading && m.role != member.Provisional {\n" +
				"\t\treturn time.Time{}\n\t}\n\tmargin",

			Alone: "a provisional leader gives no stamps, so it gets no echoes",
		}, {
			File: "statemachine/lease.go",
			Old:  "return m.role == member.Leading && now.Before(m.leaseEnd(now))",
			New:  "return now.Before(m.leaseEnd(now))",

			Alone: "the end of the lease is zero unless the node leads",
		}},
	},
}
