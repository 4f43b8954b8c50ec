// SPDX-License-Identifier: Apache-2.0

package mutants

// workers lists the mutants of the rules for workers (protocol.md 10, workers).
var workers = []Mutant{
	{
		Name: "new-worker-knows-its-losses",
		Rule: "10, workers: a worker must show the revision at which its leader first heard it",
		Edits: []Edit{{
			File: "statemachine/worker.go",
			Old:  "p := &peer{id: id, revoked: m.heldNumber(), extended: m.now}",
			New:  "p := &peer{id: id, extended: m.now}",
		}},
		Test: "TestRevokedRecordWaitsForItsWorker", Package: "statemachine",
	},
	{
		Name: "worker-needs-a-seat",
		Rule: "10, workers: a change of the roster takes nothing from a worker",
		Edits: []Edit{{
			File: "member/records.go",
			Old:  "!e.IsOwned() || e.Owner.IsWorker() {",
			New:  "!e.IsOwned() {",
		}},
		Test: "TestRosterDoesNotEndTheRecordsOfWorkers", Package: "statemachine",
	},
	{
		Name: "request-of-a-forgotten-worker",
		Rule: "10, workers: a request is taken only within HoldTimeout of the stamp that it names",
		Edits: []Edit{{
			File: "statemachine/worker.go",
			Old:  "if p == nil || !m.isFreshStamp(b.Seen) {",
			New:  "if p == nil {",
		}},
		Test: "TestOldRequestsOfWorkersAreNotTaken", Package: "statemachine",
	},
	{
		Name: "worker-trusts-by-its-own-timings",
		Rule: "10, workers: the ack states for how long a worker trusts its records",
		Edits: []Edit{{
			File: "statemachine/trust.go",
			Old:  "ack.Hold = m.timing.shorter.HoldTimeout()",
			New:  "ack.Hold = m.timing.givenHold()",
		}},
		Test: "TestWorkerTrustsForTheTimeOfItsLeader", Package: "statemachine",
	},
	{
		Name: "trust-outlasts-a-leadership",
		Rule: "10, workers: trust in no record ends with the leadership that extended it",
		Edits: []Edit{{
			File: "statemachine/worker.go",
			Old:  "if len(m.trust.own) == 0 {",
			New:  "if false {",
		}},
		Test: "TestWorkerTrustsAgainUnderTheNextLeader", Package: "statemachine",
	},
	{
		Name: "worker-in-the-name-of-another",
		Rule: "10, workers: the address of a worker names its store",
		Edits: []Edit{{
			File: "statemachine/worker.go",
			Old:  "case m.stopped || !in.From.IsWorker() ||",
			New:  "case m.stopped || !in.From.Address.IsObserver() ||",
		}},
		Test: "TestStrangersAreNoWorkers", Package: "statemachine",
	},
	{
		Name: "stranger-relays",
		Rule: "10, workers: only a member relays",
		Edits: []Edit{{
			File: "statemachine/worker.go",
			Old:  "case !m.durable.Held.Roster.Has(in.From) || !w.From.IsWorker() ||",
			New:  "case !w.From.IsWorker() ||",
		}},
		Test: "TestStrangersRelayNothing", Package: "statemachine",
	},
	{
		Name: "worker-fills-the-table",
		Rule: "10, workers: a worker owns at most 512 records",
		Edits: []Edit{{
			File: "statemachine/leaderrecords.go",
			Old:  "d.countOwned(r.from)+gained > maxWorkerRecords) {",
			New:  "gained > maxWorkerRecords {",
		}},
		Test: "TestWorkerHasAShareOfTheTable", Package: "statemachine",
	},
	{
		Name: "workers-crowd-the-table",
		Rule: "10, workers: none lets the table grow beyond three quarters",
		Edits: []Edit{{
			File: "statemachine/leaderrecords.go",
			Old:  "(grows && isCrowded(count, bytes) ||",
			New:  "(grows && !isCrowded(count, bytes) && false ||",
		}},
		Test: "TestWorkersLeaveRoomInTheTable", Package: "statemachine",
	},
	{
		Name: "worker-takes-the-room-of-workers",
		Rule: "10, workers: at most 64 requests of a worker wait",
		Edits: []Edit{{
			File: "statemachine/worker.go",
			Old:  "if p.waiting >= maxWorkerRequests {",
			New:  "if false {",
		}},
		Test: "TestWorkersLeaveRoomForMembers", Package: "statemachine",
	},
	{
		Name: "worker-takes-the-room-of-members",
		Rule: "10, workers: their requests take at most half of the room",
		Edits: []Edit{{
			File: "statemachine/recordowners.go",
			Old:  "\t\tshare = 2\n",
			New:  "\t\tshare = 1\n",
		}},
		Test: "TestWorkersLeaveRoomForMembers", Package: "statemachine",
	},
}
