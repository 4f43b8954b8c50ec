// SPDX-License-Identifier: Apache-2.0

// Package messaging carries the events, requests and streams of an application
// between the members of a cluster: it encodes them, sends them through the
// transport, hands those that arrive to the handlers of a receiver.Mux, and
// matches answers with the calls that wait for them.
//
// A Messenger belongs to one node. It knows the node through the interface Node
// alone: who the members are, and who leads. Package cluster documents what users
// see of it.
package messaging
