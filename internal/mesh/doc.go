// SPDX-License-Identifier: Apache-2.0

// Package mesh keeps the connections of a node on a transport.Network: it dials,
// exchanges greets, decides which of two crossing connections stays, and carries frames,
// bulk streams and datagrams. CheckGreet and Resolve are its rules as pure functions.
//
// # Connections
//
// Two nodes share one connection (protocol.md section 8). It has three streams in each
// direction, for system frames, custom frames and answers, so that events never delay a
// heartbeat and an answer never waits for an event. It also carries bulk streams and
// datagrams. A Mesh dials if there is something to send to a peer without a connection,
// with growing pauses, until it has a connection or the peer has dialed one. Connections to
// prepared peers are made before there is something to send.
//
// # Bytes on a stream
//
// A frame is its length, four bytes in network order, and as many bytes. No frame is
// empty: length zero is the end mark, the last thing on a stream. The first frame on a
// system stream is the greet. The dialer's greet starts with two numbers of eight bytes:
// the ID of this connection, and the ID of the last connection dialed by the peer, which
// the dialer has lost; 0 if there was none. The rest, and all of the answer, is an encoded
// message.Greet.
//
// # Bulk streams and datagrams
//
// A bulk stream starts with its head: the length, four bytes in network order, and as many
// bytes, perhaps zero. The rest belongs to the application, in both directions. A packet
// of the network holds as many datagrams as were waiting and fit, each after its length,
// two bytes in network order; a length of zero, or a single byte, ends the packet and the
// rest is padding. Both are read only after the greets.
//
// # Leaving a connection
//
// A node that leaves a connection, because another one stays or because it shuts down,
// writes the end mark on all three streams. A node that reads an end mark writes its own.
// Once a node has read all end marks it closes its system stream, which acknowledges
// that it has everything. A node that reads this, and has everything itself, closes the
// connection. Before either step a node waits up to a second for its bulk streams to end,
// unless it is shutting down; streams that are still open then are cut, and each end gets
// an error. So no frame is lost or delivered twice, and frames stay in order: the readers
// of the connection that stays wait for the end marks of the one that ends.
package mesh
