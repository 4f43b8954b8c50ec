// SPDX-License-Identifier: Apache-2.0

// Package transport says how nodes reach each other: the Transport interface,
// the greet and the rule for crossing connections as pure functions, and the
// Mesh, which is all of a Transport except the network below it. memnet gives a
// Mesh connections within one process, quicnet connections over QUIC; both pass
// the suite of transporttest.
//
// # Connections
//
// Two nodes share one connection (protocol.md section 8). It has three streams in
// each direction, of system frames, of custom ones and of answers to these, so that
// events never delay a heartbeat and nobody who answers waits for who asks;
// besides, bulk streams and datagrams. A Mesh dials when there
// is something to send to a peer to which it has no connection, again and again
// with growing pauses; a connection that the peer dialed meanwhile ends that at
// once.
//
// # Bytes on a stream
//
// A frame is its length, four bytes in network order, and as many bytes. No
// frame is empty: length zero is the end mark, after which the sender writes
// nothing more on this stream. The first frame on a system stream is the greet.
// That of the dialer starts with two numbers of eight bytes: the one it gave to
// this connection, and the one of the connection with this peer that it had and
// lost, 0 for none; the rest of it, and the whole of the answer, is an encoded
// message.Greet.
//
// # Bulk streams and datagrams
//
// A bulk stream starts with its head: the length, four bytes in network order, and
// as many bytes, perhaps none. What follows is the application's, in both
// directions. A datagram of the network holds as many of the application's as were
// waiting and fit, each behind its length, two bytes in network order; a length of
// zero, or one byte alone, says that the rest fills it up. Either is looked at only
// once the greets were exchanged.
//
// # Leaving a connection
//
// Who leaves a connection, because another one stays or because its node goes,
// writes the end mark on all of the three. Whoever reads an end mark writes its own
// ones. Once a node has read all end marks it closes its system stream: this
// says that it has everything. Who reads that, and has everything itself, closes
// the connection. Before either, a node waits a second at most for its bulk streams
// to end, unless the node itself goes; those that go on are cut, and each end learns
// it as an error. So no frame is lost, nothing comes twice, and a reader of the
// connection that stays waits for the end marks of the one that goes, so the
// order is kept too.
package transport
