// SPDX-License-Identifier: Apache-2.0

// Package cluster joins a fixed number of processes into a cluster. The members elect a leader,
// track each other, and exchange typed events.
//
//	node, err := cluster.Start(ctx, cluster.Config{
//		Addr: "10.0.0.1:7000", Seeds: seeds, Size: 3,
//		SecretFile: "/etc/athena/secret", DataDir: "/var/lib/athena", Receiver: rx,
//	})
//
// # Leadership
//
// At most one member of a cluster leads with authority at any time. Work that must not run twice
// belongs in Node.WhileLeader, whose context is canceled before the authority ends. To guard data
// that the work changes elsewhere, store Term.Token with the data and refuse writes with a smaller
// token: tokens grow with every leader. This works even if a process is paused between a check of
// Term.Valid and its next write.
//
// A cluster of N members has a leader with authority while N/2+1 of them can reach each other.
// While too few members have joined, a seed may lead provisionally. View shows a provisional
// leader; Leader does not. Nothing may rely on a provisional leader.
//
// # Records
//
// The cluster keeps a small table of records: see Node.Records and package record.
//
// # Events and streams
//
// Send and Broadcast deliver events to the handlers of other members; WithOutcome reports the
// outcome of each event. Request waits for a typed answer. RequestLeader waits for an answer from
// the current leader. OpenStream opens a stream of bytes for data that is too large for an event or
// has no end. BestEffort sends data that soon becomes obsolete: it does not wait, and may lose
// events.
//
// # Implementation
//
// A Node is the shell of one statemachine.Machine: it has the clock, the store, the transport
// and the handlers, and decides nothing about the protocol. One goroutine uses the machine. In each
// turn this goroutine reads the clock once, passes one input to the machine, and applies the output
// in a fixed order. It saves what must be durable, ends lost terms, publishes changes and sends
// messages. Goroutines of the transport decode frames, and goroutines of package receiver run
// handlers, so neither delays a heartbeat.
package cluster
