// SPDX-License-Identifier: Apache-2.0

// Package lowest elects the member with the lowest id. It is for users who prefer two leaders to
// none: each part of a partitioned network has a leader. Soon after the network heals, there is a
// single leader again. The package implements the election of Hyperledger Fabric's gossip as a pure
// value without goroutines, clock or network. Package election runs it in a cluster;
// docs/elections.md describes the guarantees and the differences from Fabric.
//
// # Rules
//
// A member without a leader proposes itself to all and then waits. The higher its id, the longer
// the wait. If it hears of no leader, it leads. It declares itself to all members immediately, and
// then twice per Timing.Alive. If it receives a proposal of a member with a lower id, it waits half
// of Timing.Campaign longer. Further proposals do not extend the wait, so members that restart
// repeatedly cannot delay it for long. A leader that has been silent for Alive is lost. A leader
// that gives up leadership notifies all members. If a member was suspended past the end of its
// campaign, it starts another campaign.
//
// A declared leader keeps leading, even if a member with a lower id joins. If two leaders declare
// themselves, the leader with the higher id steps down when it learns of the other. Followers of
// the lower leader relay its declarations to other leaders and to members that propose. A relayed
// declaration keeps its age, so that relaying does not keep a dead leader alive. The lower leader
// answers declarations of the higher one. If the higher leader still declares itself after 2 x
// Alive, it does not receive those answers. The lower leader then steps down and notifies all.
//
// Each member numbers its messages within a run. Others drop a message if they have received a
// newer message of the same member within Alive.
package lowest
