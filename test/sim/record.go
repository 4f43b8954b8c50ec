// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/statemachine"
)

// RecordKind is the kind of a Record.
type RecordKind uint8

// The kinds of records.
const (
	Started      RecordKind = iota + 1 // a process started
	Crashed                            // a process died
	Waiting                            // a process waits until its earlier promises have expired
	Ended                              // a process stopped by itself
	DiskLost                           // a store was lost
	DiskRestored                       // a store was replaced by an earlier copy
	Paused                             // a process froze
	Resumed                            // a process continued
	WallClockSet                       // a process noticed that its wall clock was set forward
	Saving                             // a save takes time
	Ordered                            // an operator gave a command
	Network                            // the network changed
	Sent                               // a process sent a message
	Lost                               // a message will never arrive
	Delivered                          // a message arrived
	Traced                             // a machine made a decision
	Phase                              // the next phase of the run began
	Broke                              // an invariant broke
	Stepped                            // a process made a step; see Record.Step
)

var recordKindNames = [...]string{
	"", "started", "crashed", "waits", "ended", "lost its disk",
	"gets an earlier copy of its disk", "paused", "resumed",
	"sees its wall clock set", "saves", "ordered to",
	"network", "sends", "loses", "gets", "trace", "phase", "broke", "steps",
}

// String returns the name of the kind in printed records.
func (w RecordKind) String() string { return recordKindNames[w] }

// Record is one line of the history of a run.
type Record struct {
	At      time.Duration // global time
	Process int           // the process concerned, or -1
	From    int           // sender of a Delivered message
	Kind    RecordKind
	Message message.Message    // set for Sent, Lost and Delivered
	Trace   statemachine.Trace // set for Traced
	Step    *steplog.Step      // set for Stepped
	Text    string
}

// IsPeriodic reports whether the record is about a periodic message: a keep-alive or its
// acknowledgement.
func (r Record) IsPeriodic() bool {
	switch r.Kind {
	case Sent, Lost, Delivered:
	default:
		return false
	}
	switch r.Message.Body.Kind() {
	case message.KindLeaderKeepAlive, message.KindLeaderKeepAliveAck,
		message.KindSeedKeepAlive, message.KindSeedKeepAliveAck:
		return true
	default:
		return false
	}
}

// String returns a line for readers; docs/simulation.md explains it.
func (r Record) String() string {
	who := "-"
	if r.Process >= 0 {
		who = nameOf(r.Process)
	}
	head := fmt.Sprintf("%12.6f %-4s %-9s ", r.At.Seconds(), who, r.Kind)
	switch r.Kind {
	case Sent, Lost:
		return head + fmt.Sprintf("to %s %s", r.Message.To.Host, formatMessage(r.Message))
	case Delivered:
		return head + fmt.Sprintf("from %s %s", r.Message.From.Address.Host, formatMessage(r.Message))
	case Traced:
		return fmt.Sprintf("%12.6f %-4s %s", r.At.Seconds(), who, formatDecision(r.Trace))
	default:
		return head + r.Text
	}
}

// formatDecision returns a decision of a machine in one line.
func formatDecision(t statemachine.Trace) string {
	switch t.Kind {
	case statemachine.Dropped, statemachine.Refused:
		return fmt.Sprintf("%v %v of %s: %v", t.Kind, t.Event, t.Peer.Host, t.Reason)
	case statemachine.MemberMoved:
		return fmt.Sprintf("moves %s to %v, version %d", t.Peer.Host, t.Status, t.Version)
	}
	line := t.Kind.String()
	if t.Reason != message.ReasonNone {
		line += fmt.Sprintf(" (%v)", t.Reason)
	}
	if !t.Peer.IsZero() {
		line += ": " + t.Peer.Host
	}
	return line + fmt.Sprintf(", version %d", t.Version)
}

// formatMessage returns a message in one line, with states shown by their numbers.
func formatMessage(m message.Message) string {
	head := fmt.Sprintf("%v [#%d claim %v]", m.Body.Kind(), m.From.Incarnation, m.Claim)
	switch b := m.Body.(type) {
	case message.Proposal:
		return head + fmt.Sprintf(" %v %v held %v base %v value %s",
			b.Stage, b.ID, b.Held, b.Base, formatState(b.State))
	case message.Vote:
		return head + fmt.Sprintf(" %v %v granted=%v %v promised %v accepted %v held %v",
			b.Stage, b.ID, b.Granted, b.Reason, b.Promised, b.Accepted.ID, b.Held)
	case message.LeaderElected:
		return head + fmt.Sprintf(" %v %s", b.ID, formatState(b.State))
	case message.ClusterAlignment:
		return head + " " + formatState(b.State)
	default:
		return head + fmt.Sprintf(" %+v", b)
	}
}

// emitRecord passes a record to the callback, if there is one.
func (c *Cluster) emitRecord(r Record) {
	if c.setup.Record != nil {
		r.At = c.Now()
		c.setup.Record(r)
	}
}

// noteProcess records an event of a process.
func (c *Cluster) noteProcess(p *process, w RecordKind, text string) {
	c.mixHash(uint64(c.now) ^ uint64(p.index)<<56 ^ uint64(w)<<48)
	if c.setup.Record == nil {
		return
	}
	if w == Started {
		text = fmt.Sprintf("as %v, holds %s", p.identity(), formatState(p.store.Held))
	}
	c.emitRecord(Record{Process: p.index, Kind: w, Text: text})
}

// noteRun records an event of the run.
func (c *Cluster) noteRun(w RecordKind, format string, args ...any) {
	c.mixHash(uint64(c.now) ^ uint64(w)<<48)
	if c.setup.Record != nil {
		c.emitRecord(Record{Process: -1, Kind: w, Text: fmt.Sprintf(format, args...)})
	}
}

// recordTraces records the decisions of a machine.
func (c *Cluster) recordTraces(p *process, traces []statemachine.Trace) {
	for _, t := range traces {
		c.mixHash(uint64(t.Kind) ^ uint64(t.Reason)<<8 ^ uint64(t.Event)<<16 ^ t.Version<<24)
		c.check.checkTrace(p, t)
		c.noteTraceReached(t)
		if c.onTrace != nil {
			c.onTrace(p.index, t)
		}
		c.emitRecord(Record{Process: p.index, Kind: Traced, Trace: t})
	}
}
