// SPDX-License-Identifier: Apache-2.0

// Package wire turns messages and custom events into frames of bytes and back.
// It has no goroutine, clock or I/O, and no frame can make it panic, recurse,
// or allocate more than a small multiple of the frame's length.
//
// # Frame
//
// A frame is what a transport carries whole; its length is the transport's.
//
//	byte 0   0xAE
//	byte 1   Version, 2
//	byte 2   message.Kind, or 0xFF for a custom event
//	byte 3   one MessagePack value, up to the end of the frame
//
// # Body
//
// The value is made of arrays, integers, booleans, strings (UTF-8), binaries
// and, in events alone, one map of strings. A struct that may grow is an array
// of its fields in the order of their declaration: the body, its header, the
// event, a state, an accepted value, an entry of a roster, a record, what is asked
// and said of one. What will never grow (address, identity, number, claim, stamp,
// proposal id) stands flat in the array that holds it. Names, of members, clusters
// and events, and keys of records are printable (member.IsPrintable), since they end
// up in logs and on terminals.
//
//	body     [header, event, padding?]
//	header   [from host, port, store id, incarnation, to host, port,
//	          claim chosen, version, leader host, port, cluster id]
//	padding  binary of any bytes; keep-alives and their acks have it where they
//	         would be shorter than MinKeepAliveBytes
//
// A custom event has no header; its body is [name, payload, metadata].
//
// # Change
//
// Within one Version fields are only appended to these arrays: a reader skips
// elements that it does not know. A missing one is an error.
// Any other change of bytes takes a new Version, and so does any other change of the
// files in testdata/golden.
//
// # Order of checks
//
// Length, frame header, structure (Scan), and only then types and ranges. One
// function describes a struct for both directions, so they cannot disagree,
// and what encodes also decodes. The readers of MessagePack are this package's
// own: libraries fill in what is missing, cut 300 to 44 for a uint8, and trust
// lengths.
//
// The package may change until version 1 of the module.
package wire
