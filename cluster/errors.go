// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/transport"
)

// Errors of a node. errors.Is finds them in what its methods return, and as
// the cause of contexts that they pass on.
var (
	// ErrClosed says that the node was closed.
	ErrClosed = leader.ErrClosed
	// ErrLeft says that the node has left the cluster on purpose.
	ErrLeft = errors.New("cluster: node has left; start a new one to come back")
	// ErrNoQuorum says that there is no quorate leader: start more members, or
	// look why they cannot reach each other.
	ErrNoQuorum = record.ErrNoQuorum
	// ErrNotActive says that a member is not active in the view of this node.
	ErrNotActive = record.ErrNotActive
	// ErrTooLarge means that an event exceeds MaxEventBytes or MaxEventValues (send bulk
	// data by OpenStream, and many small values as one []byte), an event of BestEffort
	// MaxBestEffortBytes, metadata the limits of WithMetadata, or the name of a stream
	// with its metadata 4 KiB.
	ErrTooLarge = messaging.ErrTooLarge
	// ErrUnknownType means that a value cannot be sent, because its type has no name of
	// its own or no encoding; that the receiving member has no handler for the event or
	// stream; or that the event does not decode into its type of that name. Unknown
	// fields are ignored and missing fields are zero.
	ErrUnknownType = messaging.ErrUnknownType
	// ErrBusy means that members take events too slowly: send fewer. It is returned
	// immediately while MaxSending sends are in flight, when the context ends while
	// 65,536 outcomes are pending, and by a member whose queue is full, under
	// receiver.Reject or receiver.Drop, or that runs too many handlers of streams. The
	// text tells which.
	ErrBusy = messaging.ErrBusy
	// ErrNotDelivered means that no handler has seen the event, nor will.
	ErrNotDelivered = messaging.ErrNotDelivered
	// ErrBadAnswer means that the handler of a request returned an answer that is lost:
	// it is too large, has no encoding, or does not decode into the type asked for.
	// Unknown fields are ignored and missing fields are zero.
	ErrBadAnswer = messaging.ErrBadAnswer
	// ErrUnknownOutcome means that a handler may have seen the event, and may still run.
	ErrUnknownOutcome = messaging.ErrUnknownOutcome
	// ErrAddressInUse says that another process listens on Addr, or that a
	// later run of a node has this node's address.
	ErrAddressInUse = errors.New("cluster: address is in use")
	// ErrSplitVersion says that two leaders were chosen for one version, which
	// proves a fault: a lost disk, two configurations, or a bug.
	ErrSplitVersion = errors.New("cluster: two leaders were chosen for one version")
	// ErrRosterLost says that so many members lost their stores that the
	// roster can never elect a leader again: bring the lost stores back, or stop all
	// nodes and let each store that is left forget it (athena recover, or Forget of
	// store.File): the tokens of the new cluster begin at 1 again.
	ErrRosterLost = errors.New("cluster: too many members lost their stores to elect a leader")
	// ErrNotElected says that a member that was to take over was not elected,
	// and this node leads again.
	ErrNotElected = errors.New("cluster: the other member was not elected; this node leads again")
)

// HandlerError means that the handler of another member, or of this one, returned an
// error or panicked.
type HandlerError = receiver.HandlerError

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

// NotLeaderError means that this node, or another that was asked, does not lead.
type NotLeaderError = leader.NotLeaderError

// ConfigMismatchError says that another node refused this one, or was refused,
// because of a difference in their configuration.
type ConfigMismatchError = transport.ConfigMismatchError

// StoreMismatchError says that a store was made for another cluster, another
// Size or another address than the configuration names. Nothing was sent, and
// the store is as it was.
//
// A node that took it all the same could break what its votes promised. Size
// says how many must agree: two of three nodes that restart as clusters of one
// would lead side by side. The address is half of a voter (protocol.md section
// 1), so a vote is worth nothing elsewhere, and a directory that was copied
// while its node runs would make two members of one store id. So a node moves
// by leaving its store behind.
type StoreMismatchError struct {
	Dir   string      // Config.DataDir
	Made  StoreOrigin // what the store was made for
	Given StoreOrigin // what the configuration says
}

// StoreOrigin is what a store was made for. What a node promised counts there alone.
type StoreOrigin struct {
	Cluster string // name of the cluster
	Size    int    // of the full cluster
	Address member.Address
}

// Error names each difference with both values and what to do.
func (e *StoreMismatchError) Error() string {
	return "cluster: " + e.Text(func(field string) string { return field })
}

// Text is Error with other names for the fields of Config that it mentions.
func (e *StoreMismatchError) Text(name func(field string) string) string {
	var b strings.Builder
	b.WriteString("the store was made for something else")
	if e.Dir != "" {
		fmt.Fprintf(&b, ": %s", e.Dir)
	}
	differ := func(field string, made, given any, advice string) {
		if made != given {
			fmt.Fprintf(&b, "\n%s %v: the store was made for %v: %s", field, given, made, advice)
		}
	}
	const anew = "on every node make a new cluster, whose tokens begin at 1 again"
	differ(name("Cluster"), strconv.Quote(e.Made.Cluster), strconv.Quote(e.Given.Cluster),
		"start with that name; empty data directories "+anew)
	differ(name("Size"), e.Made.Size, e.Given.Size,
		"a cluster keeps its size for the life of its stores: start with that one; "+
			"empty data directories "+anew)
	differ(name("Advertise"), e.Made.Address, e.Given.Address,
		"its vote counts at that address alone: start there; with an empty data directory the node "+
			"comes in as a new member (a seed where nobody leads needs "+name("JoinOnly")+
			", until it has joined)")
	return b.String()
}

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
func (e *JoinError) Error() string { return "cluster: " + e.Text(error.Error) }

// Text is Error with other words for the answers: answer returns those for one of them.
func (e *JoinError) Text(answer func(error) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "could not join: %v", e.Cause)
	for _, a := range e.Asked {
		// Each difference in their configurations is a line.
		fmt.Fprintf(&b, "\n\t%s: %s", a.From, strings.ReplaceAll(answer(a.Err), "\n", "\n\t\t"))
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
