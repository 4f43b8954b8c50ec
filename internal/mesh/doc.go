// SPDX-License-Identifier: Apache-2.0

// Package mesh makes and keeps the connections of a node on a transport.Network: it dials,
// exchanges greets, decides which of two crossing connections stays, and carries frames,
// bulk streams and datagrams. CheckGreet and Resolve hold its rules as pure functions.
//
// # Connections
//
// Two nodes share one connection (protocol.md section 8). It has three streams in each
// direction, of system frames, of custom ones and of answers to these, so that events never
// delay a heartbeat and an answer never waits for an event; besides, bulk streams and
// datagrams. A Mesh dials when there is something to send to a peer to which it has no
// connection, again and again with growing pauses, until it has a connection or the peer
// has dialed one.
//
// # Bytes on a stream
//
// A frame is its length, four bytes in network order, and as many bytes. No frame is empty:
// length zero is the end mark, after which the sender writes nothing more on this stream.
// The first frame on a system stream is the greet. The greet of the dialer starts with two
// numbers of eight bytes: the one it gave to this connection, and the one of the connection
// with this peer that it had and lost, 0 for none. The rest of it, and all of the answer, is
// an encoded message.Greet.
//
// # Bulk streams and datagrams
//
// A bulk stream starts with its head: the length, four bytes in network order, and as many
// bytes, perhaps none. The rest belongs to the application, in both directions. A datagram
// of the network holds as many of the application's as were waiting and fit, each behind its
// length, two bytes in network order; a length of zero, or one byte alone, fills the rest of
// it up. Both are read only after the greets.
//
// # Leaving a connection
//
// A node that leaves a connection, because another one stays or because it shuts down,
// writes the end mark on all three streams. A node that reads an end mark writes its own
// ones. Once a node has read all end marks it closes its system stream, which acknowledges
// that it has everything. A node that reads this, and has everything itself, closes the
// connection. Before either, a node waits a second at most for its bulk streams to end,
// unless the node itself shuts down; streams that are still open are cut, and each end
// learns it as an error. So no frame is lost, none arrives twice, and the order is kept too:
// a reader of the connection that stays waits for the end marks of the one that ends.
package mesh
