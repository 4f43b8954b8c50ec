// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/member"
)

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

// NotLeaderError means that this node, or the node Asked, does not lead its cluster. It
// is an ErrNotLeader.
type NotLeaderError struct {
	Asked       member.Address // the node that refused; zero for this node
	Leader      member.Address // as this node sees it, perhaps itself; zero if it knows none
	Provisional bool           // Leader declared itself, and has no authority to hand over
}

// Error says what to do.
func (e *NotLeaderError) Error() string {
	switch {
	case !e.Asked.IsZero():
		return fmt.Sprintf("cluster: %s does not lead", e.Asked)
	case e.Leader.IsZero():
		return "cluster: this node does not lead, and no leader is known; try again later"
	case e.Provisional:
		return fmt.Sprintf("cluster: no leader has authority yet: %s leads provisionally; "+
			"wait until a leader is chosen (WaitLeader)", e.Leader)
	default:
		return fmt.Sprintf("cluster: this node does not lead; ask %s", e.Leader)
	}
}

// Unwrap lets errors.Is find ErrNotLeader.
func (e *NotLeaderError) Unwrap() error { return ErrNotLeader }

// errPanicked stands for the error of a function that did not return.
var errPanicked = errors.New("athena: the function panicked or ended its goroutine")
