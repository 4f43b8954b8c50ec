// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// line is what a log says of a fact. Every line has its row in docs/logs.md.
type line struct {
	level slog.Level
	text  string
}

// facts says how each decision of the machine is logged. Refusals are the
// protocol at work; they matter to whoever looks for a fault.
var facts = map[statemachine.TraceKind]line{
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
	statemachine.NewRun: {slog.LevelWarn,
		"the roster can never elect again: starting as a new member, tokens may start again at 1"},
}

// ofLeaders are the decisions whose Peer is a leader, or is to be one.
var ofLeaders = map[statemachine.TraceKind]bool{
	statemachine.Joining: true, statemachine.Follows: true, statemachine.Suspected: true,
	statemachine.Overruled: true, statemachine.Proposing: true, statemachine.ProposingFormal: true,
	statemachine.GaveUpProposal: true, statemachine.Elected: true, statemachine.BecameLeader: true,
	statemachine.BecameProvisional: true, statemachine.GainedAuthority: true,
	statemachine.LostAuthority: true, statemachine.SteppedDown: true,
}

// lineOf is how one decision is logged.
func lineOf(t statemachine.Trace) line {
	switch {
	case t.Kind == statemachine.Follows && !t.Chosen:
		return line{slog.LevelInfo, "following a provisional leader"}
	case t.Kind == statemachine.Suspected && t.Event == message.KindMemberLeave:
		return line{slog.LevelInfo, "the leader leaves or hands over"}
	default:
		return facts[t.Kind]
	}
}

// logTraces counts and logs the decisions of one turn of the loop; elected says that a
// change of leader ends with it. That is told in a line of its own, also where it is
// this node that has authority now. A leader that is told to leave, hand over or drain
// steps down first, and loses its authority by that: nothing is wrong then, and one
// line says both.
func (n *Node) logTraces(turn []statemachine.Trace, elected bool) {
	given := false
	for _, t := range turn {
		n.meter.traced(t)
		given = given || t.Kind == statemachine.SteppedDown &&
			(n.meter.drained.Load() || n.terms.handsOver())
		told := t.Kind == statemachine.LostAuthority && given ||
			t.Kind == statemachine.GainedAuthority && elected
		if !told {
			n.logTrace(t)
		}
	}
}

func (n *Node) logTrace(t statemachine.Trace) {
	l := lineOf(t)
	if !n.log.Enabled(context.Background(), l.level) {
		return // most decisions are logged at debug level, and cost nothing above it
	}
	attrs := make([]slog.Attr, 0, maxTraceAttrs)
	attrs = append(attrs, slog.Uint64("version", t.Version))
	switch {
	case t.Peer.IsZero():
	case ofLeaders[t.Kind]:
		attrs = append(attrs, slog.String("leader", shown(t.Peer)))
	default:
		attrs = append(attrs, slog.String("peer", shown(t.Peer)))
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
	case t.Kind != statemachine.MemberMoved:
	case t.Status == member.None:
		attrs = append(attrs, slog.String("status", "gone")) // it is not a member
	default:
		attrs = append(attrs, slog.String("status", t.Status.String()))
	}
	n.log.LogAttrs(context.Background(), l.level, l.text, attrs...)
}

// maxTraceAttrs is the number of attributes that the line of a trace has at most.
const maxTraceAttrs = 8

// logElection tells of the change of leader that just ended, in one line.
func (n *Node) logElection(c Election) {
	attrs := []slog.Attr{slog.String("cause", string(c.Cause))}
	if c.Rule != "" {
		attrs = append(attrs, slog.String("rule", c.Rule))
	}
	attrs = append(attrs, slog.Uint64("version", c.Version), slog.String("leader", shown(c.Leader)))
	if !c.Before.IsZero() {
		attrs = append(attrs, slog.String("before", shown(c.Before)))
	}
	voters := make([]string, 0, len(c.Voters))
	for _, v := range c.Voters {
		voters = append(voters, shown(v))
	}
	attrs = append(attrs, slog.Float64("took_ms", milliseconds(c.Took)), slog.Any("votes", voters),
		slog.GroupAttrs("steps_ms", stepAttrs(c)...))
	n.log.LogAttrs(context.Background(), slog.LevelInfo, "leader changed", attrs...)
}

func stepAttrs(c Election) []slog.Attr {
	var steps []slog.Attr
	for _, s := range c.Steps {
		steps = append(steps, slog.Float64(s.Name, milliseconds(s.After)))
	}
	return steps
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (n *Node) logStart() {
	n.log.Info("started", slog.String("cluster", n.cfg.Cluster), slog.Int("size", n.cfg.Size),
		slog.String("listen", n.cfg.Addr))
	if n.cfg.Insecure {
		n.log.Warn("no secret or certificate is set: " +
			"whoever reaches the port can join and read everything")
	}
}

// logStop says that the node ended, and why where nobody asked it to.
func (n *Node) logStop() {
	if errors.Is(n.cause, ErrClosed) || errors.Is(n.cause, ErrLeft) {
		n.log.Info("ended", errAttr(n.closeErr))
		return
	}
	n.log.Error("ended by a fault", errAttr(errors.Join(n.cause, n.closeErr)))
}

// reports says how each report of the transport is logged. ReportFailed is none of
// them: the node ends by it, and says so.
var reports = map[transport.What]line{
	transport.ReportConnected:     {slog.LevelDebug, "connected"},
	transport.ReportLost:          {slog.LevelDebug, "connection lost"},
	transport.ReportRefused:       {slog.LevelWarn, "peer refused"},
	transport.ReportRefusedByPeer: {slog.LevelWarn, "refused by peer"},
	transport.ReportSeedsDiffer:   {slog.LevelWarn, "seeds differ"},
	transport.ReportUnreachable:   {slog.LevelDebug, "peer not reached"},
	transport.ReportCertificate:   {slog.LevelWarn, "handshake refused"},
	transport.ReportSmallBuffers:  {slog.LevelInfo, "small buffers"},
	transport.ReportStreamRefused: {slog.LevelWarn, "stream refused"},
}

func (n *Node) logReport(r transport.Report) {
	l := reports[r.What]
	if !n.log.Enabled(context.Background(), l.level) {
		return
	}
	var attrs []slog.Attr
	if !r.Peer.IsZero() {
		attrs = append(attrs, slog.String("peer", shown(r.Peer)))
	}
	if r.What == transport.ReportSeedsDiffer {
		attrs = append(attrs, slog.String("seeds", member.OneLine(listed(n.cfg.seeds), maxErrorBytes)))
	}
	if differ := mismatches(r.Err); len(differ) > 1 {
		// One advice for all of them.
		r.Err = fmt.Errorf("differs in %s: configure the same on every node", strings.Join(differ, ", "))
	}
	n.log.LogAttrs(context.Background(), l.level, l.text, append(attrs, errAttr(r.Err))...)
}

func (n *Node) logHandler(f receiver.Failure) {
	p, panicked := errors.AsType[*receiver.PanicError](f.Err)
	l := line{slog.LevelWarn, "handler failed"}
	if f.Told && !panicked {
		// It may have meant the handler to end.
		l = line{slog.LevelDebug, "handler failed, and the sender knows"}
	}
	var attrs []slog.Attr
	if f.Stream {
		attrs = append(attrs, slog.String("stream", member.PeerText(f.Event)))
	} else {
		attrs = append(attrs, slog.String("event", member.PeerText(f.Event)))
	}
	attrs = append(attrs, slog.String("peer", shown(f.From.Address)), errAttr(f.Err))
	if panicked {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	n.log.LogAttrs(context.Background(), l.level, l.text, attrs...)
}

func (n *Node) logFrame(from member.Identity, reason string, err error) {
	if n.log.Enabled(context.Background(), slog.LevelDebug) {
		n.log.Debug("dropped a frame", slog.String("peer", shown(from.Address)),
			slog.String("reason", reason), errAttr(err))
	}
}

// shown is an address as a line shows it: a peer chose it.
func shown(a member.Address) string { return member.PeerText(a.String()) }

// maxErrorBytes bounds a text of ours that has texts of peers in it, each of them cut
// by member.PeerText, or an error of the application.
const maxErrorBytes = 1024

// errAttr is the attribute "error" of a line, and no attribute if err is nil. The text of
// the error is one line of at most maxErrorBytes.
func errAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", member.OneLine(err.Error(), maxErrorBytes))
}
