// SPDX-License-Identifier: Apache-2.0

package mutants

// members lists the mutants of section 3: the voters.
var members = []Mutant{
	{
		Name: "voters-change-unsettled",
		Rule: "3: the set of voters changes only while the present state is committed",
		Edits: []Edit{{
			File: "statemachine/leader.go",
			Old:  "\treturn n >= m.quorum\n}\n\n// noteBound",
			New:  "\treturn n >= 0\n}\n\n// noteBound",
		}},
	},
	{
		Name: "seat-without-quorum",
		Rule: "3: a seat is given away only while M of the others are heard",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "return heard >= m.quorum && m.now.Before(",
			New:  "return heard >= 0 || m.now.Before(",
		}},
		Test: "TestSeatIsKeptWhileTheLeaseNeedsIt",
	},
	{
		Name: "seat-of-anybody",
		Rule: "3: only the seat of a removed member is given away",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "if e.Shown() == member.Removed && (req",
			New:  "if e.Status != member.Active && (req",
		}},
	},
	{
		Name: "removed-before-committed",
		Rule: "3: leaving is done once M voters hold it",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "e.Status == member.Leaving && !e.Gone && m.isCommitted()",
			New:  "e.Status == member.Leaving && !e.Gone",
		}},
	},
	{
		Name: "gone-without-authority",
		Rule: "3: a silent member leaves only if the leader was quorate all that time",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "return latest(p.heard, m.lead.quorateSince).Add(",
			New:  "return p.heard.Add(",
		}},
	},
	{
		Name: "gone-too-early",
		Rule: "3: a member leaves after a silence of TTLTimeout",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "return latest(p.heard, m.lead.quorateSince).Add(m.timing.TTLTimeout)",
			New:  "return latest(p.heard, m.lead.quorateSince).Add(m.timing.HeartbeatTimeout)",
		}},
	},
	{
		Name: "returns-as-active",
		Rule: "3: a removed member that returns is joining before it is active",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "\t\te.Status = member.Active\n\t\tm.changeStatuses(",
			New:  "\t\te.Status, e.Gone = member.Active, false\n\t\tm.changeStatuses(",
		}, {
			File: "statemachine/join.go",
			Old:  "next.Status, next.Resigned = member.Active, false\n",
			New:  "next.Status, next.Gone, next.Resigned = member.Active, false, false\n",
		}},
	},
	{
		Name: "leaving-forgotten",
		Rule: "6, 4: a chosen leader starts from its base, with the status of each member",
		Edits: []Edit{{
			File: "paxos/tally.go",
			Old:  "roster := slices.Clone(base.Roster)\n",
			New: "roster := slices.Clone(base.Roster)\n\tfor i := range roster {\n" +
				"\t\troster[i].Gone, roster[i].Resigned = false, false\n\t}\n",
		}},
	},
	{
		Name: "store-id-ignored",
		Rule: "3: a node with another store id is another voter",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "case known && e.StoreID == j.StoreID:",
			New:  "case known:",
		}},
	},
	{
		Name: "proposes-as-an-earlier-run",
		Rule: "3: a node that joins again with a higher incarnation drops its earlier proposal",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "\tm.dropAttempt() // its ballot",
			New:  "\t// its ballot",
		}},
		Test: "TestARunThatJoinsAgainDropsItsProposal",
	},
	{
		Name: "smaller-than-its-members",
		Rule: "3: the size of a store is at least the number of members in its state",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "case len(s.Roster) > n:",
			New:  "case len(s.Roster) > 64+n:",
		}},
		Test: "TestResizedClustersStayOne",
	},
	{
		Name: "seats-released-together",
		Rule: "3: seats are removed one at a time",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "m.changeStatuses([]member.Member{{Identity: member.Identity{Address: seat}}})",
			New: "all := []member.Member{{Identity: member.Identity{Address: seat}}}\n" +
				"\t\tfor _, e := range m.durable.Held.Roster {\n" +
				"\t\t\tif e.Gone && e.Status == member.Leaving && e.Address != seat {\n" +
				"\t\t\t\te.Status = member.None\n\t\t\t\tall = append(all, e)\n\t\t\t}\n\t\t}\n" +
				"\t\tm.changeStatuses(all)",
		}},
		Test: "TestShrunkClustersStayOne",
	},
	{
		Name: "sizes-meet",
		Rule: "3: nodes of different sizes refuse each other",
		Edits: []Edit{{
			File: "internal/mesh/greet.go",
			Old:  "differ(\"Size\", our.Size != their.Size, our.Size, their.Size)",
			New:  "differ(\"Size\", false, our.Size, their.Size)",
		}},
		Test: "TestResizedClustersStayOne",
	},
	{
		Name: "other-cluster-heard",
		Rule: "3: an event of another cluster is dropped",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  "return !m.clusterID().IsZero() && !in.Cluster.IsZero() && in.Cluster != m.clusterID()",
			New:  "return false",
		}, {
			File: "statemachine/dispatch.go",
			Old:  "in.Cluster == m.clusterID() && m.isTrusted(in.From)",
			New:  "m.isTrusted(in.From)",
		}},
		Test: "TestAForgottenClusterStaysForgotten",
	},
	{
		Name: "state-of-another-cluster",
		Rule: "3: no state of another cluster is taken or voted for",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  "return !m.clusterID().IsZero() && !in.Cluster.IsZero() && in.Cluster != m.clusterID()",
			New:  "return false",
		}, {
			File: "statemachine/dispatch.go",
			Old:  "in.Cluster == m.clusterID() && m.isTrusted(in.From)",
			New:  "m.isTrusted(in.From)",
		}, {
			File: "statemachine/state.go",
			Old:  "\n\t\t(m.clusterID().IsZero() || s.Cluster == m.clusterID())",
			New:  " true",
		}},
		Test: "TestAForgottenClusterStaysForgotten",
	},
	{
		Name: "anyone-ends-a-leader",
		Rule: "3: only a voter proves that another leader was chosen for a version",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  " && in.Cluster == m.clusterID() &&\n\t\tm.durable.Held.Roster.IsVoter(in.From.Voter())",
			New:  "",
		}},
		Test: "TestStrangersDoNoHarm",
	},
	{
		Name: "strangers-claim",
		Rule: "3: claims count only from members and the queried leader",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  "in.Cluster == m.clusterID() && m.isTrusted(in.From)",
			New:  "in.Cluster == m.clusterID()",
		}},
		Test: "TestStrangersDoNoHarm",
	},
	{
		Name: "states-of-strangers",
		Rule: "3: states count only from the same nodes",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "if !m.isTrusted(from) {",
			New:  "if false {",
		}},
		Test: "TestStrangersDoNoHarm",
	},
	{
		Name: "unknown-addresses-believed",
		Rule: "3: without a leader for TTLTimeout, a node trusts only addresses that it knows",
		Edits: []Edit{{
			File: "statemachine/dispatch.go",
			Old:  "m.outOfTouch() && (known || m.isSeedAt(id.Address))",
			New:  "m.outOfTouch() && (known || m.isSeedAt(id.Address) || true)",
		}},
		Test: "TestStrangersDoNoHarm",
	},
	{
		Name: "state-of-a-minority",
		Rule: "3: a chosen state has M voters",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "if !m.isTrusted(from) {",
			New:  "if !m.isTrusted(from) && m.quorum <= len(s.Roster) {",

			Alone: "a state with fewer than M members has fewer than M voters",
		}, {
			File: "statemachine/state.go",
			Old:  " && s.Roster.Voters() >= m.quorum",
			New:  "",
		}},
		Test: "TestStrangersDoNoHarm",
	},
	{
		Name: "proposals-of-strangers",
		Rule: "3: proposals count only from the same nodes",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old: "\t\treturn message.ReasonLeaseRuns\n" +
				"\tcase !p.Founding && from != m.self && !m.isTrusted(from):\n",
			New: "\t\treturn message.ReasonLeaseRuns\n\tcase false:\n",
		}},
		Test: "TestStrangersDoNoHarm",
	},
	{
		Name: "value-of-other-voters",
		Rule: "6, 4: a value is adopted with the voters of its base",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  " &&\n\t\tslices.EqualFunc(v.State.Roster, t.Base.Roster, sameVoter)",
			New:  " && sameVoter(member.Member{}, member.Member{})",
		}},
		Test: "TestAForgedValueIsNotAdopted",
	},
	{
		Name: "bound-without-limit",
		Rule: "3: a leader exceeds the bound of a voter by at most 2^16",
		Edits: []Edit{{
			File: "statemachine/leader.go",
			Old:  "version > m.claim().Version+paxos.MaxVersionJump || ",
			New:  "version > m.claim().Version+64*paxos.MaxVersionJump || ",
		}},
		Test: "TestAVoterRaisesTheVersionSlowly",
	},
}
