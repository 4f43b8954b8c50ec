// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
)

// Errors of a Store and of its sessions, and causes of the contexts that they pass on.
var (
	// ErrAbsent says that there is no record under a key.
	ErrAbsent = errors.New("record: no record under this key")
	// ErrConflict says that a condition of Commit is false: look at the records and decide
	// again.
	ErrConflict = errors.New("record: condition failed: the records have changed")
	// ErrOwned says that Commit would set a record that another member owns: drop it, and
	// set it when it is gone.
	ErrOwned = errors.New("record: the record belongs to another member")
	// ErrNotHeld says that a session may not act on a record: it does not own it, or not by
	// that token, or the record was revoked or dropped.
	ErrNotHeld = errors.New("record: the record is not held")
	// ErrReleased says that this member asked to change a record that it held.
	ErrReleased = errors.New("record: the record was released")
	// ErrTooLarge says that a commit exceeds a limit of package member, or that the table is
	// full.
	ErrTooLarge = errors.New("record: too large")
	// ErrBusy says that too many commits are in flight: try again.
	ErrBusy = errors.New("record: busy")
	// ErrUnknownOutcome says that the changes may have been made: look at the records, and
	// commit again under the same conditions.
	ErrUnknownOutcome = errors.New("record: the outcome is not known")
	// ErrNotActive says that this member is not an active member of its cluster.
	ErrNotActive = errors.New("cluster: member is not active")
	// ErrNoQuorum says that no majority could be asked.
	ErrNoQuorum = errors.New("cluster: no quorate leader")
)

func absentError(key string) error { return fmt.Errorf("%w: %q", ErrAbsent, key) }
