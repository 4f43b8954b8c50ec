// SPDX-License-Identifier: Apache-2.0

// Package mutants plants bugs in the core and shows that the simulator finds
// them: each rule of protocol.md that is marked (S) is switched off in turn.
// A checker that never fails proves nothing about the code that it watches.
//
// There are no hooks in the core. A mutant is the replacement of a text in one
// of its files, compiled with go build -overlay. The text must be there exactly
// once, so that a mutant does not silently go stale when the core changes.
//
// go test ./test/mutants checks that every mutant applies;
// go test ./test/mutants -mutants builds each one and runs seeds until an
// invariant breaks.
package mutants
