// SPDX-License-Identifier: Apache-2.0

// Package explore visits every state that a small cluster of real machines can reach in an
// election, where the simulator samples. It runs statemachine.Machine as it ships, so there is
// no second model that could differ. It can also run paxos.Proposer and paxos.Acceptor alone,
// which shows that they are safe without the node around them, with far fewer states.
//
// # What is explored
//
// The nodes hold one state and have lost its leader. From there the explorer takes every order
// of these steps: an event that was sent reaches its receiver, repeatedly or never, before or
// after any other; the timer of a node fires; a node crashes and restarts with its store. Loss,
// duplication and reordering therefore need no steps of their own, and timers need no clock.
// The numbers of attempts and crashes are bounded.
//
// # What is not explored
//
// Time: two machines that differ only in times are the same state. Leases and everything else
// that depends on clocks are left to the simulator. Events other than those of elections are
// lost. The query that precedes a proposal is sent and answered in one step.
package explore
