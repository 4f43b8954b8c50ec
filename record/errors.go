// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
)

// The errors of a Store and its sessions. They are also causes of the contexts of leases.
var (
	// ErrAbsent means that there is no record under the key.
	ErrAbsent = errors.New("record: there is no record with this key")
	// ErrConflict means that a condition of Commit is false: read the records and decide again.
	ErrConflict = errors.New("record: condition failed: the records have changed")
	// ErrOwned means that Commit would set a record that another member owns: drop it first.
	ErrOwned = errors.New("record: the record belongs to another member")
	// ErrNotHeld means that the session must not act on the record: the session does not own a record
	// with that token, or the record was revoked or dropped.
	ErrNotHeld = errors.New("record: the record is not held")
	// ErrReleased means that this member has itself changed a record that it held.
	ErrReleased = errors.New("record: the record was released")
	// ErrTooLarge means that a commit exceeds a limit of package member.
	ErrTooLarge = errors.New("record: too large")
	// ErrTableFull means that a commit would overfill the table. It wraps ErrTooLarge.
	ErrTableFull = fmt.Errorf("%w: the table of records is full", ErrTooLarge)
	// ErrBusy means that too many commits are in flight: try again.
	ErrBusy = errors.New("record: busy")
	// ErrUnknownOutcome means that the changes may or may not have been made: read the records, and
	// commit again under the same conditions.
	ErrUnknownOutcome = errors.New("record: unknown outcome")
	// ErrNotActive means that this member is not active in its cluster.
	ErrNotActive = errors.New("cluster: member is not active")
	// ErrNoQuorum means that no majority could be reached.
	ErrNoQuorum = errors.New("cluster: no quorate leader")
)

func absentError(key string) error { return fmt.Errorf("%w: %q", ErrAbsent, key) }
