// SPDX-License-Identifier: Apache-2.0

package mutants

// Mutant is one planted bug.
type Mutant struct {
	Name  string
	Rule  string // what it breaks, with the section of protocol.md
	Edits []Edit // more than one where two places keep the rule
}

// Edit replaces a text in a file.
type Edit struct {
	File string // relative to the root of the module
	Old  string // stands in File exactly once
	New  string
}

// Table lists the mutants. Each switches one rule off.
var Table = []Mutant{
	// Section 3: members.
	{
		Name: "voters-change-unsettled",
		Rule: "3: the set of voters changes only while the present state is committed",
		Edits: []Edit{{
			File: "statemachine/lead.go",
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
	},
	{
		Name: "seat-of-anybody",
		Rule: "3: only the seat of a removed member is given away",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "if e.Status == member.Leaving && e.Gone {\n\t\t\treturn e.Address",
			New:  "if e.Status != member.Active {\n\t\t\treturn e.Address",
		}},
	},
	{
		Name: "removed-before-committed",
		Rule: "3: leaving is done once M voters hold it",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "e.Status == member.Leaving && !e.Gone && m.settled()",
			New:  "e.Status == member.Unreachable && !e.Gone && m.settled()",
		}},
	},
	{
		Name: "store-id-ignored",
		Rule: "3: with another store id it is another voter",
		Edits: []Edit{{
			File: "statemachine/admission.go",
			Old:  "case known && e.StoreID == j.id.StoreID:",
			New:  "case known:",
		}},
	},
	// Section 4: founding.
	{
		Name: "founding-without-seeds",
		Rule: "4: a founding needs a majority of the configured seeds",
		Edits: []Edit{{
			File: "paxos/attempt.go",
			Old:  "seedQuorum = member.Quorum(len(e.Seeds))",
			New:  "seedQuorum = 0",
		}},
	},
	{
		Name: "founding-forgets-accepted",
		Rule: "4: in a founding an accepted value is always adopted",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "case found && (a.founding || m.adoptable(a, value)):",
			New:  "case found && !a.founding && m.adoptable(a, value):",
		}},
	},
	{
		Name: "founding-with-any-version",
		Rule: "4: a founding is always for version 1",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "id:         paxos.ID{Version: 1},",
			New:  "id:         paxos.ID{Version: 1 + uint64(m.propose.fails/2)},",
		}},
	},
	{
		Name: "join-only-founds",
		Rule: "4: a seed that lost its disk does not vote in a founding",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.cfg.JoinOnly:\n\t\treturn message.ReasonJoinOnly\n",
			New:  "",
		}},
	},
	// Section 5: support and lease.
	{
		Name: "no-support",
		Rule: "5: a stamped ack makes the follower support its leader",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "m.support = support{leader, version, m.now.Add(m.cfg.Timings.LeaseTimeout)}",
			New:  "m.support = support{leader, version, m.now}",
		}},
	},
	{
		Name: "support-freed-by-anybody",
		Rule: "5: only that very leader, version and run frees its followers",
		Edits: []Edit{{
			File: "statemachine/lease.go",
			Old:  "if m.support.leader == leader && m.support.version == c.Version && c.Chosen {",
			New:  "if leader.Incarnation > 0 {",
		}},
	},
	{
		Name: "support-freed-by-any-message",
		Rule: "5: support ends early by a later run of the leader only",
		Edits: []Edit{{
			File: "statemachine/guard.go",
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
		}},
	},
	{
		Name: "echo-of-another-version",
		Rule: "5: the leader ignores echoes of another version or run of itself",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "if m.role != member.Leading || e.Version != m.leader.Version ||\n\t\te.Incarnation != m.self.Incarnation {",
			New:  "if m.role != member.Leading {",
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
		Rule: "5: the lease is 0.9 x LeaseTimeout, for clocks that drift",
		Edits: []Edit{{
			File: "message/timings.go",
			Old:  "return lease / 10 * 9",
			New:  "return lease",
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
		Rule: "5: after a start a node votes for nobody else during LeaseTimeout",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "m.voteWait = now.Add(cfg.Timings.LeaseTimeout)",
			New:  "m.voteWait = now",
		}},
	},
	{
		Name: "leads-in-another-run",
		Rule: "5: who restarted is never again leader of that version",
		Edits: []Edit{{
			File: "statemachine/confirmation.go",
			Old:  "if s.Version > before.Version && s.LeaderIdentity() == m.self {",
			New:  "if s.Version > before.Version && s.Leader == m.self.Address {",
		}},
	},
	// Section 6: election.
	{
		Name: "promise-below",
		Rule: "6, 3: a voter promises only above its promise",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "id.Compare(d.Promised) > 0\n",
			New:  "id.Version > 0\n",
		}},
	},
	{
		Name: "promise-not-kept",
		Rule: "6, 3: the promise is stored",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "d.Promised = p.ID\n",
			New:  "d.Promised.Version = min(d.Promised.Version, p.ID.Version)\n",
		}},
	},
	{
		Name: "pre-ignores-its-leader",
		Rule: "6, 3: a voter with a healthy leader, or supporting one, promises nothing",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.supportsOther(from.Voter()):\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "case m.followsHealthy() && from.Address != m.leader.Leader:\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/inquiry.go",
			Old:  "if len(m.ask.unhealthy)+1 < m.quorum || !m.wantsElection() {",
			New:  "if !m.wantsElection() {",
		}},
	},
	{
		Name: "strangers-propose",
		Rule: "6, 3: a proposer is a voter of a state as new as the voter's own",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case !p.Founding && !m.held().Less(p.Held) &&",
			New:  "case p.Founding && !m.held().Less(p.Held) &&",
		}},
	},
	{
		Name: "accept-below",
		Rule: "6, 5: a voter accepts nothing below its promise",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "id.Compare(d.Promised) >= 0 &&",
			New:  "id.Version > 0 &&",
		}},
	},
	{
		Name: "accept-an-old-base",
		Rule: "6, 5: a voter accepts nothing built on less than it holds",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case p.Base.Less(m.held()):\n",
			New:  "case false:\n",
		}, {
			File: "paxos/acceptor.go",
			Old:  " && !base.Less(d.Held.Number)",
			New:  "",
		}},
	},
	{
		Name: "formal-ignores-support",
		Rule: "6, 5: a voter that supports another leader accepts nothing",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.supportsOther(candidate.Voter()):\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "leader-votes-under-lease",
		Rule: "6, 5: a leader accepts another only after its lease has ended, and steps down",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.quorate(m.now) && candidate.Address != m.self.Address:\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "case m.healthy() && from.Address != m.self.Address:\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "\tcase m.role == member.Leading:\n\t\tm.stepDown(member.Claim{})\n",
			New:  "\tcase m.role == member.Leading:\n",
		}},
	},
	{
		Name: "accepted-not-kept",
		Rule: "6, 5: what was accepted is stored",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "d.Accepted = paxos.Accepted{ID: p.ID, Base: p.Base, State: p.State}",
			New:  "_ = paxos.Accepted{ID: p.ID, Base: p.Base, State: p.State}",
		}},
	},
	{
		Name: "accepted-not-shown",
		Rule: "6, 4: a pre vote shows what was accepted",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "v.Accepted = d.Accepted\n",
			New:  "v.Accepted = paxos.Accepted{}\n",
		}},
	},
	{
		Name: "value-not-adopted",
		Rule: "6, 4: a value accepted at this version is adopted",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "value, found := a.ballots.Adopt(a.id.Version)",
			New:  "value, found := a.ballots.Adopt(0)",
		}},
	},
	{
		Name: "last-value-adopted",
		Rule: "6, 4: the value of the highest ballot is adopted",
		Edits: []Edit{{
			File: "paxos/attempt.go",
			Old:  "if v.Granted && a.ID.Version == version && a.ID.Compare(best.ID) > 0 {",
			New:  "if v.Granted && a.ID.Version == version {",
		}},
	},
	{
		Name: "dead-value-replaced",
		Rule: "6, 4: a value that cannot be adopted is left to its version",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "\tcase found:\n\t\tm.propose.version = a.id.Version + 1\n\t\tm.failAttempt()\n\t\treturn\n",
			New: "\tcase found:\n\t\tvalue.Base = a.base.Number\n" +
				"\t\tvalue.State = a.ballots.Initial(a.base, a.candidate, a.id.Version)\n",
		}},
	},
	{
		Name: "value-of-another-base",
		Rule: "6, 4: a value is adopted only where its base is the newest state",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "return v.Base == a.base.Number && a",
			New:  "return a",
		}},
	},
	{
		Name: "dead-candidate-adopted",
		Rule: "6, 4: a value is adopted only where its candidate voted in that run",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "return v.Base == a.base.Number && a.ballots.Granted(v.State.LeaderIdentity())",
			New:  "return v.Base == a.base.Number",
		}},
	},
	{
		Name: "quorum-too-small",
		Rule: "6, 6: M formal votes choose",
		Edits: []Edit{{
			File: "paxos/attempt.go",
			Old:  "case granted >= e.Quorum && seedsGranted >= seedQuorum:",
			New:  "case granted >= max(e.Quorum-1, 1) && seedsGranted >= seedQuorum:",
		}},
	},
	{
		Name: "votes-of-strangers",
		Rule: "6, 4: only voters of the state count",
		Edits: []Edit{{
			File: "paxos/attempt.go",
			Old:  "\t\tif !m.IsVoter() {\n\t\t\tcontinue\n\t\t}\n\t\tisSeed",
			New:  "\t\tisSeed",
		}},
	},
	{
		Name: "votes-of-another-store",
		Rule: "6, 4: a voter is an address with its store id",
		Edits: []Edit{{
			File: "paxos/attempt.go",
			Old:  "\t\tif o.From.Voter() == v {\n",
			New:  "\t\tif o.From.Address == v.Address {\n",
		}},
	},
	{
		Name: "votes-of-other-ballots",
		Rule: "6, 6: votes of other ballots do not count",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "case a == nil || a.id != b.ID || a.formal",
			New:  "case a == nil || a.formal",
		}},
	},
	{
		Name: "pre-votes-as-formal",
		Rule: "6, 6: a pre vote is no formal vote",
		Edits: []Edit{{
			File: "statemachine/election.go",
			Old:  "a.id != b.ID || a.formal != (b.Stage == message.Formal):",
			New:  "a.id != b.ID:",
		}},
	},
	{
		Name: "bound-takes-old-states",
		Rule: "6, 5: a bound node takes no state of a lower version",
		Edits: []Edit{{
			File: "statemachine/confirmation.go",
			Old:  "case s.Version < m.durable.Bound():\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "bound-keeps-alive",
		Rule: "6, 5: a bound node sends no keep-alive of a lower version",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "if m.leader.Chosen && m.leader.Version < m.durable.Bound() {",
			New:  "if m.leader.Chosen && m.leader.Version < 0*m.durable.Bound() {",
		}},
	},
	{
		Name: "bound-leader-changes",
		Rule: "6, 5: a leader that accepted a higher version changes nothing more",
		Edits: []Edit{{
			File: "statemachine/lead.go",
			Old:  "m.role == member.Leading && m.durable.Bound() <= m.leader.Version\n",
			New:  "m.role == member.Leading\n",
		}},
	},
	{
		Name: "promise-dropped-early",
		Rule: "6, durable: a promise ends with a held state of its version",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "if d.Promised.Version <= s.Version {",
			New:  "if d.Promised.Version > 0 {",
		}},
	},
	{
		Name: "accepted-dropped-early",
		Rule: "6, durable: what was accepted ends with a held state of its version",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "if d.Accepted.ID.Version <= s.Version {",
			New:  "if d.Accepted.ID.Version > 0 {",
		}, {
			File: "statemachine/confirmation.go",
			Old:  "case s.Version < m.durable.Bound():\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "saved-too-late",
		Rule: "6, durable: saved before anything that depends on it is sent",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "\tm.durable = d\n\tm.dirty = true\n",
			New:  "\tm.dirty = m.durable.Held.Number != d.Held.Number\n\tm.durable = d\n",
		}},
	},
	{
		Name: "forgets-by-time",
		Rule: "6, fewer than M: a durable store forgets nothing",
		Edits: []Edit{{
			File: "statemachine/isolation.go",
			Old:  "if m.rosterLost() && m.cfg.Volatile {",
			New:  "if m.rosterLost() || m.due(m.patienceEnd()) && !m.held().IsZero() {",
		}},
	},
	{
		Name: "old-state-taken",
		Rule: "1: the held state only grows",
		Edits: []Edit{{
			File: "statemachine/confirmation.go",
			Old:  "case !m.held().Less(s.Number):\n",
			New:  "case m.held() == s.Number:\n",
		}},
	},
	{
		Name: "followers-freed-too-early",
		Rule: "6, leaving leader: authority ends before its followers are freed",
		Edits: []Edit{{
			File: "statemachine/lifecycle.go",
			Old:  "\tm.trace(Trace{What: SteppedDown, Peer: to, Version: given.Version})\n\tm.endLeadership(given)\n",
			New: "\tm.trace(Trace{What: SteppedDown, Peer: to, Version: given.Version})\n" +
				"\tif !stays {\n\t\tm.endLeadership(given)\n\t}\n",
		}},
	},
	{
		Name: "state-without-its-predecessor",
		Rule: "2: an update applies only to the revision before it",
		Edits: []Edit{{
			File: "statemachine/alignment.go",
			Old:  "case b.Number != s.Next(nil).Number:\n",
			New:  "case b.Number.Version != s.Version:\n",
		}},
	},
	{
		Name: "islands",
		Rule: "7: who hears a better claim leaves its leader",
		Edits: []Edit{{
			File: "statemachine/conflict.go",
			Old:  "case !c.BetterThan(m.leader):\n",
			New:  "case !m.leader.IsZero():\n",
		}},
	},
}
