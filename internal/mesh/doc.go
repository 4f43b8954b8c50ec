// SPDX-License-Identifier: Apache-2.0

// Package mesh keeps the connections of a node on a transport.Network: it dials, exchanges
// greetings, decides which of two crossing connections to keep, and carries frames, bulk streams
// and datagrams. The rules for greetings and for crossing connections are the pure functions
// CheckGreet and Resolve.
//
// # Connections
//
// Two nodes share one connection (protocol.md section 8). The connection has three streams in each
// direction, for system frames, custom frames and answers. So events never delay a heartbeat, and
// an answer never waits for an event. The connection also carries bulk streams and datagrams. If
// there is something to send to a peer without a connection, a Mesh dials with growing pauses. It
// stops once there is a connection, even one that the peer dialed. Connections to prepared peers
// are made before there is something to send.
//
// # Bytes on a stream
//
// A frame is its length, four bytes in network order, and as many bytes. No frame is empty: length
// zero is the end mark, the last thing on a stream. The first frame on a system stream is the
// greeting. The dialer's greeting starts with two numbers of eight bytes, Ends.ID and Ends.Lost.
// The rest of it, and all of the answer, is an encoded message.Greet.
//
// # Bulk streams and datagrams
//
// A bulk stream starts with its head: the length, four bytes in network order, and as many bytes,
// perhaps zero. The rest belongs to the application, in both directions. A packet of the network
// contains as many of the waiting datagrams as fit. Each is preceded by its length, two bytes in
// network order. After a length of zero, or if only a single byte is left, the rest is padding.
// Streams and datagrams are read only after the greetings.
//
// # Leaving a connection
//
// A node that leaves a connection, because it keeps another connection or shuts down, writes the
// end mark on all three streams. A node that reads an end mark writes its own. When a node has read
// all end marks, it has received everything, and closes its system stream to acknowledge that. A
// node that has received everything and the acknowledgment closes the connection. Before each of
// these two steps, a node that is not shutting down waits up to a second for its bulk streams to
// end. Streams that are still open then are cut, and each end gets an error. So no frame is lost or
// delivered twice. Frames also stay in order, because the readers of the kept connection wait for
// the end marks of the other connection.
package mesh
