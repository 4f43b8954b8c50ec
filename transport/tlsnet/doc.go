// SPDX-License-Identifier: Apache-2.0

// Package tlsnet connects nodes over TLS 1.3 on TCP, for networks that block UDP and for the
// highest throughput. A node uses it if [Open] is given to cluster.WithTransport. All nodes of a
// cluster must use the same transport; a node with QUIC is refused with an error that names the
// difference.
//
// A pair of nodes shares up to two TCP connections. The system lane carries the messages of the
// protocol. The bulk lane carries events, their outcomes, bulk streams and datagrams; it is
// connected when it is first needed. So no heartbeat waits behind an event. Flow control keeps the
// streams of one lane independent: a stream that is not read blocks only itself.
//
// Datagrams are sent on the bulk lane. They are lost only if the receiver does not keep up, and
// they may be delayed by events.
package tlsnet
