// SPDX-License-Identifier: Apache-2.0

// Package cluster makes a process one of a fixed number of members that elect a
// leader, know each other, and exchange typed events.
//
//	node, err := cluster.Start(ctx, cluster.Config{
//		Addr: "10.0.0.1:7000", Seeds: seeds, Size: 3, Secret: secret, DataDir: dir, Receiver: rx,
//	})
//
// # Leadership
//
// At most one member of a cluster leads with authority at any moment. What must
// not happen twice runs in Node.WhileLeader: its context ends before authority
// does. What the work changes elsewhere is guarded by Term.Token, which grows
// with every leader: whoever stores the work refuses a token below the last.
// That holds also where a process stops for a while between a look at
// Term.Valid and what it does next.
//
// A cluster of N has a leader with authority while N/2+1 of its members reach
// each other. Until then a seed may lead provisionally: View shows it, Leader
// does not, and nothing may rely on it.
//
// # Records
//
// The cluster keeps a small table of records: Node.Records, and package record.
//
// # Events and streams
//
// Send and Broadcast give events to the handlers that members have in their
// receivers; WithOutcome tells what became of each. Request waits for a typed
// answer, RequestLeader for one of whoever leads. What is too large for an event,
// or has no end, goes through a stream of bytes: OpenStream. What is out of date
// soon may be sent with BestEffort: it waits for nothing, and may be lost.
//
// # Inside
//
// A Node is the shell around one statemachine.Machine: it has the clock, the
// store, the transport and the handlers, and decides nothing about the protocol.
// One goroutine owns the machine. It reads the clock once a turn, gives one
// input to the machine, and carries out the answer in a fixed order: what must
// be durable is saved, what changed is published, messages are sent, readers of
// events are told. Decoding happens in the goroutines of the transport before,
// and handlers run in those of package receiver: neither holds up a heartbeat.
package cluster
