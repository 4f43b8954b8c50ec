// SPDX-License-Identifier: Apache-2.0

// Package paxos decides who leads a version: single-decree Paxos, one instance a version, over
// values that name a leader and its initial state (protocol.md 6).
//
// # The algorithm
//
// A [Proposer] wants a leader. It asks every voter to promise its ballot (stage pre). A voter, an
// [Acceptor], promises unless it promised a higher ballot before, and shows the value that it
// accepted last. With the promises of a quorum the proposer settles the value: the one that a
// voter accepted already, since it may be chosen, otherwise its own. Then it asks every voter to
// accept the value (stage formal). A voter accepts unless it promised a higher ballot meanwhile.
// A value that a quorum accepted is chosen, and no other is ever chosen for that version.
//
// Read acceptor.go and proposer.go from top to bottom beside docs/plantuml/LEADER_ELECT.puml.
// Each rule has its sentence of protocol.md next to it.
//
// # What it leaves out
//
// The package knows no network, timer or lease. Proposer and Acceptor are values: each step
// takes one and returns the next. Package statemachine carries proposals and votes as messages,
// saves what an Acceptor must remember before a vote leaves, and refuses more proposals than an
// Acceptor does, to protect a living leader. It never grants what an Acceptor refuses.
package paxos
