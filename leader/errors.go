// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/member"
)

// Errors of this package. Use errors.Is to test for them in returned errors and in the causes of
// the contexts of functions.
var (
	// ErrClosed means that the Candidate, its node or its store is closed. A closed Candidate cannot
	// be reopened.
	ErrClosed = errors.New("athena: closed")
	// ErrNotLeader means that this process does not lead.
	ErrNotLeader = errors.New("athena: this process does not lead")
	// ErrNoLeader means that no leader is known.
	ErrNoLeader = errors.New("athena: no process leads")
	// ErrResigned is the cause if this process gave up the term: by Resign, because its work failed,
	// or because its node handed over leadership.
	ErrResigned = errors.New("athena: leadership was given up")
	// ErrLeaseEnded is the cause if the lease of the term was not extended in time.
	ErrLeaseEnded = errors.New("athena: lease ended")
	// ErrSuperseded is the cause if the leader of the term was lost or replaced.
	ErrSuperseded = errors.New("athena: leader was lost or replaced")
	// ErrDisabled is the cause if the member that led was disabled.
	ErrDisabled = errors.New("athena: the member was disabled")
	// ErrRunning means that WhileLeader or Do is already running on this Candidate.
	ErrRunning = errors.New("athena: this candidate already runs a function")
)

// NotLeaderError means that this node, or the node Asked, does not lead its cluster. It
// wraps ErrNotLeader.
type NotLeaderError struct {
	Asked       member.Address // the node that refused; zero for this node
	Leader      member.Address // the known leader, which may be this node; zero if none
	Provisional bool           // Leader declared itself and cannot hand over authority
}

// Error returns the reason and the remedy.
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

// Unwrap returns ErrNotLeader.
func (e *NotLeaderError) Unwrap() error { return ErrNotLeader }

// errPanicked is the result of a function that panicked or ended its goroutine.
var errPanicked = errors.New("athena: the function panicked or ended its goroutine")
