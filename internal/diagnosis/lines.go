// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
)

// line is the level and the text of a log line. docs/logs.md lists all lines.
type line struct {
	level slog.Level
	text  string
}

// traceLines maps each trace of the machine to its log line. Refusals are part of normal operation
// and matter only for debugging.
var traceLines = map[statemachine.TraceKind]line{
	statemachine.Dropped:           {slog.LevelDebug, "dropped a message"},
	statemachine.Refused:           {slog.LevelDebug, "refused"},
	statemachine.Discovering:       {slog.LevelDebug, "asking who leads"},
	statemachine.Joining:           {slog.LevelDebug, "asking to join"},
	statemachine.Follows:           {slog.LevelInfo, "following a leader"},
	statemachine.BecameProvisional: {slog.LevelInfo, "leading provisionally, without authority"},
	statemachine.Suspected:         {slog.LevelWarn, "lost the leader"},
	statemachine.Asking:            {slog.LevelDebug, "asking whether the leader is healthy"},
	statemachine.Proposing:         {slog.LevelDebug, "proposing a leader"},
	statemachine.ProposingFormal:   {slog.LevelDebug, "proposing a leader formally"},
	statemachine.GaveUpProposal:    {slog.LevelDebug, "proposal found no majority"},
	statemachine.Elected:           {slog.LevelDebug, "a leader was chosen"},
	statemachine.BecameLeader:      {slog.LevelInfo, "leading"},
	statemachine.GainedAuthority:   {slog.LevelInfo, "leading with authority"},
	statemachine.LostAuthority:     {slog.LevelWarn, "lost authority"},
	statemachine.SteppedDown:       {slog.LevelInfo, "stepped down"},
	statemachine.MemberMoved:       {slog.LevelInfo, "member changed"},
	statemachine.Left:              {slog.LevelInfo, "left the cluster"},
	statemachine.Overruled:         {slog.LevelInfo, "left the leader for a better one"},
	statemachine.Voted:             {slog.LevelDebug, "voted"},
	statemachine.Counted:           {slog.LevelDebug, "counted a vote"},
	statemachine.Missed:            {slog.LevelDebug, "a heartbeat is late"},
	statemachine.RecordRevoked:     {slog.LevelInfo, "revoked a record"},
	statemachine.RecordsEnded:      {slog.LevelWarn, "ended the records of a silent member"},
	statemachine.Raised: {slog.LevelWarn,
		"a member is bound to a later version: this leader is elected again above it"},
	statemachine.Replaced: {slog.LevelWarn,
		"the place of a member went to another store: its data directory was lost, " +
			"or another process has its address"},
	statemachine.SeatKept: {slog.LevelWarn,
		"a node waits for a seat that is kept for a member: start that member, or run athena release"},
	statemachine.Postponed: {slog.LevelWarn,
		"a preferred member led for a short time: it leads again later"},
	statemachine.FoundCopy: {slog.LevelError,
		"a data directory was restored from an earlier copy: its node becomes a new member; " +
			"delete no other directory"},
	statemachine.FoundLater: {slog.LevelError,
		"a member holds a later state than the leader: a majority of the data directories was " +
			"restored from copies, and tokens were used twice; delete no directory"},
	statemachine.NewRun: {slog.LevelWarn,
		"the roster can never elect a leader again: starting as a new member; " +
			"tokens may start over"},
}

// aboutLeaders lists the kinds of traces whose Peer is a leader or a candidate.
var aboutLeaders = map[statemachine.TraceKind]bool{
	statemachine.Joining: true, statemachine.Follows: true, statemachine.Suspected: true,
	statemachine.Overruled: true, statemachine.Proposing: true, statemachine.ProposingFormal: true,
	statemachine.GaveUpProposal: true, statemachine.Elected: true, statemachine.BecameLeader: true,
	statemachine.BecameProvisional: true, statemachine.GainedAuthority: true,
	statemachine.LostAuthority: true, statemachine.SteppedDown: true,
}

func traceLine(t statemachine.Trace) line {
	switch {
	case t.Kind == statemachine.Follows && !t.Chosen:
		return line{slog.LevelInfo, "following a provisional leader"}
	case t.Kind == statemachine.Suspected && t.Event == message.KindMemberLeave:
		return line{slog.LevelInfo, "the leader is leaving or handing over"}
	default:
		return traceLines[t.Kind]
	}
}

// logTraces logs the traces of one turn. It omits "leading with authority" if the turn completed a
// change of leader, because the line about that change reports it. It omits the warning "lost
// authority" after a leader has stepped down to hand over.
func (o *Reporter) logTraces(traces []statemachine.Trace, elected bool) {
	handedOver := false
	for _, t := range traces {
		handedOver = handedOver ||
			t.Kind == statemachine.SteppedDown && t.Cause == statemachine.CauseHandOver
		covered := t.Kind == statemachine.LostAuthority && handedOver ||
			t.Kind == statemachine.GainedAuthority && elected
		if !covered {
			o.logTrace(t)
		}
	}
}

// maxTraceAttrs is the maximum number of attributes of a trace.
const maxTraceAttrs = 9

func (o *Reporter) logTrace(t statemachine.Trace) {
	l := traceLine(t)
	if !o.log.Enabled(context.Background(), l.level) {
		return // most traces are logged at debug level
	}
	attrs := make([]slog.Attr, 0, maxTraceAttrs)
	attrs = append(attrs, slog.Uint64("version", t.Version))
	switch {
	case t.Peer.IsZero():
	case aboutLeaders[t.Kind]:
		attrs = append(attrs, slog.String("leader", addressText(t.Peer)))
	default:
		attrs = append(attrs, slog.String("peer", addressText(t.Peer)))
	}
	if t.Reason != 0 {
		attrs = append(attrs, slog.String("reason", t.Reason.String()))
	}
	if t.Event != 0 {
		attrs = append(attrs, slog.String("kind", t.Event.String()))
	}
	if c := causes[t.Cause]; c.cause != "" {
		attrs = append(attrs, slog.String("cause", string(c.cause)))
		if c.rule != "" {
			attrs = append(attrs, slog.String("rule", c.rule))
		}
	}
	if t.Stage != 0 {
		attrs = append(attrs, slog.String("stage", t.Stage.String()))
	}
	switch {
	case t.Kind == statemachine.Postponed:
		attrs = append(attrs, slog.Float64("wait_ms", Milliseconds(t.Left)))
	case t.Left != 0:
		attrs = append(attrs, slog.Float64("kept_ms", Milliseconds(t.Left)))
	}
	switch {
	case t.Kind != statemachine.MemberMoved:
	case t.Status == member.None:
		attrs = append(attrs, slog.String("status", "gone"))
	default:
		attrs = append(attrs, slog.String("status", t.Status.String()))
	}
	o.log.LogAttrs(context.Background(), l.level, l.text, attrs...)
}

// logElection logs a change of leader in one line.
func (o *Reporter) logElection(e Election) {
	attrs := []slog.Attr{slog.String("cause", string(e.Cause))}
	if e.Rule != "" {
		attrs = append(attrs, slog.String("rule", e.Rule))
	}
	attrs = append(attrs, slog.Uint64("version", e.Version),
		slog.String("leader", addressText(e.Leader)))
	if !e.Before.IsZero() {
		attrs = append(attrs, slog.String("before", addressText(e.Before)))
	}
	voters := make([]string, 0, len(e.Voters))
	for _, v := range e.Voters {
		voters = append(voters, addressText(v))
	}
	attrs = append(attrs, slog.Float64("took_ms", Milliseconds(e.Took)), slog.Any("votes", voters),
		slog.GroupAttrs("steps_ms", stepAttrs(e)...))
	o.log.LogAttrs(context.Background(), slog.LevelInfo, "leader changed", attrs...)
}

func stepAttrs(e Election) []slog.Attr {
	var steps []slog.Attr
	for _, s := range e.Steps {
		steps = append(steps, slog.Float64(s.Name, Milliseconds(s.After)))
	}
	return steps
}

// LogHandlerFailure logs an error or a panic in a handler.
func (o *Reporter) LogHandlerFailure(f receiver.Failure) {
	p, panicked := errors.AsType[*receiver.PanicError](f.Err)
	l := line{slog.LevelWarn, "handler failed"}
	if f.Told && !panicked {
		// The handler may have returned the error to the sender intentionally.
		l = line{slog.LevelDebug, "handler failed; the sender was notified"}
	}
	if !o.log.Enabled(context.Background(), l.level) {
		return
	}
	var attrs []slog.Attr
	if f.Stream {
		attrs = append(attrs, slog.String("stream", safetext.PeerText(f.Event)))
	} else {
		attrs = append(attrs, slog.String("event", safetext.PeerText(f.Event)))
	}
	attrs = append(attrs, slog.String("peer", addressText(f.From.Address)), ErrAttr(f.Err))
	if panicked {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	o.log.LogAttrs(context.Background(), l.level, l.text, attrs...)
}

// LogSlowHandler logs a handler that has been running for a long time.
func (o *Reporter) LogSlowHandler(h receiver.SlowHandler) {
	o.log.Warn("handler still running", slog.String("event", safetext.PeerText(h.Event)),
		slog.String("peer", addressText(h.From)),
		slog.Float64("running_ms", Milliseconds(h.Running)), slog.Int("waiting", h.Waiting))
}

// LogLateWork logs work under the lease of a record that has not returned since the lease ended.
func (o *Reporter) LogLateWork(key string, ended time.Duration) {
	o.log.Warn("work still running", slog.String("record", safetext.PeerText(key)),
		slog.Float64("ended_ms", Milliseconds(ended)))
}

// Milliseconds returns a duration in milliseconds, the unit of log fields.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// addressText returns the text of an address in a log line; the address may come from a peer.
func addressText(a member.Address) string { return safetext.PeerText(a.String()) }

// maxErrorBytes bounds the text of an error of the application, and of an error that contains
// several texts of peers. safetext.PeerText has already cut each of these texts.
const maxErrorBytes = 1024

// ErrAttr returns the attribute "error" with the text of err as one line of at most maxErrorBytes,
// or the zero Attr if err is nil.
func ErrAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", safetext.OneLine(err.Error(), maxErrorBytes))
}
