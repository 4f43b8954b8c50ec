// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// Errors of a node. errors.Is finds them in what its methods return, and as
// the cause of contexts that they pass on.
var (
	// ErrClosed says that the node was closed.
	ErrClosed = errors.New("cluster: node is closed")
	// ErrLeft says that the node has left the cluster on purpose.
	ErrLeft = errors.New("cluster: node has left; start a new one to come back")
	// ErrNoQuorum says that there is no quorate leader: start more members, or
	// look why they cannot reach each other.
	ErrNoQuorum = errors.New("cluster: no quorate leader")
	// ErrNotActive says that a member is not active in the view of this node.
	ErrNotActive = errors.New("cluster: member is not active")
	// ErrTooLarge says that an event exceeds MaxEventBytes: send a reference
	// to bulk data in its place.
	ErrTooLarge = errors.New("cluster: event is too large")
	// ErrUnknownType says that a value cannot travel: its type has no name of
	// its own, or no encoding.
	ErrUnknownType = errors.New("cluster: event type cannot be sent")
	// ErrBusy says that MaxSending sends are under way: members are slow to
	// take events, so send less.
	ErrBusy = errors.New("cluster: too many sends under way")
	// ErrAddressInUse says that another process listens on Addr, or that a
	// later run of a node has this node's address.
	ErrAddressInUse = errors.New("cluster: address is in use")
	// ErrSplitVersion says that two leaders were chosen for one version, which
	// proves a fault: a lost disk, two configurations, or a bug.
	ErrSplitVersion = errors.New("cluster: two leaders were chosen for one version")
	// ErrRosterLost says that so many members lost their stores that the
	// roster can never elect a leader again: bring the lost stores back, or start
	// over with empty ones, whose tokens begin at 1 again.
	ErrRosterLost = errors.New("cluster: too many members lost their stores to elect a leader")
	// ErrLeaseEnded is the cause of a term that ran out of its lease.
	ErrLeaseEnded = errors.New("cluster: lease ended")
	// ErrSuperseded is the cause of a term whose leader was lost or replaced.
	ErrSuperseded = errors.New("cluster: leader was lost or replaced")
	// ErrNotElected says that a member that was to take over was not elected,
	// and this node leads again.
	ErrNotElected = errors.New("cluster: the other member was not elected; this node leads again")
	// ErrHandedOver is the cause of a term given up by Transfer, Drain or Leave.
	ErrHandedOver = errors.New("cluster: leadership is handed over")
)

// NotLeaderError says that this node does not lead, and who does.
type NotLeaderError struct {
	Leader member.Address // zero when nobody does, as far as this node knows
}

// Error implements error.
func (e *NotLeaderError) Error() string {
	if e.Leader.IsZero() {
		return "cluster: this node does not lead, and nobody is known to; try again later"
	}
	return fmt.Sprintf("cluster: this node does not lead; ask %s", e.Leader)
}

// ConfigMismatchError says that another node refused this one, or was refused,
// because of a difference in their configuration.
type ConfigMismatchError = transport.ConfigMismatchError

// JoinError says why Start gave up: whom the node asked, and what they said.
type JoinError struct {
	Cause error // of the context's end, or the reason to give up before it
	Asked []Answer
}

// Answer is the last that was heard from a node while joining.
type Answer struct {
	From member.Address
	Err  error
}

// Error implements error.
func (e *JoinError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: could not join: %v", e.Cause)
	for _, a := range e.Asked {
		fmt.Fprintf(&b, "\n\t%s: %v", a.From, a.Err)
	}
	return b.String()
}

// Unwrap gives the cause and all answers to errors.Is and errors.As.
func (e *JoinError) Unwrap() []error {
	all := []error{e.Cause}
	for _, a := range e.Asked {
		all = append(all, a.Err)
	}
	return all
}
