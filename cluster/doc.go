// SPDX-License-Identifier: Apache-2.0

// Package cluster runs one node: the shell with clock, disk and network around
// one statemachine.Machine. It decides nothing about the protocol.
//
// Start joins a cluster of fixed size and returns a Node. A Node tells who is
// a member and who leads, runs work only while it leads (WhileLeader), and
// carries typed events between members (Send, Broadcast, package receiver).
package cluster
