// SPDX-License-Identifier: Apache-2.0

package mutants

// records lists the mutants of section 10, about trust in records.
var records = []Mutant{
	{
		Name: "answered-before-committed",
		Rule: "10: a request is answered once its revision is committed",
		Edits: []Edit{{
			File: "statemachine/leaderrecords.go",
			Old:  "\tm.lead.answerAt = d.number\n",
			New:  "\tm.answerAll()\n",
		}},
	},
	{
		Name: "extended-without-authority",
		Rule: "10: an ack extends only while the leader is quorate",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "if p != nil && m.isQuorate(m.now) && m.knowsRevocations(p.id) &&",
			New:  "if p != nil && m.knowsRevocations(p.id) &&",
		}},
		Test: "TestALeaderWithoutAuthorityExtendsNoRecord",
	},
	{
		Name: "extended-unaware",
		Rule: "10: an ack extends only an owner that showed the revision that last took a record from it",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "m.isQuorate(m.now) && m.knowsRevocations(p.id) &&",
			New:  "m.isQuorate(m.now) && !p.number.IsZero() &&",
		}},
	},
	{
		Name: "extended-from-arrival",
		Rule: "10: trust counts from the owner's own stamp, not from the arrival of the ack",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "sent := time.Unix(0, b.Echo.Clock)",
			New:  "sent := m.now",
		}},
	},
	{
		Name: "record-taken-in-one-step",
		Rule: "10: a record of another owner is revoked first and dropped later",
		Edits: []Edit{{
			File: "statemachine/leaderrecords.go",
			Old:  "\t\t\te.Revoked = true\n\t\t\td.put(e)\n",
			New:  "\t\t\td.drop(e)\n",
		}},
	},
	{
		Name: "revoked-dropped-unshown",
		Rule: "10: a revoked record is dropped once its owner has shown that revision",
		Edits: []Edit{{
			File: "statemachine/leaderrecords.go",
			Old:  "\t\tif !silent && !(o.revoked && m.knowsRevocations(o.id)) {\n",
			New:  "\t\tif !silent && !o.revoked {\n",
		}},
	},
	{
		Name: "owner-silent-too-early",
		Rule: "10: records end if their owner was not extended for HoldTimeout",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "return latest(last, m.lead.since).Add(m.timing.HoldTimeout())",
			New:  "return latest(last, m.lead.since).Add(m.timing.HoldTimeout() / 2)",
		}},
	},
	{
		Name: "owner-silent-an-interval-too-early",
		Rule: "10: records end HoldTimeout after the last extension of their owner, and not sooner",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "latest(last, m.lead.since).Add(m.timing.HoldTimeout())",
			New: "latest(last, m.lead.since).Add(m.timing.HoldTimeout()).\n" +
				"\t\tAdd(-m.timing.HeartbeatInterval)",
		}},
	},
	{
		Name: "hold-beyond-ttl",
		Rule: "10: HoldTimeout is at most TTLTimeout, after which a member leaves",
		Edits: []Edit{{
			File: "internal/message/timings.go",
			Old:  "return min(t.LeaseTimeout+t.LeaderTimeout, t.TTLTimeout)",
			New:  "return t.LeaseTimeout + t.LeaderTimeout",
		}},
	},
	{
		Name: "former-leader-extends-itself",
		Rule: "10: a leader extends itself for LeaseTimeout; the next leader then ends its records",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "return m.lead.since.Add(m.timing.LeaseTimeout)",
			New:  "return m.lead.since",
		}},
	},
	{
		Name: "former-leader-of-any-version",
		Rule: "10: the former leader is known if this node followed the version of its base",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "f.claim.Version != base.Version ||",
			New:  "f.claim.Version > base.Version ||",
		}},
		Test: "TestALeaderInBetweenExtended",
	},
	{
		Name: "former-leader-extended-since",
		Rule: "10: a former leader that follows is extended like every other member",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "\tif last.IsZero() && o.id == m.lead.former {",
			New:  "\tif o.id == m.lead.former {",
		}},
	},
	{
		Name: "new-leader-ends-records",
		Rule: "10: a new leader counts the silence of owners from its election",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "return latest(last, m.lead.since).Add(",
			New:  "return last.Add(",
		}},
	},
	{
		Name: "trusted-while-dropped",
		Rule: "10: after sending a drop request, the owner no longer trusts the record",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "\t\tm.trust.own = slices.Delete(m.trust.own, i, i+1)\n\t\tm.shown.changed = true\n",
			New:  "\t\tm.shown.changed = i >= 0\n",
		}},
	},
	{
		Name: "drop-unannounced",
		Rule: "10: the step that sends a drop request reports the end of trust",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "\t\tm.shown.changed = true\n\t}\n\tif slices.Contains(conditions",
			New:  "\t}\n\tif slices.Contains(conditions",
		}},
	},
	{
		Name: "new-run-unannounced",
		Rule: "10: the step that joins again with a higher incarnation reports it",
		Edits: []Edit{{
			File: "statemachine/machine.go",
			Old:  "s := shownView{self: m.self, quorate:",
			New:  "s := shownView{quorate:",
		}},
	},
	{
		Name: "trusted-by-an-old-answer",
		Rule: "10: an answer that was under way when the record was dropped creates no trust",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })",
			New:  "o.keys = slices.Clip(o.keys)",
		}},
	},
	{
		Name: "trust-ended-in-vain",
		Rule: "10: a request that cannot be taken while the record exists ends no trust in it",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "ok && !excludes(m.trust.own[i].token) {",
			New:  "ok && excludes != nil {",
		}},
		Package: "statemachine", Test: "TestARequestInVainEndsNoTrust",
	},
	{
		Name: "answer-voided-in-vain",
		Rule: "10: a request under the condition of no record voids no earlier answer",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "if slices.Contains(conditions, message.Condition{Key: key}) {",
			New:  "if slices.Contains(conditions, message.Condition{Key: key + key}) {",
		}},
		Package: "statemachine", Test: "TestARequestInVainEndsNoTrust",
	},
	{
		Name: "answer-restores-trust",
		Rule: "10: a request with the token of the record voids earlier answers",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "if slices.Contains(conditions, message.Condition{Key: key}) {",
			New:  "if len(conditions) > 0 {",
		}},
		Package: "statemachine", Test: "TestADropVoidsAnAnswerUnderWay",
	},
	{
		Name: "permit-taken-without-place",
		Rule: "10, queues: a permit is taken only with the place in the queue",
		Edits: []Edit{{
			File: "lock/queue.go",
			Old:  "free[p.before], place, record.Op{Kind: record.Drop, Key: place.Key})",
			New:  "free[p.before], record.Op{Kind: record.Drop, Key: place.Key})",
		}},
		Package: "lock", Test: "TestLostPlace",
	},
	{
		Name: "unsure-permit-forgotten",
		Rule: "10, queues: after an unknown outcome a caller settles it before it takes another permit",
		Edits: []Edit{{
			File: "lock/queue.go",
			Old:  "	if c.permit != nil { // the records may not show it yet\n",
			New:  "	if c.permit == c.place {\n",
		}},
		Package: "lock", Test: "TestPermits",
	},
	{
		Name: "permit-forgotten-when-set-again",
		Rule: "10, queues: a caller that sets its permit again drops it, even if that commit is refused",
		Edits: []Edit{{
			File: "lock/queue.go",
			Old:  "	if c.permit == nil { // otherwise",
			New:  "	if c.session != nil { // otherwise",
		}},
		Package: "lock", Test: "TestPermitOfACallerThatLeaves",
	},
	{
		Name: "place-forgotten",
		Rule: "10, queues: a permit is taken without a place only if there is none",
		Edits: []Edit{{
			File: "lock/queue.go",
			Old:  "takePermit(ctx, free[p.before], place)",
			New:  "takePermit(ctx, free[p.before])",
		}},
		Package: "lock", Test: "TestPermits",
	},
	{
		Name: "reader-beside-a-writer",
		Rule: "10, queues: a reader takes no permit while a writer has one, and the other way round",
		Edits: []Edit{{
			File: "lock/queue.go",
			Old:  "range append(c.shunned[:len(c.shunned):len(c.shunned)], key) {",
			New:  "range []string{key} {",
		}},
		Package: "lock", Test: "TestRWLock",
	},
	{
		Name: "trusted-while-revoked",
		Rule: "10: the owner trusts no record that its held state shows as revoked",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "e.Owner == m.self && !e.Revoked\n",
			New:  "e.Owner == m.self\n",
		}},
	},
	{
		Name: "trusted-when-leaving",
		Rule: "10: after sending MemberLeave, the owner no longer trusts its records",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "t.IsZero() || m.stopped || m.operator.leaving || !now",
			New:  "t.IsZero() || m.stopped || !now",
		}},
		Test: "TestAMemberThatLeavesStopsTrusting",
	},
	{
		Name: "other-store-takes-records",
		Rule: "10: if another store gets the seat of a run, its records are revoked, not dropped",
		Edits: []Edit{{
			File: "member/records.go",
			Old:  "\t\t\t\te.Revoked = true\n\t\t\t\tout = out.Put(e)\n",
			New:  "\t\t\t\tout = out.Drop(e.Key)\n",
		}},
		Test: "TestAMemberThatGetsItsPlaceBackIsWaitedFor",
	},
	{
		Name: "lost-owner-forgotten",
		Rule: "10: the leader waits for an owner without a seat like for every other",
		Edits: []Edit{{
			File: "statemachine/recordowners.go",
			Old:  "\t\to.lost = m.now\n",
			New:  "\t\to.lost = m.lead.since\n",
		}},
		Test: "TestAMemberThatGetsItsPlaceBackIsWaitedFor",
	},
	{
		Name: "lost-owner-forgotten-when-back",
		Rule: "10: the leader also waits for an owner that gets its seat back",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "\tlast := o.lost //",
			New: "\tlast := o.lost\n\tif m.durable.Held.Roster.Has(o.id) {\n" +
				"\t\tlast = time.Time{}\n\t} //",
			Alone: "the leader that gives the seat back counts an extension from then",
		}, {
			File:  "statemachine/join.go",
			Old:   "\tp.extended = m.now\n",
			New:   "",
			Alone: "extension-forgotten-when-back is this edit alone",
		}},
		Test: "TestAMemberThatGetsItsPlaceBackIsWaitedFor",
	},
	{
		Name: "extension-forgotten-when-back",
		Rule: "10: an extension from before applies to the records that a member sets in its seat again",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "\tp.extended = m.now\n",
			New:  "",
		}},
		Test: "TestARecordOfAMemberThatGotItsPlaceBackStays", Package: "statemachine",
	},
	{
		Name: "extended-before-its-place",
		Rule: "10: an ack extends only an owner that showed the revision that gave it its seat",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  "\tp.revoked = m.shownState().Number\n",
			New:  "\tp.revoked = member.Number{}\n",
		}},
		Test: "TestAMemberThatLostItsSeatTrustsNothing",
	},
	{
		Name: "request-taken-twice",
		Rule: "10: a request is executed at most once",
		Edits: []Edit{{
			File: "statemachine/recordowners.go",
			Old:  "if b.ID <= last.id {",
			New:  "if b.ID == 0 {",
		}},
		Test: "TestARequestIsTakenOnce",
	},
	{
		Name: "forgotten-run-gets-a-place",
		Rule: "10: a run gets no place if a later run at its address made requests",
		Edits: []Edit{{
			File: "statemachine/join.go",
			Old:  " ||\n\t\tm.lead.laterRun(j.Identity) != 0:",
			New:  ":",
		}},
		Test:    "TestALateRequestOfAForgottenRun",
		Package: "statemachine",
	},
	{
		Name: "request-of-another-leadership",
		Rule: "10: only the leadership to which a request was sent executes it",
		Edits: []Edit{{
			File: "statemachine/recordowners.go",
			Old:  "case m.role != member.Leading || in.Claim != m.claim():",
			New:  "case m.role != member.Leading || in.Claim.Leader != m.claim().Leader:",
		}},
		Test: "TestARequestIsOfOneLeadership",
	},
	{
		Name: "loss-unnoted",
		Rule: "10: an owner must have shown an unrequested loss before it is extended",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "\t\tp.revoked = n\n",
			New:  "\t\tp.revoked = member.Number{}\n",
		}},
	},
	{
		Name: "revocation-undone",
		Rule: "10: a revoked record meets no condition",
		Edits: []Edit{{
			File: "statemachine/leaderrecords.go",
			Old:  "if e.Token != c.Token || e.Revoked && !c.Token.IsZero() {",
			New:  "if e.Token != c.Token {",
		}},
		Test:    "TestAnOwnerCannotUndoARevocation",
		Package: "statemachine",
	},
	{
		Name: "key-set-twice-in-a-revision",
		Rule: "10: a token belongs to one change of a key",
		Edits: []Edit{{
			File: "statemachine/leaderrecords.go",
			Old:  "return d.touched[c.Key] }) {",
			New:  "return false && d.touched[c.Key] }) {",
		}},
	},
}
