// SPDX-License-Identifier: Apache-2.0

package mutants

// support lists the mutants of section 5: support and lease.
var support = []Mutant{
	{
		Name: "refusal-always-trusted",
		Rule: "6, a process that died: a refusal ends support only if refusals are trusted",
		Edits: []Edit{{
			File: "statemachine/follower.go",
			Old:  "if m.cfg.TrustRefusal {",
			New:  "if true {",
		}},
	},
	{
		Name: "lapse-unnoticed",
		Rule: "5: authority ends with the lease, before the next echo can start another",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "\tm.noteAuthority()\n}\n\n// endCall",
			New:  "}\n\n// endCall",
		}},
		Test: "TestLapseBeforeAnEchoIsNoticed",
	},
	{
		Name: "no-support",
		Rule: "5: a stamped ack makes the follower support its leader",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "m.support = supportState{leader, version, m.now.Add(m.timing.LeaseTimeout)}",
			New:  "m.support = supportState{leader, version, m.now}",
		}},
	},
	{
		Name: "support-freed-by-anybody",
		Rule: "5: only the same leader, version and run frees its followers",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "if m.support.leader == leader && m.support.version == c.Version && c.Chosen {",
			New:  "if leader.Incarnation > 0 {",
		}},
		Test: "TestOnlyItsOwnLeaderFreesAFollower",
	},
	{
		Name: "support-freed-by-any-message",
		Rule: "5: only a later run of the leader ends support early",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "if s.leader.Voter() == from.Voter() && from.Incarnation > s.leader.Incarnation {",
			New:  "if s.leader.Voter() == from.Voter() && from.Incarnation >= s.leader.Incarnation {",
		}},
	},
	{
		Name: "stamps-for-other-versions",
		Rule: "5: a leader stamps only acks of keep-alives that show its version",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "m.sendAck(in.From.Address, b.Stamp, shows)",
			New:  "m.sendAck(in.From.Address, b.Stamp, true)",
		}, {
			// Otherwise the follower would still refuse a stamp of a version that it does not hold.
			File: "statemachine/keepalive.go",
			Old:  " || b.Stamp.Version != m.heldNumber().Version ||",
			New:  " ||",
		}},
	},
	{
		Name: "echo-of-another-version",
		Rule: "5: the leader ignores echoes of another version or run of itself",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "m.role != member.Leading || !m.isOwnStamp(e) {",
			New:  "m.role != member.Leading || e.Clock > m.now.UnixNano() {",
		}},
	},
	{
		Name: "echo-of-any-member",
		Rule: "5: only voters of the current state count for the lease",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "if !e.IsVoter() || e.Address == m.self.Address {\n\t\t\tcontinue",
			New:  "if e.Address == m.self.Address {\n\t\t\tcontinue",
		}},
	},
	{
		Name: "lease-without-margin",
		Rule: "5: the lease is 0.9 x LeaseTimeout, because clocks drift",
		Edits: []Edit{{
			File: "internal/message/timings.go",
			Old:  "return lease / 10 * 9",
			New:  "return lease",
		}},
	},
	{
		Name: "lease-with-half-the-margin",
		Rule: "5: the lease is 0.9 x LeaseTimeout, not 0.95 x",
		Edits: []Edit{{
			File: "internal/message/timings.go",
			Old:  "return lease / 10 * 9",
			New:  "return lease / 20 * 19",
		}},
	},
	{
		Name: "lease-from-too-few",
		Rule: "5: the lease counts the M-th newest stamp",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "return echoes[len(echoes)-(m.quorum-1)]",
			New:  "return echoes[len(echoes)-1]",
		}},
	},
	{
		Name: "lease-from-arrival",
		Rule: "5: the lease counts from the stamp, not from the arrival of its echo",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "p.echo = e.Clock\n",
			New:  "p.echo = m.now.UnixNano()\n",
		}},
	},
	{
		Name: "no-wait-after-start",
		Rule: "5: after a start a node votes for no other leader during LeaseTimeout",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "m.startWaitEnd = now.Add(m.timing.LeaseTimeout)",
			New:  "m.startWaitEnd = now",
		}},
	},
	{
		Name: "wait-ends-for-the-leader-followed",
		Rule: "5, restart: the wait ends early for the held leader only, not for the one followed",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "m.durable.Held.Leader != a)",
			New:  "m.claim().Leader != a)",
		}},
	},
	{
		Name: "provisional-state-held",
		Rule: "5, commit: a keep-alive under a provisional leader shows no held state",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "shows := c == m.claim() && b.Number",
			New:  "shows := b.Number",
		}},
	},
	{
		Name: "start-wait-ended-by-any-leader",
		Rule: "5, restart: only the leader of the held state ends the wait after a start",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "if m.cfg.Volatile || given != held.Claim() || leader != held.LeaderIdentity() ||\n",
			New:  "if m.cfg.Volatile || !given.Chosen || held.Leader.IsZero() ||\n",
		}},
		Test: "TestOnlyTheHeldLeadershipEndsTheWaitAfterAStart",
	},
	{
		Name: "start-wait-ended-for-any-version",
		Rule: "5, restart: only a leader that gives up the held version ends the wait after a start",
		Edits: []Edit{{
			File: "statemachine/restart.go",
			Old:  "if m.cfg.Volatile || given != held.Claim() || leader != held.LeaderIdentity() ||\n",
			New:  "if m.cfg.Volatile || !given.Chosen || leader != held.LeaderIdentity() ||\n",
		}},
		Test: "TestOnlyTheHeldLeadershipEndsTheWaitAfterAStart",
	},
	{
		Name: "leads-in-another-run",
		Rule: "5: a node that restarted never leads that version again",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "if s.Version > before.Version && s.LeaderIdentity() == m.self {",
			New:  "if s.Version > before.Version && s.Leader == m.self.Address {",
		}, {
			// Otherwise becomeLeader would still refuse the change above.
			File: "statemachine/role.go",
			Old:  "\tif s.LeaderIdentity() != m.self {\n\t\tpanic",
			New:  "\tif s.Leader != m.self.Address {\n\t\tpanic",
		}},
	},
	{
		Name: "lease-after-its-clock-stopped",
		Rule: "5: after a clock may have stopped, only echoes of later stamps count for a lease",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "p.id == e.Identity && p.echo > m.trust.from {",
			New:  "p.id == e.Identity && p.echo != 0 {",
		}},
	},
	{
		Name: "records-after-its-clock-stopped",
		Rule: "5: after a clock may have stopped, an owner trusts nothing by earlier keep-alives",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "\tm.trust.until = time.Time{}\n",
			New:  "",
		}},
		Test: "TestStoppedOwnerEndsItsTrust",
	},
	{
		Name: "trusted-by-an-echo-from-before",
		Rule: "5: after a clock may have stopped, an ack to an earlier keep-alive restores no trust",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  " && b.Echo.Clock > m.trust.from {",
			New:  " {",
		}},
		Test:    "TestAnEchoFromBeforeAClockStepRestoresNoTrust",
		Package: "statemachine",
	},
	{
		Name: "support-ends-with-trust",
		Rule: "5: after a clock may have stopped, a node keeps its promises to others",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "\tm.trust.until = time.Time{}\n",
			New:  "\tm.trust.until, m.support = time.Time{}, supportState{}\n",
		}},
		Test: "TestSupportOutlastsAStepOfTheWallClock",
	},
}
