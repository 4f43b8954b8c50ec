// SPDX-License-Identifier: Apache-2.0

// Package sim runs whole clusters of statemachine.Machine in one goroutine and in virtual time. The
// network, clocks, stores and operators are simulated, with faults. After every step the package
// checks the invariants of protocol.md section 11. It runs the production machine and replaces only
// the driver around it.
//
// A run is a function of its seed. Run draws the size, the timings, the stores and the classes of
// faults from the seed. It injects faults for a while, heals the cluster and requires a leader. A
// failed run reports the broken invariant, the time, and the command that repeats the run. Sweep
// runs many seeds on all cores. Cluster is the engine of Run, for tests that inject faults
// themselves.
//
// The checkers are outside observers. They see saves, messages, the views that nodes show and the
// authority that nodes claim. They do not rely on the nodes to check an invariant.
package sim
