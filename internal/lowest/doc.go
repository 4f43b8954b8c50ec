// SPDX-License-Identifier: Apache-2.0

// Package lowest elects the member with the lowest id, for users who prefer two leaders to none: a
// partitioned network has one leader in each part, and again a single one soon after it heals. It
// implements the election of Hyperledger Fabric's gossip as a pure value without goroutines, clock
// or network. Package election drives it over a cluster; docs/elections.md describes its guarantees
// and how it differs from Fabric.
//
// # Rules
//
// A member without a leader proposes itself to all and waits, longer the higher its id. If it hears
// of no leader, it leads and declares that to all, immediately and then twice per Timing.Alive. If
// it hears a proposal of a lower id, it waits for half of Timing.Campaign more, but only once, so
// that members that restart repeatedly do not delay it for long. A leader that was silent for Alive
// is lost. A leader that gives up announces it. A member that was suspended past the end of its
// campaign starts another one.
//
// A declared leader stays, even if a lower id joins. Of two declared leaders the higher one steps
// down when it learns of the lower. Followers of the lower leader relay its declarations to other
// leaders and to members that propose. A relayed declaration keeps its age, so that relaying does
// not keep a dead leader alive. A leader that continues to declare for 2 x Alive although it was
// answered does not receive those answers; then the lower leader steps down and notifies all.
//
// Messages are numbered within a run of their member, and older ones are dropped until nothing
// newer was heard for Alive.
package lowest
