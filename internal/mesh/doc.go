// SPDX-License-Identifier: Apache-2.0

// Package mesh keeps the connections of a node on a transport.Network: it dials, exchanges greets,
// decides which of two crossing connections to keep, and carries frames, bulk streams and
// datagrams. The rules for greets and for crossing connections are the pure functions CheckGreet
// and Resolve.
//
// # Connections
//
// Two nodes share one connection (protocol.md section 8). It has three streams in each
// direction, for system frames, custom frames and answers, so that events never delay a
// heartbeat and an answer never waits for an event. It also carries bulk streams and
// datagrams. If there is something to send to a peer without a connection, a Mesh dials with
// growing pauses. It stops once there is a connection, even one that the peer dialed. Connections
// to prepared peers are made before there is something to send.
//
// # Bytes on a stream
//
// A frame is its length, four bytes in network order, and as many bytes. No frame is empty: length
// zero is the end mark, the last thing on a stream. The first frame on a system stream is the
// greet. The dialer's greet starts with two numbers of eight bytes: the ID of this connection, and
// the ID of the last connection that the peer had dialed and that this dialer has lost, or 0 if
// there was none. The rest of the greet is an encoded message.Greet, and so is the whole answer.
//
// # Bulk streams and datagrams
//
// A bulk stream starts with its head: the length, four bytes in network order, and as many bytes,
// perhaps zero. The rest belongs to the application, in both directions. A packet of the network
// holds as many of the waiting datagrams as fit, each preceded by its length, two bytes in network
// order. After a length of zero, or if only a single byte is left, the rest is padding. Streams and
// datagrams are read only after the greets.
//
// # Leaving a connection
//
// A node that leaves a connection, because it keeps another one or shuts down, writes the end mark
// on all three streams. A node that reads an end mark writes its own. Once a node has read all end
// marks it closes its system stream, which acknowledges that it has everything. A node that reads
// this, and has everything itself, closes the connection. Before either step, a node that is not
// shutting down waits up to a second for its bulk streams to end. Streams that are still open then
// are cut, and each end gets an error. So no frame is lost or delivered twice. Frames also stay in
// order, because the readers of the kept connection wait for the end marks of the other one.
package mesh
