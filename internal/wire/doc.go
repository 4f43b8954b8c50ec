// SPDX-License-Identifier: Apache-2.0

// Package wire encodes messages and custom events as frames of bytes and decodes them. It
// uses no goroutines, clock or I/O. No frame can make it panic, recurse, or allocate more
// than a small multiple of the frame's length.
//
// # Frame
//
// A transport delivers each frame whole.
//
//	byte 0   0xAE
//	byte 1   Version, 2
//	byte 2   message.Kind, or 0xFF for a custom event
//	byte 3   one MessagePack value, up to the end of the frame
//
// # Body
//
// The value consists of arrays, integers, booleans, strings (UTF-8), binaries and, only in events,
// one map of strings. A struct that may grow is encoded as an array of its fields in the order of
// their declaration. These structs are the body, its header, the event, a state, an accepted value,
// a roster entry, a record, a condition and a change. A struct that will never grow (address,
// identity, number, claim, stamp, proposal ID) has no array of its own: its fields are part of the
// array that contains it. Names of members, clusters and events, and keys of records, are printable
// (member.IsPrintable), because they appear in logs and on terminals.
//
//	body     [header, event, padding?]
//	header   [from host, port, store id, incarnation, to host, port,
//	          claim chosen, version, leader host, port, cluster id]
//	padding  binary of any bytes, in keep-alives and their acks that would otherwise be
//	         shorter than MinKeepAliveBytes
//
// A custom event has no header; its body is [name, payload, metadata].
//
// # Change
//
// Within one Version, fields are only appended to these arrays. A reader skips unknown elements. It
// refuses a frame that lacks a known element. Only the traits of a member may be missing, because
// they were added later. Any other change to the bytes needs a new Version. The files in testdata
// contain the bytes of each release and never change after it.
//
// # Order of checks
//
// Decoding first checks the length, the header and the structure of a frame (Scan), and only then
// types and ranges. One function describes a struct for both directions, so that encoding and
// decoding agree. The readers of common MessagePack libraries are not used: they fill in missing
// elements, truncate 300 to 44 for a uint8, and trust lengths.
package wire
