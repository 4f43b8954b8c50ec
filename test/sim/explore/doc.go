// SPDX-License-Identifier: Apache-2.0

// Package explore visits every state that a small cluster of real machines can reach in an
// election. The simulator only samples these states. The package runs the production
// statemachine.Machine, so there is no separate model that could differ from it. It can also run
// paxos.Proposer and paxos.Acceptor alone. This takes far fewer states, and shows that both are
// safe without the node around them.
//
// # What is explored
//
// At first all nodes hold the same state and have lost its leader. The explorer then takes these
// steps in every order: an event reaches its receiver; the timer of a node fires; a node crashes
// and restarts with its store. An event may arrive once, repeatedly or never, before or after any
// other event. Loss, duplication and reordering therefore need no separate steps, and timers need
// no clock. The numbers of attempts and crashes are bounded.
//
// # What is not explored
//
// Time is not explored: two machines that differ only in times are in the same state. Leases and
// everything else that depends on clocks are left to the simulator. Events that do not belong to an
// election are lost. The query that precedes a proposal is sent and answered in one step.
package explore
