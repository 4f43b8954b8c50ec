// SPDX-License-Identifier: Apache-2.0

// Package sim runs whole clusters of statemachine.Machine in one goroutine and
// in virtual time, with a network, clocks, stores and operators that
// misbehave, and checks the invariants of protocol.md section 11 after every
// step. What it drives is the code that ships: it replaces only the shell.
//
// One seed is one run, byte for byte: Run draws size, timings, stores and the
// faults that may happen from the seed, lets faults happen for a while, heals
// the cluster and demands a leader. A run that fails says which invariant
// broke, when, and how to see it again. Sweep does that for many seeds on all
// cores. Cluster is the engine below Run, for tests that direct the faults
// themselves.
//
// The checkers stand outside the nodes. They see what an observer could see:
// what was saved, what was sent, which view a node shows, and when it says that
// it has authority. They never ask a node for its own opinion on an invariant.
//
// The package is internal to the project in spirit and may change until v1.
package sim
