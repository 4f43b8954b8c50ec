// SPDX-License-Identifier: Apache-2.0

// Package explore visits every state that a small cluster of real machines can
// reach in an election, where the simulator draws some. It drives
// statemachine.Machine as it ships: there is no second model that could differ. It also drives
// paxos.Proposer and paxos.Acceptor alone, to show that they are safe without the node around
// them, and with far fewer states.
//
// # What is explored
//
// The nodes hold one state and have lost its leader. From there every order of
// these steps is taken: an event that was ever sent reaches its receiver, again
// or never, before or after any other; the timer of a node fires; a node crashes
// and comes back with its store. So loss, doubling and reordering need no steps
// of their own, and a timer needs no clock. Attempts and crashes are bounded.
//
// # What is not
//
// Time is left out: two machines that differ in nothing but times are one.
// Leases, and all else that rests on clocks, are the simulator's. Events other
// than those of elections are lost. The question that comes before a proposal is
// asked and answered in one step.
package explore
