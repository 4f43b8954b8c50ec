// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/transport"
)

// The errors of a node. The errors of its methods and the causes of its contexts wrap them.
var (
	// ErrClosed means that the node was closed.
	ErrClosed = leader.ErrClosed
	// ErrLeft means that the node has left the cluster (Node.Leave).
	ErrLeft = errors.New("cluster: node has left the cluster; start it again to rejoin")
	// ErrNoQuorum means that there is no quorate leader. Start more members, or find out why they
	// cannot reach each other.
	ErrNoQuorum = record.ErrNoQuorum
	// ErrNotActive means that a member is not active in the view of this node.
	ErrNotActive = record.ErrNotActive
	// ErrTooLarge means that a limit was exceeded. Events are limited by MaxEventBytes and
	// MaxEventValues, and with BestEffort by MaxBestEffortBytes. WithMetadata documents the limits of
	// metadata. The name of a stream and its metadata are limited to 4 KiB in total. Send large data
	// over a stream (OpenStream), and many small values as one []byte.
	ErrTooLarge = messaging.ErrTooLarge
	// ErrUnknownType means that the type of a value has no name or no encoding, that a value is nested
	// more than 8 levels deep, or that the receiving member has no handler for the event or stream. It
	// may also mean that the member cannot decode the event into its own type of that name. Unknown
	// fields are ignored and missing fields are zero.
	ErrUnknownType = messaging.ErrUnknownType
	// ErrBusy means that events are sent faster than members handle them: send fewer. Send returns it
	// immediately if MaxSending sends are in flight. If 65,536 outcomes are pending, Send waits, and
	// returns ErrBusy when ctx is done. A member returns it if its queue is full and has the policy
	// receiver.Reject or receiver.Drop, or if too many of its stream handlers run. The text of the
	// error names the reason.
	ErrBusy = messaging.ErrBusy
	// ErrNotDelivered means that no handler has received or will receive the event.
	ErrNotDelivered = messaging.ErrNotDelivered
	// ErrBadAnswer means that the handler of a request ran, but its answer is lost: it is too
	// large, has no encoding, or does not decode into the caller's type. Unknown fields are
	// ignored and missing fields are zero.
	ErrBadAnswer = messaging.ErrBadAnswer
	// ErrUnknownOutcome means that a handler may have received the event and may still run.
	ErrUnknownOutcome = messaging.ErrUnknownOutcome
	// ErrStreamClosed means that this node has closed the stream or this direction of it.
	ErrStreamClosed = messaging.ErrStreamClosed
	// ErrStreamReset means that the other member closed the stream early: its handler failed or
	// returned before it had read everything, or the opener called Close without CloseWrite. After a
	// Write has failed with ErrStreamReset, Read may still return data that the handler has written,
	// such as the reason.
	ErrStreamReset = messaging.ErrStreamReset
	// ErrStreamCut means that the connection was lost before the stream ended. It is unknown how
	// much the other member has read.
	ErrStreamCut = messaging.ErrStreamCut
	// ErrAddressInUse means that another process listens on Addr, or that a later run of a
	// node has this node's address.
	ErrAddressInUse = errors.New("cluster: address is in use")
	// ErrSplitVersion means that two leaders were chosen for one version, which proves a fault: a
	// lost disk, inconsistent configurations, or a bug.
	ErrSplitVersion = errors.New("cluster: two leaders were chosen for one version")
	// ErrRosterLost means that so many members have lost their stores that the roster can never
	// elect a leader again. Restore the lost stores, or stop all nodes and run athena recover (or
	// call Forget of store.File) on each remaining store. The tokens of the new cluster are above all
	// that these stores know.
	ErrRosterLost = errors.New("cluster: no leader can be elected: too many members lost their stores")
	// ErrNotElected means that the designated successor was not elected and this node leads again.
	ErrNotElected = errors.New("cluster: no successor was elected; this node leads again")
)

// HandlerError means that the handler of an event or request returned an error or panicked.
type HandlerError = receiver.HandlerError

// NotLeaderError means that this node, or the node to which it sent a request, does not lead.
type NotLeaderError = leader.NotLeaderError

// ConfigMismatchError means that two nodes refused each other because their configurations
// differ.
type ConfigMismatchError = transport.ConfigMismatchError

// Result is the result of a Broadcast at one member.
type Result struct {
	To  member.Member
	Err error // nil if the event was accepted for this member
}

// BroadcastError means that some active members did not accept the event.
type BroadcastError struct {
	// Results has an entry for each member that was active when Broadcast began, sorted by
	// address.
	Results []Result
}

// Error names the members that did not accept the event.
func (e *BroadcastError) Error() string {
	var b strings.Builder
	failed := e.Unwrap()
	fmt.Fprintf(&b, "cluster: %d of %d members did not receive the event", len(failed), len(e.Results))
	for _, r := range e.Results {
		if r.Err != nil {
			fmt.Fprintf(&b, "\n\t%s: %v", r.To.Address, r.Err)
		}
	}
	return b.String()
}

// Unwrap returns the errors of the members.
func (e *BroadcastError) Unwrap() []error {
	var failed []error
	for _, r := range e.Results {
		if r.Err != nil {
			failed = append(failed, r.Err)
		}
	}
	return failed
}
