// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// facts says how each decision of the machine is logged. Refusals are the
// protocol at work; they matter to whoever looks for a fault.
var facts = map[statemachine.What]struct {
	level zerolog.Level
	text  string
}{
	statemachine.Dropped:           {zerolog.DebugLevel, "dropped an event"},
	statemachine.Refused:           {zerolog.DebugLevel, "refused"},
	statemachine.Discovering:       {zerolog.DebugLevel, "asking who leads"},
	statemachine.Joining:           {zerolog.DebugLevel, "asking to join"},
	statemachine.Follows:           {zerolog.InfoLevel, "following a leader"},
	statemachine.BecameProvisional: {zerolog.InfoLevel, "leading provisionally, without authority"},
	statemachine.Suspected:         {zerolog.WarnLevel, "lost the leader"},
	statemachine.Asking:            {zerolog.DebugLevel, "asking whether the leader is healthy"},
	statemachine.Proposing:         {zerolog.DebugLevel, "proposing a leader"},
	statemachine.ProposingFormal:   {zerolog.DebugLevel, "proposing a leader formally"},
	statemachine.GaveUpProposal:    {zerolog.DebugLevel, "proposal found no majority"},
	statemachine.Elected:           {zerolog.InfoLevel, "a leader was chosen"},
	statemachine.BecameLeader:      {zerolog.InfoLevel, "leading"},
	statemachine.GainedAuthority:   {zerolog.InfoLevel, "leading with authority"},
	statemachine.LostAuthority:     {zerolog.WarnLevel, "lost authority"},
	statemachine.SteppedDown:       {zerolog.InfoLevel, "stepped down"},
	statemachine.MemberMoved:       {zerolog.InfoLevel, "member changed"},
	statemachine.Left:              {zerolog.InfoLevel, "left the cluster"},
	statemachine.Overruled:         {zerolog.InfoLevel, "left the leader for a better one"},
	statemachine.Voted:             {zerolog.DebugLevel, "voted"},
	statemachine.Counted:           {zerolog.DebugLevel, "counted a vote"},
	statemachine.Missed:            {zerolog.DebugLevel, "a heartbeat is late"},
	statemachine.RecordRevoked:     {zerolog.InfoLevel, "revoked a record"},
	statemachine.RecordsEnded:      {zerolog.WarnLevel, "ended the records of a silent member"},
	statemachine.NewRun: {zerolog.WarnLevel,
		"the roster can never elect again: starting as a new member, tokens may start again at 1"},
}

// logTraces counts and logs the decisions of one turn of the loop. A leader that is
// told to leave, hand over or drain first steps down, and loses its authority by
// that: nothing is wrong then.
func (n *Node) logTraces(turn []statemachine.Trace) {
	given := false
	for _, t := range turn {
		n.meter.traced(t)
		given = given || t.What == statemachine.SteppedDown &&
			(n.meter.drained.Load() || n.terms.handsOver())
		n.logTrace(t, given)
	}
}

// logTrace writes a line; given says that this node gives leadership up on purpose.
func (n *Node) logTrace(t statemachine.Trace, given bool) {
	fact := facts[t.What]
	switch {
	case t.What == statemachine.LostAuthority && given:
		fact.level, fact.text = zerolog.InfoLevel, "gave authority up"
	case t.What == statemachine.Suspected && t.Event == message.KindMemberLeave:
		fact.level, fact.text = zerolog.InfoLevel, "the leader leaves or hands over"
	}
	e := n.log.WithLevel(fact.level)
	if e = e.Uint64("version", t.Version); !t.Peer.IsZero() {
		e = e.Str("peer", shown(t.Peer))
	}
	if t.Reason != 0 {
		e = e.Stringer("reason", t.Reason)
	}
	if t.Event != 0 {
		e = e.Stringer("event", t.Event)
	}
	if t.Cause != statemachine.CauseNone {
		e = e.Stringer("cause", t.Cause)
	}
	if t.Stage != 0 {
		e = e.Stringer("stage", t.Stage)
	}
	switch {
	case t.What != statemachine.MemberMoved:
	case t.Status == member.None:
		e = e.Str("status", "gone") // no member any more
	default:
		e = e.Stringer("status", t.Status)
	}
	e.Msg(fact.text)
}

// logElection tells of the change of leader that just ended, in one line.
func (n *Node) logElection(e Election) {
	line := n.log.Info().Str("cause", string(e.Cause))
	if e.Rule != "" {
		line = line.Str("rule", e.Rule)
	}
	line = line.Uint64("version", e.Version).Str("leader", shown(e.Leader))
	if !e.Before.IsZero() {
		line = line.Str("before", shown(e.Before))
	}
	voters := make([]string, 0, len(e.Voters))
	for _, v := range e.Voters {
		voters = append(voters, shown(v))
	}
	took := zerolog.Dict()
	for _, s := range e.Steps {
		took = took.Float64(s.Name, milliseconds(s.After))
	}
	line.Float64("took_ms", milliseconds(e.Took)).Strs("votes", voters).Dict("steps_ms", took).
		Msg("leader changed")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (n *Node) logStart() {
	n.log.Info().Str("cluster", n.cfg.Cluster).Int("size", n.cfg.Size).
		Str("listen", n.cfg.Addr).Msg("started")
	if n.cfg.Insecure {
		n.log.Warn().Msg("no secret or certificate is set: " +
			"whoever reaches the port can join and read everything")
	}
}

// logStop says that the node ended, and why where nobody asked it to.
func (n *Node) logStop() {
	level, cause := zerolog.ErrorLevel, n.cause
	if errors.Is(cause, ErrClosed) || errors.Is(cause, ErrLeft) {
		level, cause = zerolog.InfoLevel, nil
	}
	n.log.WithLevel(level).Err(n.closeErr).AnErr("cause", cause).Msg("ended")
}

// connections says how loudly a report of the transport is logged.
var connections = map[transport.What]zerolog.Level{
	transport.ReportConnected:     zerolog.DebugLevel,
	transport.ReportLost:          zerolog.DebugLevel,
	transport.ReportRefused:       zerolog.WarnLevel,
	transport.ReportRefusedByPeer: zerolog.WarnLevel,
	transport.ReportSeedsDiffer:   zerolog.WarnLevel,
	transport.ReportUnreachable:   zerolog.DebugLevel,
	transport.ReportFailed:        zerolog.ErrorLevel,
	transport.ReportCertificate:   zerolog.WarnLevel,
	transport.ReportSmallBuffers:  zerolog.InfoLevel,
}

func (n *Node) logReport(r transport.Report) {
	e := n.log.WithLevel(connections[r.What])
	if !r.Peer.IsZero() {
		e = e.Str("peer", shown(r.Peer))
	}
	if r.What == transport.ReportSeedsDiffer {
		e = e.Str("seeds", member.OneLine(listed(n.cfg.seeds), maxErrorBytes))
	}
	if differ := mismatches(r.Err); len(differ) > 1 {
		// One advice for all of them.
		r.Err = fmt.Errorf("differs in %s: configure the same on every node", strings.Join(differ, ", "))
	}
	e.Err(oneLine(r.Err)).Msg(r.What.String())
}

func (n *Node) logHandler(f receiver.Failure) {
	what := "event"
	if f.Stream {
		what = "stream"
	}
	level := zerolog.WarnLevel
	if f.Told {
		level = zerolog.DebugLevel // its sender knows, and may have meant it to end
	}
	p, panicked := errors.AsType[*receiver.PanicError](f.Err)
	if panicked {
		level = zerolog.WarnLevel
	}
	e := n.log.WithLevel(level).Str(what, member.PeerText(f.Event)).
		Str("peer", shown(f.From.Address)).Err(oneLine(f.Err))
	if panicked {
		e = e.Bytes("stack", p.Stack)
	}
	e.Msg("handler failed")
}

func (n *Node) logFrame(from member.Identity, reason string, err error) {
	n.log.Debug().Str("peer", shown(from.Address)).Str("reason", reason).Err(oneLine(err)).
		Msg("dropped a frame")
}

// shown is an address as a line shows it: a peer chose it.
func shown(a member.Address) string { return member.PeerText(a.String()) }

// maxErrorBytes bounds a text of ours that has texts of peers in it, each of them cut
// by member.PeerText, or an error of the application.
const maxErrorBytes = 1024

// oneLine is an error as a line shows it: one line, and not too long.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(member.OneLine(err.Error(), maxErrorBytes))
}
