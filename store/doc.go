// SPDX-License-Identifier: Apache-2.0

// Package store keeps what a node must still know after a crash: its Content,
// and the key with which a restarted node ends the connections of its earlier
// run. File keeps it in a directory, Memory for the life of the process. Both
// have the same methods; who uses them declares the interface.
//
// # The directory of a File
//
//	athena.state   one line "athena-state 2 sha256:<digest>", then JSON
//	athena.lock    locked while a process has the store; holds its process id
//	reset.key      64 hexadecimal digits; a secret, mode 0600
//
// The digest is that of all bytes after the first line. The JSON is there to be
// read by people, never to be edited. The number in the first line grows with
// every change of the format.
//
// # What a Save promises
//
// When Save returns nil, the new content survives the end of the process and of
// the machine: the content is written to a new file and synced, the new file
// takes the name of the old one, and the directory is synced. When it returns
// an error, or the machine stops in the middle, the file holds the old content
// or the new one, never a part of either.
//
// Two slots within one file, overwritten in turn, would take a quarter of the
// time (0.12 instead of 0.5 ms where measured). Nodes save when leaders change or a
// member comes or goes, not for each message, so the plain way was kept.
//
// # What a store was made for
//
// The Origin says for which cluster, of which Size, under which address the
// content holds. Whoever starts a node with a store compares it first: two of
// three nodes that are told that their cluster has one member would each lead
// one, with the tokens of the third. It stands in the state file, not in one of
// its own, so that no crash leaves one without the other, and beside
// paxos.Durable, not in it: no rule of the protocol reads it.
//
// # A store that cannot be read
//
// A node that forgot its votes can help to elect two leaders. So a file that is
// damaged, or of another version, is an error, and Save never replaces a file
// that Load has not understood. For the same reason an old copy of the file
// must never be put back.
//
// The package may change until version 1 of the module.
package store
