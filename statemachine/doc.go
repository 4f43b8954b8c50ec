// SPDX-License-Identifier: Apache-2.0

// Package statemachine implements the protocol of one node as a pure value: it starts no
// goroutine, reads no clock and does no I/O. Each file covers one concern; docs/protocol.md is
// the specification.
//
// The owner of a [Machine] calls Step for each message, Advance when Deadline has passed, and the
// operator's methods (Leave, Transfer, Drain). Each call returns an [Output], whose fields the
// owner applies in order. The owner makes all calls from one goroutine, with a now that never
// decreases.
// Programs use package cluster.
package statemachine
