// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Output holds the effects of one call. The owner applies them in the order of the fields. If
// it cannot save Persist, it stops the node and applies nothing else.
type Output struct {
	// Persist is what must be on disk, synced, before anything below happens.
	// nil when it did not change.
	Persist *paxos.Durable
	// Send lists what goes out, in order. None is addressed to the node itself.
	Send []Message
	// Probe is a run whose host is to be asked now whether it refuses the port; nil
	// for none. Where it does, Refused is called with it.
	Probe *Probe
	// Answers are those to calls of Commit.
	Answers []RecordResponse
	// Changed is set if View or Records would return something new, Self of a View included,
	// or if this run was asked to change a record that it owns.
	Changed bool
	// Trace tells what was decided, and each refusal with its reason.
	Trace []Trace
	// Stop is set once when the node must end: ErrLeft, ErrAddressInUse,
	// ErrSplitVersion. The machine does nothing after that.
	Stop error
}

// Probe is the leadership of one run.
type Probe struct {
	Leader  member.Identity
	Version uint64
}

// Errors by which a machine ends.
var (
	// ErrLeft means that Leave has finished.
	ErrLeft = errors.New("statemachine: the node has left")
	// ErrAddressInUse means that a later run of a node has this address.
	ErrAddressInUse = errors.New("statemachine: a later run has this address")
	// ErrSplitVersion means that two leaders were chosen for one version, which proves a
	// fault: a lost disk, two configurations, or a bug.
	ErrSplitVersion = errors.New("statemachine: two leaders were chosen for one version")
)

// TraceKind tells the traces apart.
type TraceKind uint8

// The kinds of traces. Dropped and Refused carry a Reason.
const (
	Dropped           TraceKind = iota + 1 // an event was ignored
	Refused                                // a vote or a join was answered with no
	Discovering                            // asks seeds and known members for a leader
	Joining                                // asks Peer for a place
	Follows                                // follows the leader Peer
	BecameProvisional                      // declared itself
	Suspected                              // lost its leader Peer
	Asking                                 // asks voters whether the leader is healthy
	Proposing                              // sent a pre proposal
	ProposingFormal                        // sent a formal proposal
	GaveUpProposal                         // a proposal ended without a leader
	Elected                                // Peer was chosen, counted by this node
	BecameLeader                           // leads Version
	GainedAuthority                        // is quorate from now
	LostAuthority                          // is no longer quorate
	SteppedDown                            // no longer leads
	MemberMoved                            // the leader moved Peer to another status
	Left                                   // has left
	NewRun                                 // forgot a roster that can never elect again
	Overruled                              // left its leader Peer for a better one, unsuspected
	Voted                                  // voted for Peer, the proposer or in the end the leader
	Counted                                // Peer voted for the own proposal
	Missed                                 // a heartbeat of Peer is late
	RecordRevoked                          // the leader revoked a record of Peer
	RecordsEnded                           // the leader dropped the records of Peer, which is silent
	TraceKinds                             // is above them all
)

var traceKindNames = [TraceKinds]string{
	"none", "drops", "refuses", "looks for a leader", "asks for a place", "follows a leader",
	"declares itself", "misses its leader", "asks the voters", "proposes", "proposes formally",
	"gives its proposal up", "counts a majority", "becomes leader", "gains authority",
	"loses authority", "steps down", "moves a member", "has left", "begins anew",
	"is overruled", "votes", "counts a vote", "misses a heartbeat", "revokes a record",
	"ends the records of a member",
}

// String returns what the node does, in the words of docs/scenarios.md.
func (k TraceKind) String() string {
	if k >= TraceKinds {
		return fmt.Sprintf("TraceKind(%d)", uint8(k))
	}
	return traceKindNames[k]
}

// Trace is one decision of the machine. It is no log line: the owner turns it
// into one, the simulator into a history, a test into an assertion.
type Trace struct {
	Kind    TraceKind
	Reason  Reason
	Event   Kind           // of the message that brought it about; 0 for none
	Peer    member.Address // the node that it is about
	Version uint64
	Status  member.Status // of MemberMoved
	// Stage is that of a proposal given up, of a vote given, counted or refused.
	Stage paxos.Stage
	// Chosen is set in a Follows if Peer was chosen, and did not just declare itself.
	Chosen bool
	// Cause is why Peer no longer leads: of Suspected, Overruled and SteppedDown.
	Cause Cause
	// Heard is when the last ack of Peer came: of Suspected and Overruled.
	Heard time.Time
}
