// SPDX-License-Identifier: Apache-2.0

// Package lowest is an election for those who would rather have two leaders than none:
// one in each part of a network that fell apart, and one again soon after it is whole. It
// is the election of Hyperledger Fabric's gossip, as a value: inputs in, effects out, no
// goroutine, no clock, no network. Package election drives it over a cluster;
// docs/elections.md says what it promises and what differs from its model. Its API may
// change until version 1.
//
// # Rules
//
// A member that knows no leader says so to all, in a proposal, and waits: those with lower
// ids wait less. Who hears no leader until then leads, and declares that to all, at once
// and then twice within Timing.Alive. Who hears a proposal of a lower id waits for half of
// Timing.Campaign more, once: contenders that come and go keep nobody waiting. A leader of
// which nothing was heard for Alive is none any more. One that gives up says so. Who stood
// still past its turn asks anew.
//
// A declared leader stays whoever comes: a lower id that has not declared waits. Of two
// that have, the higher steps down when it hears of the lower. It need not hear it itself:
// whoever follows the lower one tells it, and tells also who proposes without need. What
// is told on is as old as what the teller heard, so nobody is kept a leader by hearsay. A
// leader that declares on for 2 x Alive, whatever it is told, hears nobody who could tell
// it: then the lower one steps down, and tells all.
//
// Messages are numbered within a run of their member, and older ones are dropped; what was
// heard of a member for that counts for Alive.
package lowest
