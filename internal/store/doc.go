// SPDX-License-Identifier: Apache-2.0

// Package store keeps what a node must remember across a crash: its Content, and the key
// with which a restarted node resets the connections of its earlier run. File keeps it in a
// directory, Memory until the process ends. Both implement Store.
//
// # The directory of a File
//
//	athena.state   the content; secret, mode 0600
//	athena.lock    locked while a process uses the store; holds its process id
//	reset.key      64 hexadecimal digits; secret, mode 0600
//
// Each must be a regular file with one name and the same owner as the directory. A process uses the
// store while it holds the lock of the directory (flock), so deleting athena.lock does not admit a
// second process. The mode of the directory becomes 0700, because a user who may read it could also
// lock it. Only root may use the directory of another user, for athena recover; the files that root
// writes belong to the owner of the directory.
//
// The state file is text: a header, entries, and free room for further entries.
//
//	header   "athena-state 5 " and the length of the file in eight digits; a newline
//	entry    SHA-256 in hexadecimal; the length of the JSON in eight digits; JSON; spaces and
//	         a newline. It ends at the end of a 512-byte sector.
//	room     sectors of dots and a newline
//
// The JSON contains a Content without its records, and the changes of the records since the
// previous entry. The last entry is the current content. People may read the file, but must never
// edit it. Every change to the format increases the number in the header.
//
// # What a Save promises
//
// If Save returns nil, the new content survives the end of the process and of the machine. If it
// returns an error, or the machine stops in the middle, the file contains either the old content or
// the new content, never a mixture.
//
// Save writes an entry into the room behind the last one and syncs the file. The cost does not
// depend on the number of records and is much less than that of writing a new file (measured: 2
// instead of 26 ms with 1,000 records, 0.7 instead of 1.5 ms without records). If there is no room,
// and at the first Save after Load, the content becomes the first entry of a new file. That file is
// written, synced and renamed over the old file; then the directory is synced. The state file stays
// open, and a spare descriptor is reserved for the next file. So Save works even if the process has
// reached its limit of open files.
//
// A crash may leave some sectors of an unfinished entry unwritten. These sectors still contain the
// dots of the room, so Load recognizes the entry and ignores it. Load reports any other difference
// as damage. The digest of an entry covers its position and the digest of the first entry, which
// covers the header. So a changed byte, a truncated file and an empty sector are all detected. The
// room is preallocated: if the file grew with each entry, a truncated file would look like one
// after a crash. Appending would be no faster.
//
// # The origin
//
// The Origin is the cluster, size and address for which the content is valid. A node compares it
// with its configuration at its start. Otherwise, if two of three nodes were restarted with size 1,
// each would lead its own cluster and issue the same tokens as the third. The Origin is part of the
// state file, so that a crash cannot separate it from the content. It is not part of paxos.Durable,
// because no rule of the protocol reads it.
//
// # The key
//
// The Content includes the private key of the store, and the id of the store is the hash of the
// public key (package storekey). So only a process that has the store can speak for it. A process
// with a copy of the state file can do so too.
//
// # A store that cannot be read
//
// A node that forgets its votes can help to elect two leaders. Therefore a file that is damaged
// or of an unknown version is an error, and Save never replaces a file that Load has not
// understood. For the same reason an old copy of the file must never be put back.
package store
