// SPDX-License-Identifier: Apache-2.0

package leasestore

import "context"

// Backend is a service that keeps entries by name. Its methods may be called from any
// goroutine.
//
// Its errors wrap one of package cluster: ErrConflict where an entry is not as a Change
// wants it, ErrNoQuorum where the service cannot be asked now, ErrUnknownOutcome where a
// write may have been made or may be later, and ErrClosed where it never can be asked
// again. Any other is a refusal for good, such as of a right that is missing. But for
// ErrUnknownOutcome, nothing was changed nor will be.
type Backend interface {
	// Read returns those of the entries that exist, as they are at the call or later.
	Read(ctx context.Context, names ...string) ([]Entry, error)
	// Write makes all changes or none. The revision is that of the entries that it put,
	// and is greater than that of all writes before.
	Write(ctx context.Context, changes ...Change) (revision uint64, err error)
	// Follow calls see with all entries, and then with those that changed, until ctx
	// ends or it may have missed one; the error is why. It shows nothing that was not
	// committed, of each name the last in the end, and no entry that was put over another
	// before the new ones of the same write.
	Follow(ctx context.Context, see func(all bool, entries []Entry)) error
}

// Entry is one entry of a Backend.
type Entry struct {
	Name     string // printable, with slashes; of any length up to 300 bytes
	Value    []byte // at most 8 KiB, printable
	Revision uint64 // of the write that put it; 0: there is none
}

// Change is a condition on one entry, and what becomes of the entry. A Write has one for
// each name, and at most 127.
type Change struct {
	Kind     Kind
	Name     string
	Revision uint64 // that the entry must have, 0 for none; Exists does not ask
	Value    []byte // of Put
}

// Kind says what becomes of the entry of a Change.
type Kind uint8

// The kinds of a Change.
const (
	// Check leaves it as it is.
	Check Kind = iota + 1
	// Exists leaves it as it is, whatever its revision.
	Exists
	// Put sets its value.
	Put
	// Delete takes it away. There must be one.
	Delete
)
