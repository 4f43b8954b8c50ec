// SPDX-License-Identifier: Apache-2.0

// Package paxos elects the leader of a version: single-decree Paxos, one instance per version, over
// values that name a leader and its initial state (protocol.md 6).
//
// # The algorithm
//
// A [Proposer] asks every voter to promise its ballot (stage pre). A voter, an [Acceptor], promises
// unless it promised a higher ballot before, and shows the value that it accepted last. With the
// promises of a quorum the proposer settles the value. It takes a value that a voter has already
// accepted, because that value may be chosen. If there is no such value, it takes its own. Then it
// asks every voter to accept the value (stage formal). A voter accepts unless it has promised a
// higher ballot meanwhile. A value that a quorum accepted is chosen, and no other value is ever
// chosen for that version.
//
// Read acceptor.go and proposer.go from top to bottom, along with docs/plantuml/LEADER_ELECT.puml.
// Each rule names its section of protocol.md.
//
// # What it leaves out
//
// The package has no network, timers or leases. Proposer and Acceptor are values: each step takes a
// value and returns the next value. Package statemachine sends proposals and votes as messages, and
// saves an Acceptor before its vote is sent. To protect a live leader, package statemachine also
// refuses proposals that an Acceptor would grant. It never grants a proposal that an Acceptor
// refuses.
package paxos
