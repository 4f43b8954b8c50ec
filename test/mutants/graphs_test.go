// SPDX-License-Identifier: Apache-2.0

package mutants

// graphs lists mutants of the rules by which handlers never wait for each other in a circle. The
// swarm catches them with drawn graphs of handlers.
var graphs = []Mutant{
	{
		Name: "events-of-handlers-behind-others",
		Rule: "9, order: events of handlers have an order of their own",
		Edits: []Edit{{
			File: "internal/messaging/send.go",
			Old:  "\tif depth > 0 {\n\t\treturn transport.Nested",
			New:  "\tif depth > 8 {\n\t\treturn transport.Nested",
		}},
	},
	{
		Name: "events-of-handlers-in-the-queue-of-others",
		Rule: "9, waits: handlers wait only for greater depths",
		Edits: []Edit{{
			File: "receiver/queue.go",
			Old:  "laneKey{it.from.Address, it.depth, ",
			New:  "laneKey{it.from.Address, 0, ",
		}},
	},
	{
		Name: "requests-of-handlers-behind-others",
		Rule: "9, waits: requests of depth 1 and more are refused by a full queue",
		Edits: []Edit{{
			File: "internal/messaging/request.go",
			Old:  "if depth > 0 || eventname",
			New:  "if depth > 8 || eventname",
		}},
	},
	{
		Name: "refusal-waits-for-room",
		Rule: "the refusal of a request of a handler waits for no room",
		Edits: []Edit{{
			File: "internal/messaging/answer.go",
			Old:  "if k != transport.Answer || to",
			New:  "if k >= transport.System || to",
		}},
	},
	{
		Name: "no-handlers-kept",
		Rule: "9, waits: 1 in 32 handlers of a type is kept for each depth from 1 to 3",
		Edits: []Edit{{
			File: "receiver/depth.go",
			Old:  "kept := limit / 32",
			New:  "kept := limit / 1024",
		}},
	},
	{
		Name: "waits-for-its-own-queue",
		Rule: "a handler does not wait for room on its own node",
		Edits: []Edit{{
			File: "internal/messaging/inbound.go",
			Old:  "\tif depth > 0 {\n\t\tctx = m.canceled",
			New:  "\tif depth > 8 {\n\t\tctx = m.canceled",
		}},
	},
	{
		Name: "deep-sends-wait",
		Rule: "9, waits: handlers of depth 1 and more wait for no room",
		Edits: []Edit{{
			File: "internal/messaging/send.go",
			Old:  "mesh.SendMode{Try: depth > 1}",
			New:  "mesh.SendMode{Try: depth > 8}",
		}},
	},
	{
		Name: "refused-request-keeps-its-room",
		Rule: "the room of a request that no handler gets is given back",
		Edits: []Edit{{
			File: "receiver/handlers.go",
			Old:  "\t\t\tw.releaseRoom(it.bytes)\n\t\t\tw.mux",
			New:  "\t\t\tw.mux",
		}},
	},
	{
		Name: "send-waits-without-bound",
		Rule: "9, waits: sends that find no room fail while a queue gives none",
		Edits: []Edit{{
			File: "internal/mesh/mesh.go",
			Old:  "if f.stuck = nil; why != nil {",
			New:  "if f.stuck = nil; why == ErrClosed {",
		}},
	},
	{
		Name: "request-waits-without-bound",
		Rule: "9, waits: a wait for too few handlers ends after 5 s without progress",
		Edits: []Edit{{
			File: "receiver/depth.go",
			Old:  "} else if idle++; idle == idleChecks {",
			New:  "} else if idle++; idle < 0 {",
		}},
	},
}
