// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Errors of messages. Package cluster exports each under the same name, and documents
// it there. Those that records or leaders have too are values of their packages.
var (
	// ErrClosed means that the node was closed.
	ErrClosed = leader.ErrClosed
	// ErrNotActive means that a member is not active in the view of this node.
	ErrNotActive = record.ErrNotActive
	// ErrTooLarge means that an event exceeds a limit.
	ErrTooLarge = errors.New("cluster: event is too large")
	// ErrUnknownType means that a value cannot be encoded or has no handler.
	ErrUnknownType = errors.New("cluster: event type is not known")
	// ErrBusy means that a limit on operations in flight was reached.
	ErrBusy = errors.New("cluster: busy: too many operations in flight")
	// ErrNotDelivered means that no handler has seen the event, nor will.
	ErrNotDelivered = errors.New("cluster: not delivered")
	// ErrBadAnswer means that a handler ran and its answer is lost.
	ErrBadAnswer = errors.New("cluster: the answer is lost")
	// ErrUnknownOutcome means that a handler may have run.
	ErrUnknownOutcome = errors.New("cluster: the outcome is not known")
)

// Errors of streams. Each wraps the one of package transport with the same name.
var (
	// ErrStreamClosed means that this node has closed the stream, or this direction.
	ErrStreamClosed = errors.New("cluster: stream is closed")
	// ErrStreamReset means that the other member closed the stream before its end.
	ErrStreamReset = errors.New("cluster: stream was given up by the other member")
	// ErrStreamCut means that the connection of a stream ended before it.
	ErrStreamCut = errors.New("cluster: stream was cut off")
)

// HandlerError means that a handler returned an error or panicked.
type HandlerError struct {
	Member member.Address // whose handler it is
	Text   string         // of the handler's error; the member may send any text
}

// Error returns one short line. Text has the whole text.
func (e *HandlerError) Error() string {
	return fmt.Sprintf("cluster: the handler of %s failed: %s", e.Member, safetext.PeerText(e.Text))
}

// NotLeaderError means that this node, or the node Asked, does not lead. It is a
// leader.ErrNotLeader.
type NotLeaderError struct {
	Asked       member.Address // the node that refused; zero for this node
	Leader      member.Address // as this node sees it; zero if no leader is known
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

// Unwrap lets errors.Is find leader.ErrNotLeader.
func (e *NotLeaderError) Unwrap() error { return leader.ErrNotLeader }

// Result is the result of a Broadcast at one member.
type Result struct {
	To  member.Member
	Err error // nil if the member took the event
}

// BroadcastError means that some active members did not take the event.
type BroadcastError struct {
	// Results has an entry for every member that was active when Broadcast began, in
	// the order of their addresses.
	Results []Result
}

// Error names the members that failed.
func (e *BroadcastError) Error() string {
	var b strings.Builder
	failed := e.Unwrap()
	fmt.Fprintf(&b, "cluster: %d of %d members did not get the event", len(failed), len(e.Results))
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

// remoteError is an error of another member for which this node has a value too.
type remoteError struct {
	text string // as the member sent it
	is   error
}

func (e remoteError) Error() string { return safetext.PeerText(e.text) }
func (e remoteError) Unwrap() error { return e.is }
