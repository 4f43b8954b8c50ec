// SPDX-License-Identifier: Apache-2.0

package mutants

// A node that has no vote accepts nothing, so no leader is asked to count it. acceptsWithoutAVote
// removes that rule, and boundUnchecked the check of it, for the mutants of the rules by which such
// votes do not count.
var (
	acceptsWithoutAVote = Edit{
		File: "statemachine/voter.go",
		Old:  "case !p.Founding && !p.State.Roster.IsVoter(m.self.Voter()):\n",
		New:  "case false:\n",
	}
	boundUnchecked = Edit{
		File: "test/sim/storehistory.go",
		Old:  "case n > 0 && !a.Base.IsZero() && !a.State.Roster.IsVoter(p.voter()):\n",
		New:  "case false:\n",

		Alone: "it removes a check of the simulator, and no rule",
	}
)

// election lists the mutants of section 6: votes, and the promises that come with them.
var election = []Mutant{
	{
		Name: "promise-below",
		Rule: "6, 3: a voter promises only above its promise",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "case p.ID.Compare(a.Promised) <= 0:\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "promise-not-kept",
		Rule: "6, 3: the promise is stored",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "a.Promised = p.ID\n\treturn",
			New:  "a.Promised.Version = min(a.Promised.Version, p.ID.Version)\n\treturn",
		}, {
			File: "paxos/acceptor.go",
			Old:  "a.Promised = p.ID\n\ta.Accepted",
			New:  "a.Promised.Version = min(a.Promised.Version, p.ID.Version)\n\ta.Accepted",
		}},
	},
	{
		Name: "pre-ignores-its-leader",
		Rule: "6, 3: a voter with a healthy leader, or one that supports a leader, promises nothing",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.supportsOther(from.Voter()):\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "case m.followsHealthy() && from.Address != m.claim().Leader:\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/electionstart.go",
			Old:  "if len(m.inquiry.unhealthy)+1 < m.quorum || !m.shouldElect() {",
			New:  "if !m.shouldElect() {",
		}},
	},
	{
		Name: "strangers-propose",
		Rule: "6, 3: a proposer is a voter in a state as new as the voter's own",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case !p.Founding && !m.heldNumber().Less(p.Held) &&",
			New:  "case false && !m.heldNumber().Less(p.Held) &&",
		}, {
			File: "statemachine/voter.go",
			Old: "\t\treturn message.ReasonNotVoter\n" +
				"\tcase !p.Founding && from != m.self && !m.isTrusted(from):\n",
			New: "\t\treturn message.ReasonNotVoter\n\tcase false:\n",
		}},
		Test: "TestAStoreWithoutAVoteIsPromisedNothing",
	},
	{
		Name: "attempt-of-a-follower",
		Rule: "6, 7: a node that follows a chosen leader again ends its attempt",
		Edits: []Edit{{
			File: "statemachine/role.go",
			Old:  "it would be silent.\n\t\tm.dropAttempt()\n",
			New:  "it would be silent.\n",
		}},
		Test:    "TestAFollowerEndsItsAttempt",
		Package: "statemachine",
	},
	{
		Name: "accept-below",
		Rule: "6, 5: a voter accepts nothing below its promise",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "case p.ID.Compare(a.Promised) < 0:\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "accept-an-old-base",
		Rule: "6, 5: a voter accepts no value built on an older state than its own",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "case p.Base.Less(a.Held.Number):\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "votes-without-a-state",
		Rule: "6, 3: a voter without a state takes the proposer's state before it votes",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "case !p.Founding && a.Held.IsZero():\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "if b.Stage == message.Pre {\n\t\tm.learnIfVoteless",
			New:  "if b.Founding && b.Stage == message.Pre {\n\t\tm.learnIfVoteless",
		}},
		Test: "TestVotersThatHoldNothingTakeTheState",
	},
	{
		Name: "formal-ignores-support",
		Rule: "6, 5: a voter that supports a leader accepts no other",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.supportsOther(candidate.Voter()):\n",
			New:  "case false:\n",
		}},
		Test: "TestFormalVoteRegardsSupport",
	},
	{
		Name: "two-grants",
		Rule: "6, 3 and 5: a voter that supports a leader helps no other",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.supportsOther(candidate.Voter()):\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "case m.supportsOther(from.Voter()):\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "leader-votes-under-lease",
		Rule: "6, 5: a leader accepts another only after its lease has ended, and steps down",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "case m.isQuorate(m.now) && candidate.Address != m.self.Address:\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "case m.isHealthy() && from.Address != m.self.Address:\n",
			New:  "case false:\n",
		}, {
			File: "statemachine/voter.go",
			Old:  "\t\tcase m.role == member.Leading:\n\t\t\tm.stepDown(member.Claim{}, CauseOutvoted)\n",
			New:  "\tcase m.role == member.Leading:\n",
		}, {
			File: "statemachine/electionstart.go",
			Old:  "if len(m.inquiry.unhealthy)+1 < m.quorum || !m.shouldElect() {",
			New:  "if !m.shouldElect() {",
		}},
	},
	{
		Name: "accepts-and-leads-on",
		Rule: "6, 5: a leader that accepts another steps down",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "\t\tcase m.role == member.Leading:\n\t\t\tm.stepDown(member.Claim{}, CauseOutvoted)\n",
			New:  "\tcase m.role == member.Leading:\n",
		}},
		Test: "TestLeaderThatAcceptsStepsDown",
	},
	{
		Name: "formal-without-start-wait",
		Rule: "6, 5: a voter that waits after its start accepts no other leader either",
		Edits: []Edit{{
			File: "statemachine/voter.go",
			Old:  "\tcase m.startWaitExcludes(candidate.Address):\n\t\treturn message.ReasonStartWait\n",
			New:  "",
		}},
		Test: "TestFormalVoteWaitsAfterAStart",
	},
	{
		Name: "asked-follower-leaves",
		Rule: "6, 2: a query about the health of a leader does not disturb its followers",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "func (m *Machine) onStatusQuery(in message.Message, b message.LeaderStatusQuery) {\n",
			New: "func (m *Machine) onStatusQuery(in message.Message, b message.LeaderStatusQuery) {\n" +
				"\tif m.role == member.Following && m.claim().Chosen {\n" +
				"\t\tm.suspectLeader(Trace{}, 0)\n\t\tm.join.suspected = member.Claim{}\n\t}\n",
		}},
	},
	{
		Name: "turn-lost-by-a-slow-answer",
		Rule: "6, 2: voters that a slow voter answers together propose in turn",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "if m.now.Sub(q.askedAt) > m.timing.inquiryTurn(1) {",
			New:  "if m.now.Sub(q.askedAt) < 0 {",
		}},
		Test: "TestVoterProposesInTurnAfterLateAnswers", Package: "statemachine",
	},
	{
		Name: "no-voter-yields",
		Rule: "6, 2: a voter of a large cluster waits while a voter before it asks",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "q.yields < maxRank &&",
			New:  "q.yields < 0 &&",
		}},
		Test: "TestVoterYieldsToAVoterBeforeIt", Package: "statemachine",
	},
	{
		Name: "yields-without-end",
		Rule: "6, 2: a voter that asks without success does not delay the others without end",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "q.yields < maxRank &&",
			New:  "q.yields >= 0 &&",
		}},
		Test: "TestVoterYieldsToAVoterBeforeIt", Package: "statemachine",
	},
	{
		Name: "joins-an-ended-run",
		Rule: "6, 2: a healthy answer about an ended run does not count",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "case m.hasEnded(in.Claim):",
			New:  "case false:",
		}},
		Test: "TestHealthyAnswerAboutAnEndedRun", Package: "statemachine",
	},
	{
		Name: "seeds-asked-during-an-election",
		Rule: "6, 2: a voter that granted a vote does not ask the seeds yet",
		Edits: []Edit{{
			File: "statemachine/waits.go",
			Old:  "if m.isCrowded() && m.join",
			New:  "if false && m.join",
		}},
		Test: "TestVoterDoesNotAskSeedsDuringAnElection", Package: "statemachine",
	},
	{
		Name: "accepted-not-kept",
		Rule: "6, 5: the accepted value is stored",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "a.Accepted = Accepted{ID: p.ID, Base: p.Base, State: p.State}",
			New:  "_ = Accepted{ID: p.ID, Base: p.Base, State: p.State}",
		}},
	},
	{
		Name: "accepted-not-shown",
		Rule: "6, 4: a pre vote shows the accepted value",
		Edits: []Edit{{
			File: "paxos/acceptor.go",
			Old:  "return a, a.Accepted\n",
			New:  "return a, Accepted{}\n",
		}},
	},
	{
		Name: "value-not-adopted",
		Rule: "6, 4: a value accepted at this version is adopted",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "t.votes.version = t.ID.Version\n",
			New:  "t.votes.version = 0\n",
		}},
	},
	{
		Name: "last-value-adopted",
		Rule: "6, 4: the value of the highest ballot is adopted",
		Edits: []Edit{{
			File: "paxos/tally.go",
			Old:  "v.Granted && a.ID.Version == t.version && a.ID.Compare(t.best.ID) > 0 {",
			New:  "v.Granted && a.ID.Version == t.version {",
		}},
		Test: "TestTheValueOfTheHighestBallotIsAdopted",
	},
	{
		Name: "dead-value-replaced",
		Rule: "6, 4: a value that cannot be adopted is not replaced within its version",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "\tcase found:\n\t\tp.version = t.ID.Version + 1\n\t\treturn p, GiveUp\n",
			New: "\tcase found:\n\t\tvalue.Base = t.Base.Number\n" +
				"\t\tvalue.State = t.votes.initialState(t.Base, t.Candidates[0], t.ID.Version)\n",
		}},
	},
	{
		Name: "value-of-another-base",
		Rule: "6, 4: a value is adopted only if its base is the newest state",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "return v.Base == t.Base.Number && t",
			New:  "return t",
		}},
	},
	{
		Name: "quorum-too-small",
		Rule: "6, 6: M formal votes choose a leader",
		Edits: []Edit{{
			File: "paxos/tally.go",
			Old:  "case granted >= e.quorum && seedsGranted >= seedQuorum:",
			New:  "case granted >= max(e.quorum-1, 1) && seedsGranted >= seedQuorum:",
		}},
	},
	{
		Name: "votes-of-strangers",
		Rule: "6, 4: only voters of the state count",
		Edits: []Edit{{
			File: "paxos/tally.go",
			Old:  "\t\tif !m.IsVoter() {\n\t\t\tcontinue\n\t\t}\n\t\tseed := 0",
			New:  "\t\tseed := 0",
		}, {
			File: "paxos/proposer.go",
			Old:  "case !t.Base.Roster.IsVoter(v.From.Voter()):\n",
			New:  "case v.From.Address.IsZero():\n",
		}, acceptsWithoutAVote, boundUnchecked},
	},
	{
		Name: "votes-of-another-store",
		Rule: "6, 4: a voter is an address with its store id",
		Edits: []Edit{{
			File: "paxos/tally.go",
			Old:  "\t\tif c.from.Voter() == v {\n",
			New:  "\t\tif c.from.Address == v.Address {\n",
		}, {
			File: "paxos/proposer.go",
			Old:  "case !t.Base.Roster.IsVoter(v.From.Voter()):\n",
			New:  "case v.From.Address.IsZero():\n",
		}, acceptsWithoutAVote, boundUnchecked},
	},
	{
		Name: "votes-of-other-ballots",
		Rule: "6, 6: votes of other ballots do not count",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "return !t.IsZero() && t.ID == id && t.Stage == stage",
			New:  "return !t.IsZero() && t.Stage == stage",
		}},
	},
	{
		Name: "pre-votes-as-formal",
		Rule: "6, 6: a pre vote is not a formal vote",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "t.ID == id && t.Stage == stage",
			New:  "t.ID == id",
		}},
	},
	{
		Name: "silent-successor-elected",
		Rule: "6, leaving leader: only a successor that pre-voted is proposed",
		Edits: []Edit{{
			File: "paxos/proposer.go",
			Old:  "if known && slices.Contains(t.able, run) {",
			New:  "if known && !run.Address.IsZero() {",
		}},
	},
	{
		Name: "provisional-leader-ends-a-hand-over",
		Rule: "6, leaving leader: a provisional leader does not end a hand-over",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "return m.role == member.Provisional || m.claim().Chosen\n",
			New:  "return m.role != member.Seeking\n",
		}},
		Test: "TestAProvisionalLeaderEndsNoHandOver",
	},
	{
		Name: "stopped-leader-is-silent",
		Rule: "6, leaving leader: a leader that stops frees its followers",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "\t\tm.giveUp(nil, true)\n",
			New:  "",
		}},
		Test: "TestAStoppedLeaderIsReplaced",
	},
	{
		Name: "followers-wait-for-no-successor",
		Rule: "6, leaving leader: without a successor, the followers do not wait for one",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "\t\tif b.Successor.IsZero() {\n",
			New:  "\t\tif false {\n",
		}},
		Test: "TestAStoppedLeaderIsReplaced",
	},
	{
		Name: "given-up-before-its-work-ends",
		Rule: "6, leaving leader: a leader that stops waits for its functions",
		Edits: []Edit{{
			File: "cluster/loop.go",
			Old:  "\tn.terms.waitGuard(context.Background())\n",
			New:  "",
		}},
		Test:    "TestClosedLeaderWaitsForItsWork",
		Package: "cluster",
	},
	{
		Name: "stands-while-it-hands-over",
		Rule: "6, leaving leader: a leader does not stand again before its hand-over has ended",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "m.operator.handOverUntil.IsZero() &&\n\t\t!m.followsHealthyFor(",
			New:  "!m.followsHealthyFor(",
		}},
	},
	{
		Name: "drained-never-stands",
		Rule: "6, drained: a drained voter stands if no other voter does",
		Edits: []Edit{{
			File: "statemachine/electionstart.go",
			Old:  "return m.isolation.noChosenSince.Add(m.timing.drainedTimeout() + m.turnDelay())",
			New:  "return m.now.Add(m.timing.drainedTimeout() + m.turnDelay())",
		}},
	},
	{
		Name: "bound-takes-old-states",
		Rule: "6, 5: a bound node takes no state of a lower version",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "case s.Version < m.durable.Bound():\n",
			New:  "case false:\n",
		}},
	},
	{
		Name: "bound-keeps-alive",
		Rule: "6, 5: a bound node sends no keep-alive of a lower version",
		Edits: []Edit{{
			File: "statemachine/keepalive.go",
			Old:  "if m.claim().Chosen && m.claim().Version < m.durable.Least() {",
			New:  "if m.claim().Chosen && m.claim().Version < 0*m.durable.Least() {",
		}},
	},
	{
		Name: "bound-leader-changes",
		Rule: "6, 5: a leader that accepted a higher version makes no further changes",
		Edits: []Edit{{
			File: "statemachine/leader.go",
			Old:  "m.role == member.Leading && m.durable.Least() <= m.claim().Version\n",
			New:  "m.role == member.Leading\n",
		}},
	},
	{
		Name: "votes-awaited-too-briefly",
		Rule: "6, slow disks: a proposer waits for votes for the saves of the slowest voter",
		Edits: []Edit{{
			File: "statemachine/pace.go",
			Old:  "save = max(m.recentPace(m.pace.own), m.recentPace(m.pace.told))\n",
			New:  "save = 0\n",
		}},
		Test: "TestElectionsOutlastSlowDisks",
	},
	{
		Name: "named-successor-awaited-too-long",
		Rule: "6, leaving leader: the wait for a named successor outlasts its saves alone",
		Edits: []Edit{{
			File: "statemachine/pace.go",
			Old:  "if !m.asksNamed() {",
			New:  "if true {",
		}},
		Test: "TestADeadSuccessorIsNotAwaitedForSavesOfOthers", Package: "statemachine",
	},
	{
		Name: "named-successor-awaited-too-briefly",
		Rule: "6, leaving leader: the wait for a named successor outlasts its saves",
		Edits: []Edit{{
			File: "statemachine/pace.go",
			Old:  "m.timing.voteTimeout(m.propose.Failures), m.operator.save\n",
			New:  "m.timing.voteTimeout(m.propose.Failures), time.Duration(0)\n",
		}},
		Test: "TestNamedSuccessorsLeadOnSlowDisks",
	},
	{
		Name: "own-save-shortens-an-attempt",
		Rule: "6, leaving leader: the wait begins after the save of the old leader",
		Edits: []Edit{{
			File: "statemachine/pace.go",
			Old:  "m.propose.sentAt = now //",
			New:  "//",
		}},
		Test: "TestNamedSuccessorsLeadOnSlowDisks",
	},
	{
		Name: "yields-to-an-ended-election",
		Rule: "6, slow disks: a node yields to no election after it has ended",
		Edits: []Edit{{
			File: "statemachine/state.go",
			Old:  "m.inquiry.yieldUntil = m.now //",
			New:  "//",
		}},
	},
	{
		Name: "silent-successors-first",
		Rule: "6, leaving leader: of equally preferred successors, silent ones are proposed last",
		Edits: []Edit{{
			File: "statemachine/handover.go",
			Old:  "cmp.Compare(silences(a), silences(b)),",
			New:  "cmp.Compare(silences(a), silences(a)),",
		}},
	},
	{
		Name: "saves-of-voters-ignored",
		Rule: "6, slow disks: a proposer also considers the saves of the voters",
		Edits: []Edit{{
			File: "statemachine/pace.go",
			Old:  "m.pace.told = savePace{took, m.now}\n",
			New:  "m.pace.told = savePace{0 * took, m.now}\n",
		}},
		Test: "TestElectionsOutlastSlowDisks",
	},
	{
		Name: "slowest-voter-forgotten",
		Rule: "6, slow disks: a much faster save of another node does not replace the longest",
		Edits: []Edit{{
			File: "statemachine/pace.go",
			Old:  "if took == m.timing.nextSave(took, m.recentPace(m.pace.told)) {",
			New:  "if true {",
		}},
	},
	{
		Name: "votes-outlast-two-saves",
		Rule: "6, slow disks: a proposer waits for votes for six saves",
		Edits: []Edit{{
			File: "statemachine/timing.go",
			Old:  "t.outlastSaves(wait, save+save/2)",
			New:  "t.outlastSaves(wait, save)",
		}},
	},
	{
		Name: "declared-during-its-proposal",
		Rule: "4: a seed does not declare itself while its proposal is under way",
		Edits: []Edit{{
			File: "statemachine/founding.go",
			Old:  " || m.isProposing() {",
			New:  " {",
		}},
	},
	{
		Name: "contenders-do-not-hold-back",
		Rule: "6, slow disks: a node that granted a proposal does not ask for four saves",
		Edits: []Edit{{
			File: "statemachine/waits.go",
			Old:  "case m.now.Before(m.inquiry.yieldUntil):",
			New:  "case false:",
		}},
		Test: "TestVoterThatGrantedOutlastsSlowSaves", Package: "statemachine",
	},
	{
		Name: "steps-down-during-a-save",
		Rule: "6, slow disks: a leader waits for a lease for four saves",
		Edits: []Edit{{
			File: "statemachine/leader.go",
			Old:  "Add(m.outlastSaves(m.timing.LeaderTimeout))",
			New:  "Add(m.timing.LeaderTimeout)",
		}},
		Test: "TestElectionsOutlastSlowDisks",
	},
	{
		Name: "unreachable-during-a-save",
		Rule: "6, slow disks: a member is unreachable after a silence of four saves",
		Edits: []Edit{{
			File: "statemachine/roster.go",
			Old:  "p.heard.Add(m.outlastSaves(m.timing.HeartbeatTimeout))",
			New:  "p.heard.Add(m.timing.HeartbeatTimeout)",
		}},
		Test: "TestElectionsOutlastSlowDisks",
	},
}
