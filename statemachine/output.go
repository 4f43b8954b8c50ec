// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Output is what the owner must do after a call, in the order of the fields. If the owner cannot
// save Persist, it stops the node and applies nothing else.
type Output struct {
	// Persist must be saved and synced before anything below happens; the owner then calls NoteSaved.
	// It is nil if nothing changed.
	Persist *paxos.Durable
	// Send lists the messages to send, in order. None is addressed to the node itself.
	Send []message.Message
	// If Probe is not nil, the owner now sends a packet to the host of that leader. If the host
	// refuses the port, the owner calls Refused with Probe.
	Probe *Probe
	// Request is the request that this call of Commit made, for the history of a run.
	Request *message.RecordRequest
	// Answers are the results of this call or earlier calls of Commit.
	Answers []message.RecordResponse
	// Relayed lists messages to workers that follow this member. Those that it does not know are lost.
	Relayed []message.Message
	// Changed is set if View (including View.Self) or Records would return something new. It is also
	// set if a caller asked to change a record that this run owns.
	Changed bool
	// Trace lists the decisions made, and each refusal with its reason.
	Trace []Trace
	// Stop is set once, when the node must stop: ErrLeft, ErrStopped, ErrAddressInUse or
	// ErrSplitVersion. The machine does nothing after that.
	Stop error
}

// Probe identifies a leader to be probed.
type Probe struct {
	Leader  member.Identity
	Version uint64
}

// Values of Output.Stop.
var (
	// ErrLeft means that Leave has completed.
	ErrLeft = errors.New("statemachine: the node has left")
	// ErrStopped means that StopLeading was called.
	ErrStopped = errors.New("statemachine: the node has stopped")
	// ErrAddressInUse means that a later run has joined under this address.
	ErrAddressInUse = errors.New("statemachine: a later run has this address")
	// ErrSplitVersion means that two leaders were chosen for one version. This proves a fault: a lost
	// disk, two configurations, or a bug.
	ErrSplitVersion = errors.New("statemachine: two leaders were chosen for one version")
)

// TraceKind is the kind of a Trace.
type TraceKind uint8

// The trace kinds. Dropped and Refused carry a Reason.
const (
	Dropped           TraceKind = iota + 1 // a message was ignored
	Refused                                // a vote, a join or another request was refused
	Discovering                            // asks seeds and known members for a leader
	Joining                                // asks Peer for a place
	Follows                                // follows the leader Peer
	BecameProvisional                      // declared itself
	Suspected                              // considers its leader Peer lost
	Asking                                 // asks the voters whether the leader is healthy
	Proposing                              // sent a pre proposal
	ProposingFormal                        // sent a formal proposal
	GaveUpProposal                         // gave up a proposal
	Elected                                // counted a majority for Peer
	BecameLeader                           // leads Version
	GainedAuthority                        // became quorate
	LostAuthority                          // is no longer quorate
	SteppedDown                            // no longer leads
	MemberMoved                            // the leader moved Peer to another status
	Left                                   // has left
	NewRun                                 // discarded a roster that can never elect again
	Overruled                              // left its leader Peer, not suspected, for a better one
	Voted                                  // voted for Peer: proposer (pre) or candidate (formal)
	Counted                                // counted the vote of Peer for its own proposal
	Missed                                 // a heartbeat of Peer is late
	RecordRevoked                          // the leader revoked a record of Peer
	RecordsEnded                           // the leader dropped the records of a silent Peer
	Raised                                 // the leader must exceed Version, to which Peer is bound
	Replaced                               // the leader gave the place of Peer to another store
	SeatKept                               // the leader keeps the seat of Peer, though a joiner waits
	Postponed                              // Peer led for a short time and is not preferred for Left
	FoundCopy                              // the store of Peer was restored from a copy
	FoundLater                             // Peer holds a later state than the leader with authority
	TraceKinds                             // the number of kinds
)

var traceKindNames = [TraceKinds]string{
	"none", "drops", "refuses", "looks for a leader", "asks for a place", "follows a leader",
	"declares itself", "misses its leader", "asks the voters", "proposes", "proposes formally",
	"gives its proposal up", "counts a majority", "becomes leader", "gains authority",
	"loses authority", "steps down", "moves a member", "has left", "starts a new run",
	"is overruled", "votes", "counts a vote", "misses a heartbeat", "revokes a record",
	"ends the records of a member", "must exceed a version", "gives a place to another store",
	"keeps a seat", "postpones a hand-over", "finds a restored copy",
	"finds a later state than the leader's",
}

// String returns the name that test/scenarios.md uses.
func (k TraceKind) String() string {
	if k >= TraceKinds {
		return fmt.Sprintf("TraceKind(%d)", uint8(k))
	}
	return traceKindNames[k]
}

// Trace records one decision. The owner turns it into log lines, the simulator into a history,
// tests into assertions.
type Trace struct {
	Kind    TraceKind
	Reason  message.Reason
	Event   message.Kind   // the message that caused it; 0 for none
	Peer    member.Address // the node concerned
	Version uint64
	Status  member.Status // the new status in MemberMoved
	// Stage is the stage of a proposal that was given up, or of a vote that was given, counted or
	// refused.
	Stage paxos.Stage
	// Chosen is set in Follows if Peer is a chosen leader rather than a provisional one.
	Chosen bool
	// Cause is why Peer no longer leads, in Suspected, Overruled and SteppedDown.
	Cause Cause
	// Heard is when the last ack from Peer arrived, in Suspected and Overruled.
	Heard time.Time
	// Left is how long the seat of Peer is still kept, in SeatKept, or Peer is not preferred, in
	// Postponed.
	Left time.Duration
}

// drop traces an ignored message. Every ignored message is traced here.
func (m *Machine) drop(in message.Message, reason message.Reason) {
	m.trace(Trace{Kind: Dropped, Reason: reason, Event: in.Body.Kind(), Peer: in.From.Address})
}

// refuse traces a refusal of a message.
func (m *Machine) refuse(in message.Message, reason message.Reason) {
	m.trace(Trace{Kind: Refused, Reason: reason, Event: in.Body.Kind(), Peer: in.From.Address})
}

func (m *Machine) trace(t Trace) {
	if t.Version == 0 {
		t.Version = m.shownState().Version
	}
	m.out.Trace = append(m.out.Trace, t)
}

// Cause is why a leader no longer leads, as far as this node knows. It is informational: no rule
// depends on it.
type Cause uint8

// The causes. The causes of a conflict are in the order of the rules in protocol.md 7.
const (
	CauseNone     Cause = iota
	CauseCrash          // the host refused the leader's port, or a later run of it sent a message
	CauseSilence        // no ack for LeaderTimeout
	CauseReplaced       // another store answers at the leader's address, and the leader was silent
	CauseHandOver       // it was asked to leave, hand over or drain, or it stopped
	CauseLease          // no majority answered it, so its lease expired
	CauseOutvoted       // another leader was elected although this node did not suspect its own
	CauseChosen         // conflict: it was provisional and the other leader chosen
	CauseVersion        // conflict: the other leader has a later version
	CauseAddress        // conflict: the other leader has the greater address
	Causes              // the number of causes
)

var causeNames = [Causes]string{
	"none", "crash", "silence", "replaced", "hand-over", "lease lost", "outvoted",
	"conflict: chosen", "conflict: version", "conflict: address",
}

// String returns the cause in words.
func (c Cause) String() string {
	if c >= Causes {
		return fmt.Sprintf("Cause(%d)", uint8(c))
	}
	return causeNames[c]
}

// conflictCause returns the rule by which the better claim takes precedence over c (protocol.md 7).
func conflictCause(c, better member.Claim) Cause {
	switch {
	case c.Chosen != better.Chosen:
		return CauseChosen
	case c.Version != better.Version:
		return CauseVersion
	default:
		return CauseAddress
	}
}
