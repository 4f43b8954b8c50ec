// SPDX-License-Identifier: Apache-2.0

// Package sim runs whole clusters of statemachine.Machine in one goroutine and in virtual
// time, with a faulty network, clocks, stores and operators, and checks the invariants of
// protocol.md section 11 after every step. It runs the production machine and replaces only
// the driver around it.
//
// A run is a function of its seed. Run draws the size, the timings, the stores and the
// classes of faults from the seed, injects faults for a while, heals the cluster and
// requires a leader. A failed run reports the broken invariant, the time, and the command
// that repeats the run. Sweep runs many seeds on all cores. Cluster is the engine of Run,
// for tests that inject faults themselves.
//
// The checkers are outside observers: they see saves, messages, the views that nodes show
// and the authority that nodes claim, and never ask a node about an invariant.
package sim
