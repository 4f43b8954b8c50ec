// SPDX-License-Identifier: Apache-2.0

// Package paxos decides who leads a version: single-decree Paxos, one instance
// a version, over values that name a leader and its initial state. It knows
// nothing of networks, timers or leases; package statemachine asks it what a
// vote means and adds the conditions that protect a living leader.
package paxos
