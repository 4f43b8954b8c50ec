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

// Output holds the effects of one call. The owner applies them in the order of the fields. If
// it cannot save Persist, it stops the node and applies nothing else.
type Output struct {
	// Persist is what must be on disk, synced, before anything below happens.
	// nil when it did not change.
	Persist *paxos.Durable
	// Send lists what goes out, in order. None is addressed to the node itself.
	Send []message.Message
	// Probe is a run whose host is to be asked now whether it refuses the port; nil
	// for none. Where it does, Refused is called with it.
	Probe *Probe
	// Answers are those to calls of Commit.
	Answers []message.RecordResponse
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
	Suspected                              // lostVoters its leader Peer
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
	Reason  message.Reason
	Event   message.Kind   // of the message that brought it about; 0 for none
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

// drop ignores an event; every place that ignores one comes through here.
func (m *Machine) drop(in message.Message, reason message.Reason) {
	m.trace(Trace{Kind: Dropped, Reason: reason, Event: in.Body.Kind(), Peer: in.From.Address})
}

// refuse notes that an event is answered with no.
func (m *Machine) refuse(in message.Message, reason message.Reason) {
	m.trace(Trace{Kind: Refused, Reason: reason, Event: in.Body.Kind(), Peer: in.From.Address})
}

func (m *Machine) trace(t Trace) {
	if t.Version == 0 {
		t.Version = m.shownState().Version
	}
	m.out.Trace = append(m.out.Trace, t)
}

// Cause is why a leader no longer leads, as far as this node knows. It is for people: no
// rule depends on it.
type Cause uint8

// The causes. Those of a conflict are the rules of protocol.md section 7, in their
// order.
const (
	CauseNone     Cause = iota
	CauseCrash          // its host refused its port, or a later run of it was heard
	CauseSilence        // nothing came from it for LeaderTimeout
	CauseHandOver       // an operator made it leave, hand over or drain
	CauseLease          // a majority did not answer it, so its lease ran out
	CauseOutvoted       // another was elected before this node had missed it
	CauseChosen         // conflict: it was provisional, the other one chosen
	CauseVersion        // conflict: the other one has a later version
	CauseAddress        // conflict: the other one has the greater address
	Causes              // is above them all
)

var causeNames = [Causes]string{
	"none", "crash", "silence", "hand-over", "lease lost", "outvoted",
	"conflict: chosen", "conflict: version", "conflict: address",
}

// String is the cause in words.
func (c Cause) String() string {
	if c >= Causes {
		return fmt.Sprintf("Cause(%d)", uint8(c))
	}
	return causeNames[c]
}

// conflictCause is the rule by which better wins against c (protocol.md section 7).
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
