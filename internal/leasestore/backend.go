// SPDX-License-Identifier: Apache-2.0

package leasestore

import "context"

// Backend is a service that keeps entries by name. Its methods may be called concurrently.
//
// Their errors must wrap one of these errors of package record or leader. ErrConflict means that an
// entry does not meet the condition of its Change. ErrNoQuorum means that the service is
// unavailable now. ErrUnknownOutcome means that a write may have taken effect or may still do so.
// ErrClosed means that the service is permanently gone. Any other error means that the service
// permanently refuses the call, for example because a permission is missing. A failed write has no
// effect, now or later, unless the error is ErrUnknownOutcome.
type Backend interface {
	// Read returns the named entries that exist. Their state is not older than the call.
	Read(ctx context.Context, names ...string) ([]Entry, error)
	// Write makes all changes or none. It returns the revision of the entries that it put. Each write
	// returns a greater revision than the writes before it.
	Write(ctx context.Context, changes ...Change) (revision uint64, err error)
	// Follow calls see with all entries, and then with changed entries. It ends when ctx is done or it
	// may have missed a change, and returns the reason. It shows only committed entries, and may skip
	// all but the last version of an entry. If one write replaces an entry and adds others, Follow
	// must not show the replacement before the added entries.
	Follow(ctx context.Context, see func(all bool, entries []Entry)) error
}

// Entry is one entry of a Backend.
type Entry struct {
	Name     string // printable, may contain slashes; at most 300 bytes
	Value    []byte // printable; at most 8 KiB
	Revision uint64 // revision of the write that put the entry; 0 if the entry does not exist
}

// Change is a condition on one entry and the effect on it. A Write has at most 127 changes,
// each with a different name.
type Change struct {
	Kind     Kind
	Name     string
	Revision uint64 // the entry's required revision; 0 if it must not exist; ignored by Exists
	Value    []byte // for Put
}

// Kind is the effect of a Change.
type Kind uint8

// The kinds of a Change.
const (
	// Check has no effect.
	Check Kind = iota + 1
	// Exists has no effect. The entry must exist, with any revision.
	Exists
	// Put sets the value.
	Put
	// Delete deletes the entry, which must exist.
	Delete
)
