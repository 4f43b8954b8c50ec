// SPDX-License-Identifier: Apache-2.0

// Package store keeps what a node must still know after a crash: its Content,
// and the key with which a restarted node ends the connections of its earlier
// run. File keeps it in a directory, Memory for the life of the process. Both
// are a Store.
//
// # The directory of a File
//
//	athena.state   what was saved
//	athena.lock    locked while a process has the store; holds its process id
//	reset.key      64 hexadecimal digits; a secret, mode 0600
//
// Each is a regular file with one name, of the owner of the directory; others are refused. A
// process has the store while it holds the lock of the directory (flock), so that deleting
// athena.lock admits no second one. The mode of the directory becomes 0700: a user who may
// read it could lock it too. Only root may use the directory of another user, for
// athena recover: what it writes belongs to that user.
//
// The state file is text: a header, entries, and room for more of them.
//
//	header   "athena-state 4 " and the length of the file, of eight digits; a line end
//	entry    a digest, SHA-256 in hexadecimal; the length of the JSON, of eight digits;
//	         JSON; spaces and a line end. It ends where a sector of 512 bytes does.
//	room     sectors of dots and a line end
//
// The JSON is a Content without its records, and what changed of these since the entry
// before; the last one holds. It is there to be read by people, never to be edited.
// The number in the header grows with every change of the format.
//
// # What a Save promises
//
// When Save returns nil, the new content survives the end of the process and of
// the machine. When it returns an error, or the machine stops in the middle, the file
// holds the old content or the new one, never a part of either.
//
// A Save writes an entry into the room behind the others and syncs the file. It costs as
// much with 2,000 records as with a few, and a third of what a new file does (with 1,000
// records 2 in place of 26 ms, without any 0.7 in place of 1.5 ms, where measured). Where
// no room is left, and at the first Save after a Load, the content becomes the first
// entry of a new file, which is written and synced and takes the name of the old one;
// then the directory is synced. The state file stays open, and one more descriptor is held
// for the next one: a Save also works in a process that may open no more files.
//
// A crash leaves of an entry that was being written some of its sectors, and the room was
// written before: it is known by the room within it, and ignored. Whatever else is not as
// it was written is damage, for the digest of an entry is bound to its place and to the
// first entry, and that one's to the header: one byte that changed, a file that was cut,
// a sector that is empty. To write at the end of a file that grows would take no longer;
// then a cut could not be told from a crash.
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
