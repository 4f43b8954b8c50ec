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
		Name: "witness-succeeds",
		Rule: "6, leaving leader: a successor may lead",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "m.operator.leaving || m.yields(),",
			New:  "m.operator.leaving || m.operator.drained,",
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
			Old:  "at := p.activeSince.Add(m.cfg.HandOverToPreferred); at.After(m.now)",
			New:  "at := p.activeSince; at.After(m.now)",
		}},
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
