// SPDX-License-Identifier: Apache-2.0

// Package steplog describes a run as a list of steps, one JSON object per line. A step contains the
// input of a node, and what the node saved, sent and relied on. The specification in spec/ checks
// such histories.
package steplog

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// The events of steps.
const (
	Setup   = "setup"   // the first line: the configuration of the cluster
	Start   = "start"   // a run began, with the stored content in Saved
	Crash   = "crash"   // the process died; its last save may have taken effect
	Deliver = "message" // Message arrived
	Time    = "time"    // a deadline was reached
	Order   = "order"   // a caller made a request
	Refusal = "refusal" // the host of Probe.Leader refused a connection
)

// Step is one turn of a node.
type Step struct {
	Event string
	Node  member.Identity `json:",omitzero"` // before the step
	// At is when a real process wrote the step, by a clock that all processes share.
	At int64 `json:",omitempty"`
	// Clock is the reading of the node's clock, in nanoseconds.
	Clock int64 `json:",omitempty"`
	// Woke is set if the node found, before the step, that its clock may have stood still.
	Woke    bool                   `json:",omitempty"`
	Message *Message               `json:",omitempty"`
	Probe   *statemachine.Probe    `json:",omitempty"`
	Request *message.RecordRequest `json:",omitempty"` // of an Order
	Config  *Config                `json:",omitempty"` // set for Setup and Start

	Saved       *Durable                 `json:",omitempty"` // saved before any output below was sent
	Sent        []Message                `json:",omitempty"`
	Ignored     []Ignored                `json:",omitempty"`
	SteppedDown []uint64                 `json:",omitempty"` // versions that it stopped leading
	Answers     []message.RecordResponse `json:",omitempty"`
	Down        bool                     `json:",omitempty"` // the node died or stopped in this step

	// The node has authority as the leader of Version until Until by its clock. Version and Until are
	// zero without authority.
	Version uint64 `json:",omitempty"`
	Until   int64  `json:",omitempty"`
	// Trusted lists the records that the node may act on as their owner.
	Trusted []Trust `json:",omitempty"`
}

// Ignored is a message, or a part of one, that had no effect.
type Ignored struct{ Kind, Reason string }

// Trust is the trust of an owner in a record.
type Trust struct {
	Key   string
	Token member.Token
	Until int64
}

// Config is the configuration of a cluster or of a run.
type Config struct {
	// Size and TrustRefusal are set in Setup, and by real processes in Start.
	Size         int              `json:",omitempty"`
	Seeds        []member.Address `json:",omitempty"`
	TrustRefusal bool             `json:",omitempty"`
	Timings      message.Timings
	OtherTimings message.Timings `json:",omitzero"`
	JoinOnly     bool            `json:",omitempty"`
	Volatile     bool            `json:",omitempty"`
	// Waited is how long the process waited before the run, for promises of the previous run.
	Waited time.Duration `json:",omitempty"`
}

// Add adds the output of the machine after a step. sent is the number of messages in the output
// that were sent.
func (s *Step) Add(out statemachine.Output, sent int) {
	if out.Persist != nil {
		saved := Durable(*out.Persist)
		s.Saved = &saved
	}
	for _, m := range out.Send[:sent] {
		s.Sent = append(s.Sent, Message(m))
	}
	s.Request, s.Answers = out.Request, out.Answers
	for _, t := range out.Trace {
		switch t.Kind {
		case statemachine.Dropped, statemachine.Refused:
			s.Ignored = append(s.Ignored, Ignored{t.Event.String(), t.Reason.String()})
		case statemachine.SteppedDown:
			s.SteppedDown = append(s.SteppedDown, t.Version)
		}
	}
	s.Down = s.Down || out.Stop != nil
}

// AddAuthority adds the authority of the machine after the step and the records that it trusts.
func (s *Step) AddAuthority(m *statemachine.Machine, now time.Time) {
	version, until := m.Authority(now)
	if version != 0 {
		s.Version, s.Until = version, until.UnixNano()
	}
	for r := range m.Durable().Held.Records.All() {
		if token, until := m.Holds(now, r.Key); !token.IsZero() {
			s.Trusted = append(s.Trusted, Trust{r.Key, token, until.UnixNano()})
		}
	}
}
