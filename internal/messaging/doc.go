// SPDX-License-Identifier: Apache-2.0

// Package messaging carries the events, requests and streams of an application between the members
// of a cluster. It encodes them, sends them through the transport, passes incoming ones to the
// handlers of a receiver.Mux, and matches answers with pending calls.
//
// A Messenger belongs to one node. It uses the node only through the interface Node: the
// members, and the leader. Package cluster documents the public API.
package messaging
