// SPDX-License-Identifier: Apache-2.0

package leader

import "errors"

// Errors of leading. errors.Is finds them in what methods return, and in the causes of the
// contexts that functions get.
var (
	// ErrClosed says that the Candidate was closed, or what it stands on: its node, its
	// store. It will not open again.
	ErrClosed = errors.New("athena: closed")
	// ErrNotLeader says that this process does not lead.
	ErrNotLeader = errors.New("athena: this process does not lead")
	// ErrNoLeader says that no process leads, as far as this one knows.
	ErrNoLeader = errors.New("athena: no process leads")
	// ErrResigned is the cause of a term that this process gave up: by Resign, because
	// its work failed, or because its node hands leadership over.
	ErrResigned = errors.New("athena: leadership was given up")
	// ErrLeaseEnded is the cause of a term whose lease was not extended in time.
	ErrLeaseEnded = errors.New("athena: lease ended")
	// ErrSuperseded is the cause of a term whose leader was lost or replaced.
	ErrSuperseded = errors.New("athena: leader was lost or replaced")
	// ErrDisabled is the cause of a term of a member that was disabled.
	ErrDisabled = errors.New("athena: the member was disabled")
	// ErrRunning says that WhileLeader or Do of this Candidate runs already.
	ErrRunning = errors.New("athena: this candidate runs a function already")
)

// errPanicked stands for the error of a function that did not return.
var errPanicked = errors.New("athena: the function panicked or ended its goroutine")
