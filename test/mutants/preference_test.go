// SPDX-License-Identifier: Apache-2.0

package mutants

// preferences lists the mutants of traits (section 3) and of preference (section 6).
var preferences = []Mutant{
	{
		Name: "witness-stands",
		Rule: "6, preference: a witness does not stand for election",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "\t\tm.traits.Preference != member.NeverLeads &&\n",
			New:  "",
		}},
	},
	{
		Name: "witness-founds-for-itself",
		Rule: "4: a founding proposes the most preferred active member",
		Edits: []Edit{{
			File: "statemachine/founding.go",
			Old:  "\treturn addresses(able)\n",
			New:  "\treturn []member.Address{m.self.Address}\n",
		}},
	},
	{
		Name: "witness-keeps-its-state",
		Rule: "4: a witness shows its state to a voter of it that follows it and holds nothing",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "if m.role == member.Provisional && in.Cluster.IsZero() {",
			New:  "if m.role == member.Seeking && in.Cluster.IsZero() {",
		}},
		Test:    "TestAWitnessHandsItsStateToAVoter",
		Package: "statemachine",
	},
	{
		Name: "founder-keeps-its-state",
		Rule: "4: so does a provisional leader that has no vote in its state",
		Edits: []Edit{{
			File: "statemachine/founding.go",
			Old:  "m.traits.Preference != member.NeverLeads && r.IsVoter(m.self.Voter())",
			New:  "m.traits.Preference != member.NeverLeads",
		}},
	},
	{
		Name: "witness-succeeds",
		Rule: "6, leaving leader: a successor may lead",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "m.operator.leaving || m.yields(),",
			New:  "m.operator.leaving || m.operator.drained,",
		}, {
			// Otherwise it would refuse to lead in its pre vote.
			File: "statemachine/voter.go",
			Old:  "return m.traits.Preference == member.NeverLeads ||\n\t\t!founding",
			New:  "return !founding",
		}},
	},
	{
		Name: "witness-keeps-leading",
		Rule: "6, preference: a leader that becomes a witness hands over",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "return m.operator.drained || m.traits.Preference == member.NeverLeads\n",
			New:  "return m.operator.drained\n",
		}, {
			File: "statemachine/keepalive.go",
			Old:  "m.operator.leaving || m.yields(),",
			New:  "m.operator.leaving || m.yields() || m.traits.Preference == member.NeverLeads,",

			Alone: "a witness yields anyway",
		}},
	},
	{
		Name: "less-preferred-first",
		Rule: "6, 2: more preferred members ask first",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "cmp.Or(cmp.Compare(m.traits.Preference, e.Preference),",
			New:  "cmp.Or(cmp.Compare(e.Preference, m.traits.Preference),",
		}},
	},
	{
		Name: "leader-replaced-unasked",
		Rule: "6, preference: a working leader is replaced only if that is configured",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "if m.cfg.HandOverToPreferred == 0 || m.role != member.Leading",
			New:  "if m.role != member.Leading",
		}},
	},
	{
		Name: "hand-over-at-once",
		Rule: "6, preference: the preferred member must have been active for the configured time",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "latest(since.Add(m.cfg.HandOverToPreferred), ",
			New:  "latest(since, ",
		}},
	},
	{
		Name: "hands-over-to-the-cut-off",
		Rule: "6, preference: a leader hands over to a preferred member only if that hears M voters",
		Edits: []Edit{{
			File: "statemachine/reach.go",
			Old:  "return p.reaches == 0 || p.reaches >= m.quorum }",
			New:  "return p.reaches >= 0 }",
		}},
		Test:    "TestALeaderDoesNotHandOverToAMemberWithoutAMajority",
		Package: "statemachine",
	},
	{
		Name: "successor-without-proof",
		Rule: "6, leaving leader: a successor that hears fewer than M voters is not elected",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "\t\tm.countReached() < m.quorum\n",
			New:  "\t\tm.countReached() < 0\n",
		}},
		Test:    "TestASuccessorThatHearsNoMajorityIsNotElected",
		Package: "statemachine",
	},
	{
		Name: "proof-asked-once",
		Rule: "6, leaving leader: after an attempt that lacks votes a successor still proves itself",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "(m.asksNamed() || m.propose.IsInconclusive() && !a.NoneAble())",
			New:  "m.asksNamed()",
		}},
	},
	{
		Name: "offer-answered-by-acks-only",
		Rule: "6, preference: a member to which leadership is offered asks the voters under load too",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "if b.Offers && !m.now.Before(f.askReachAt) {",
			New:  "if b.Offers && f.echo.Clock-f.echoed >= int64(m.timing.answerInterval()) {",
		}},
	},
	{
		Name: "refusal-to-lead-ignored",
		Rule: "6, leaving leader: a successor that refuses to lead is not elected",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "case t.Stage == Pre && v.Unable:\n",
			New:  "case t.Stage == Pre && v.Unable && !v.Granted:\n",
		}},
		Test:    "TestASuccessorRefusesToLead",
		Package: "statemachine",
	},
	{
		Name: "short-leaderships-forgotten",
		Rule: "6, preference: after a short leadership a member is preferred again after twice the time",
		Edits: []Edit{{
			File: "statemachine/preference.go",
			Old:  "m.now.Sub(since) >= pause {",
			New:  "m.now.Sub(since) >= 0 {",
		}},
		Test:    "TestAPreferredLeaderThatFailsIsPreferredLessOften",
		Package: "statemachine",
	},
	{
		Name: "active-since-survives-silence",
		Rule: "6, preference: the preferred member must have been active without a break",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "\t\t\tm.lead.peer(e.Address).activeSince = time.Time{}\n",
			New:  "",
		}},
		Test:    "TestASilentMemberIsNotPreferredAtOnce",
		Package: "statemachine",
	},
	{
		Name: "announced-once",
		Rule: "3, traits: a member announces its traits until the state shows them",
		Edits: []Edit{{
			File: "statemachine/follower.go",
			Old:  "\treturn m.follow.announcedAt.Add(m.timing.HeartbeatInterval)\n",
			New: "\tif !m.follow.announcedAt.IsZero() {\n\t\treturn time.Time{}\n\t}\n" +
				"\treturn m.follow.announcedAt.Add(m.timing.HeartbeatInterval)\n",
		}},
	},
}
