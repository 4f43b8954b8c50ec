// SPDX-License-Identifier: Apache-2.0

// Package mutants plants bugs in the core and shows that the simulator finds them. Each bug
// disables a rule of protocol.md that is marked (S). A checker that never fails proves nothing
// about the code that it checks.
//
// The core has no hooks for this. A mutant is the replacement of a text in one of its files,
// compiled with go build -overlay. The text must occur exactly once, so that a mutant cannot
// become stale unnoticed when the core changes.
//
// The mutants of the driver disable promises of the API around the core instead. The swarm of whole
// nodes (test/swarm) finds them.
//
// go test ./test/mutants checks that every mutant applies; go test ./test/mutants -mutants
// builds each mutant and runs seeds until an invariant breaks.
package mutants
