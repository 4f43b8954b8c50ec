// SPDX-License-Identifier: Apache-2.0

package mutants

// driver lists mutants of what is around the core: the loop, terms, messages, transports, stores,
// records and locks. The rule is a promise of the API or of docs/architecture.md. The swarm of
// whole nodes catches them.
var driver = []Mutant{
	{
		Name: "term-outlives-its-lease",
		Rule: "Term.Valid is false once the lease has ended",
		Edits: []Edit{{
			File: "cluster/terms.go",
			Old:  "Own: leads, Until: until, Guard",
			New:  "Own: leads, Until: until.Add(2 * time.Second), Guard",
		}, {
			File: "cluster/terms.go",
			Old:  "cur.Extend(until))",
			New:  "cur.Extend(until.Add(2*time.Second)))",
		}},
	},
	{
		Name: "context-ends-late",
		Rule: "the context of WhileLeader ends before the lease, even if the loop is delayed",
		Edits: []Edit{{
			File: "leader/lease.go",
			Old:  "time.AfterFunc(l.Remaining()-l.guard, l.expire)",
			New:  "time.AfterFunc(l.Remaining()+3*time.Second, l.expire)",
		}},
	},
	{
		Name: "work-without-its-term",
		Rule: "the context of work ends with its term",
		Edits: []Edit{{
			File: "leader/work.go",
			Old:  "\tctx, end := t.lease.beginUse(ctx)\n\tdefer func() {",
			New:  "\t_, end := t.lease.beginUse(ctx)\n\tdefer func() {",
		}},
	},
	{
		Name: "token-does-not-grow",
		Rule: "tokens grow with every leader",
		Edits: []Edit{{
			File: "cluster/terms.go",
			Old:  "member.Token{Version: view.Version}",
			New:  "member.Token{Version: view.Version / 2}",
		}},
	},
	{
		Name: "saved-after-sent",
		Rule: "state is saved before it is published or sent",
		Edits: []Edit{{
			File: "cluster/loop.go",
			Old: "err := n.persist(now, in, out)\n\t\tunsaved := err\n" +
				"\t\tif err == nil {\n\t\t\terr = n.apply(now, out)\n\t\t}\n",
			New: "err := n.apply(now, out)\n\t\tunsaved := n.persist(now, in, out)\n" +
				"\t\tif err == nil {\n\t\t\terr = unsaved\n\t\t}\n",
		}},
	},
	{
		Name: "large-message-keeps-its-slot",
		Rule: "a slot of maxLarge is given back when the loop takes the message",
		Edits: []Edit{{
			File: "cluster/loop.go",
			Old:  "\t\t\tm.leaveRooms()\n",
			New:  "",
		}},
	},
	{
		Name: "answer-of-another-request",
		Rule: "an answer has the id of its request",
		Edits: []Edit{{
			File: "internal/messaging/answer.go",
			Old:  "a := wire.Answer{ID: c.ID, Payload: payload.b}",
			New:  "a := wire.Answer{ID: c.ID &^ 1, Payload: payload.b}",
		}},
	},
	{
		Name: "answer-to-another-run",
		Rule: "an answer to a call of an earlier run of this node matches no call",
		Edits: []Edit{{
			File: "internal/messaging/pending.go",
			Old:  "lastID: rand.Uint64() >> 1,",
			New:  "lastID: rand.Uint64() >> 63,",
		}},
	},
	{
		Name: "lost-cancel",
		Rule: "the handler of a request is canceled if its caller stops waiting",
		Edits: []Edit{{
			File: "internal/messaging/request.go",
			Old:  "\t\tm.cancelCall(to, kind, id) // also after",
			New:  "\t\t// also after",
		}},
	},
	{
		Name: "calls-outlive-their-connection",
		Rule: "the outcome of an event is reported when its connection is lost",
		Edits: []Edit{{
			File: "internal/messaging/inbound.go",
			Old:  "\tm.pending.fail(peer.Address, fmt.Errorf(\"%w: %w\", ErrUnknownOutcome, lost))\n",
			New:  "",
		}},
	},
	{
		Name: "send-keeps-its-slot",
		Rule: "a slot of MaxSending is given back",
		Edits: []Edit{{
			File: "internal/messaging/send.go",
			Old:  "\tdefer m.sending.Add(-1)\n",
			New:  "",
		}},
	},
	{
		Name: "commit-keeps-its-slot",
		Rule: "a slot of MaxCommits is given back",
		Edits: []Edit{{
			File: "internal/recordtable/commit.go",
			Old:  "\t\tdefer func() { <-t.slots }()\n",
			New:  "",
		}},
	},
	{
		Name: "handler-keeps-its-slot",
		Rule: "a slot of Concurrency is given back",
		Edits: []Edit{{
			File: "receiver/handlers.go",
			Old:  "\t\t\tw.route.slots.returnSlot(w.pool)\n",
			New:  "",
		}},
	},
	{
		Name: "stream-keeps-its-slot",
		Rule: "a slot of the concurrent streams of a name is given back",
		Edits: []Edit{{
			File: "receiver/stream.go",
			Old:  "\t\t\tr.countStream(observer, -1)\n",
			New:  "",
		}},
	},
	{
		Name: "frame-keeps-its-room",
		Rule: "the room of a large frame is given back when it is handled",
		Edits: []Edit{{
			File: "internal/mesh/budget.go",
			Old:  "\tb.free += bytes\n",
			New:  "\tb.free += bytes / 2\n",
		}},
	},
	{
		Name: "waiting-sends-are-forgotten",
		Rule: "a Send that waits for room gets it",
		Edits: []Edit{{
			File: "internal/mesh/peer.go",
			Old:  "\t\tb = f.take(spare)\n\t\tf.admit()\n",
			New:  "\t\tb = f.take(spare)\n",
		}},
	},
	{
		Name: "refused-but-sent",
		Rule: "an event is not delivered after its Send has failed",
		Edits: []Edit{{
			File: "internal/mesh/send.go",
			Old:  "\tf.waiting = slices.Delete(f.waiting, i, i+1)\n",
			New:  "",
		}},
	},
	{
		Name: "drained-in-vain",
		Rule: "a Drain that fails before it began changes nothing",
		Edits: []Edit{{
			File: "cluster/handover.go",
			Old:  "\terr := n.handOver(ctx, n.drainMachine)\n",
			New:  "\tn.drained.Store(true)\n\terr := n.handOver(ctx, n.drainMachine)\n",
		}},
		Test: "TestHandOverOfADoneContextChangesNothing", Package: "cluster",
	},
	{
		Name: "broadcast-in-turn",
		Rule: "a member that accepts nothing delays no event to another one",
		Edits: []Edit{{
			File: "internal/messaging/send.go",
			Old:  "\t\tsends.Go(func() { r.Err = m.send(ctx, r.To.Address, e, o) })\n",
			New:  "\t\tr.Err = m.send(ctx, r.To.Address, e, o)\n",
		}},
		Test: "TestBroadcastEndsWithTheMember", Package: "cluster",
	},
	{
		Name: "failed-though-accepted",
		Rule: "a Send whose frame was accepted does not fail",
		Edits: []Edit{{
			File: "internal/mesh/send.go",
			Old:  "\tif i < 0 {\n\t\treturn false\n",
			New:  "\tif i < 0 {\n\t\treturn true\n",
		}},
		Test: "TestFrameIsAcceptedWhenItsContextEnds", Package: "internal/mesh",
	},
	{
		Name: "sent-again-on-the-next-connection",
		Rule: "nothing is resent",
		Edits: []Edit{{
			File: "internal/mesh/linkwrite.go",
			Old:  "\t\tl.fail(err)\n\t\treturn\n\t}\n\tm.stats.sent",
			New: "\t\tl.fail(err)\n\t\tl.peer.mu.Lock()\n" +
				"\t\tif f := &l.peer.flows[k]; k != transport.System {\n" +
				"\t\t\tf.pending, f.frames = append(f.pending, b.bytes...), f.frames+b.frames\n\t\t}\n" +
				"\t\tl.peer.mu.Unlock()\n\t\treturn\n\t}\n\tm.stats.sent",
		}},
	},
	{
		Name: "frames-of-a-silent-connection-lost",
		Rule: "8: a silent connection that comes back is drained",
		Edits: []Edit{{
			File: "internal/mesh/adopt.go",
			Old:  "have.who == next.who && !have.staysSilent() {",
			New:  "false {",
		}},
		Test: "TestConnectionThatComesBack", Package: "transport/memnet",
	},
	{
		Name: "order-broken-by-a-new-connection",
		Rule: "the events of a new connection are delivered after those of the earlier one",
		Edits: []Edit{{
			File: "internal/mesh/linkread.go",
			Old:  "\tif !l.waitTurn(k) {\n\t\treturn\n\t}\n\treader := newFrameReader",
			New:  "\treader := newFrameReader",
		}},
	},
	{
		Name: "watch-loses-changes",
		Rule: "a watch reports every change, at least with the last one",
		Edits: []Edit{{
			File: "internal/recordtable/table.go",
			Old:  "if before.Token == after.Token && before.Revoked == after.Revoked {",
			New:  "if before.Owner == after.Owner && before.Key == after.Key {",
		}},
	},
	{
		Name: "watch-misses-revocation",
		Rule: "a watch reports revocations",
		Edits: []Edit{{
			File: "internal/recordtable/table.go",
			Old:  "if before.Token == after.Token && before.Revoked == after.Revoked {",
			New:  "if before.Token == after.Token {",
		}},
		Test: "TestWatchReportsRevocations", Package: "test/recordtest",
	},
	{
		Name: "watch-of-a-service-misses-revocation",
		Rule: "a watch of a store behind a service reports revocations",
		Edits: []Edit{{
			File: "internal/leasestore/table.go",
			Old:  "return was.revision != e.Revision",
			New:  "return was.tokenOf() != t.records[key].tokenOf()",
		}},
		Test: "TestWatchReportsRevocations", Package: "test/recordtest",
	},
	{
		Name: "events-lose-changes",
		Rule: "a reader of events gets each change, or Lagged",
		Edits: []Edit{{
			File: "cluster/eventhub.go",
			Old:  "s.queue = append(s.queue, events...)",
			New:  "s.queue = append(s.queue[:0:0], events...)",
		}},
	},
	{
		Name: "close-does-not-wait",
		Rule: "Close waits for handlers",
		Edits: []Edit{{
			File: "receiver/mux.go",
			Old:  "go func() { m.work.Wait(); close(idle) }()",
			New:  "close(idle)",
		}},
	},
	{
		Name: "readers-outlive-their-node",
		Rule: "the readers of events end with their node",
		Edits: []Edit{{
			File: "cluster/eventhub.go",
			Old:  "\t\t\tcase <-done:\n",
			New:  "\t\t\tcase <-done:\n\t\t\t\t<-ctx.Done()\n",
		}},
	},
	{
		Name: "watches-outlive-their-node",
		Rule: "the watches of records end with their node",
		Edits: []Edit{{
			File: "internal/recordtable/table.go",
			Old:  "\tfor changed := range t.watchers {\n\t\tclose(changed)\n\t}\n",
			New:  "",
		}},
	},
	{
		Name: "holds-beyond-its-lease",
		Rule: "a lock ends before another member can hold it",
		Edits: []Edit{{
			File: "internal/recordtable/lease.go",
			Old:  "Until: until, Guard: cfg.Guard",
			New:  "Until: until.Add(3 * time.Second), Guard: cfg.Guard",
		}, {
			File: "internal/recordtable/lease.go",
			Old:  "return l.Extend(until)",
			New:  "return until.IsZero() || l.Extend(until.Add(3*time.Second))",
		}, {
			File: "internal/recordtable/lease.go",
			Old:  "if token != l.token {",
			New:  "if token != l.token && m.Owns(l.key) != l.token {",
		}},
	},
	{
		Name: "revoked-record-still-held",
		Rule: "work ends when its record is taken away",
		Edits: []Edit{{
			File: "internal/recordtable/lease.go",
			Old:  "\t\tl.End(l.endCause(m))\n",
			New:  "",
		}},
	},
	{
		Name: "job-given-up-before-its-work-ends",
		Rule: "Resign waits for the functions of a job",
		Edits: []Edit{{
			File: "election/jobelection.go",
			Old:  "\t_ = lease.Wait(context.Background())",
			New:  "\t//",
		}},
	},
	{
		Name: "left-before-work-ends",
		Rule: "Leave waits for the functions that hold records",
		Edits: []Edit{{
			File: "cluster/handover.go",
			Old:  "\treturn waitLeases(ctx)\n",
			New:  "\treturn nil\n",
		}},
		Test:    "TestLeaveWaitsForWork",
		Package: "athenatest",
	},
	{
		Name: "left-before-leading-ends",
		Rule: "Leave waits for the functions of the cluster's leader",
		Edits: []Edit{{
			File: "cluster/handover.go",
			Old:  "\tif err := n.terms.waitOwnTerm(ctx); err != nil {\n",
			New:  "\tif err := ctx.Err(); err != nil {\n",
		}},
		Test:    "TestLeaveWaitsForWork",
		Package: "athenatest",
	},
	{
		Name: "leaving-node-takes-records",
		Rule: "a node that leaves gets no record that it could not use",
		Edits: []Edit{{
			File: "internal/recordtable/commit.go",
			Old:  "\tif err := s.table.leases.refuse(r); err != nil {\n",
			New:  "\tif err := s.table.leases.refuse(r); err != nil && false {\n",
		}},
		Test:    "TestLeavingNodeTakesNoRecords",
		Package: "athenatest",
	},
	{
		Name: "lock-released-too-early",
		Rule: "a lock is released after its function has returned",
		Edits: []Edit{{
			File: "lock/semaphore.go",
			Old:  "\t\tran, term := false, lease.Term()\n",
			New: "\t\tran, term := false, lease.Term()\n" +
				"\t\tgo func() { <-ctx.Done(); _ = c.tried[0].Drop(s.life, term.Token()) }()\n",
		}},
	},
	{
		Name: "lock-kept-for-ever",
		Rule: "a lock is released when its function has returned",
		Edits: []Edit{{
			File: "internal/holding/slot.go",
			Old:  "\tif err == nil || errors.Is(err, record.ErrUnknownOutcome) {\n\t\ts.unsure.Store(true)",
			New:  "\tif err == nil {\n\t\ts.unsure.Store(true)",
		}},
	},
	{
		Name: "store-forgets",
		Rule: "what was saved is there after a crash",
		Edits: []Edit{{
			File: "internal/store/file.go",
			Old:  "if _, err = s.state.WriteAt(entry, int64(as.end)); err == nil {",
			New:  "if int64(as.end) > 0 {",
		}},
	},
	{
		Name: "claimant-is-believed",
		Rule: "an address belongs to the store of its member, or to the one that answers there",
		Edits: []Edit{{
			File: "internal/mesh/claim.go",
			Old:  "	case !next.proved:\n\t\treturn false\n",
			New:  "",
		}},
	},
}
