// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// line is what a log says of a fact. Every line has its row in docs/logs.md.
type line struct {
	level zerolog.Level
	text  string
}

// facts says how each decision of the machine is logged. Refusals are the
// protocol at work; they matter to whoever looks for a fault.
var facts = map[statemachine.TraceKind]line{
	statemachine.Dropped:           {zerolog.DebugLevel, "dropped a message"},
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
	statemachine.Elected:           {zerolog.DebugLevel, "a leader was chosen"},
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
		return line{zerolog.InfoLevel, "following a provisional leader"}
	case t.Kind == statemachine.Suspected && t.Event == message.KindMemberLeave:
		return line{zerolog.InfoLevel, "the leader leaves or hands over"}
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
	e := n.log.WithLevel(l.level).Uint64("version", t.Version)
	switch {
	case t.Peer.IsZero():
	case ofLeaders[t.Kind]:
		e = e.Str("leader", shown(t.Peer))
	default:
		e = e.Str("peer", shown(t.Peer))
	}
	if t.Reason != 0 {
		e = e.Stringer("reason", t.Reason)
	}
	if t.Event != 0 {
		e = e.Stringer("kind", t.Event)
	}
	if c := causes[t.Cause]; c.cause != "" {
		e = e.Str("cause", string(c.cause))
		if c.rule != "" {
			e = e.Str("rule", c.rule)
		}
	}
	if t.Stage != 0 {
		e = e.Stringer("stage", t.Stage)
	}
	switch {
	case t.Kind != statemachine.MemberMoved:
	case t.Status == member.None:
		e = e.Str("status", "gone") // no member any more
	default:
		e = e.Stringer("status", t.Status)
	}
	e.Msg(l.text)
}

// logElection tells of the change of leader that just ended, in one line.
func (n *Node) logElection(c Election) {
	e := n.log.Info().Str("cause", string(c.Cause))
	if c.Rule != "" {
		e = e.Str("rule", c.Rule)
	}
	e = e.Uint64("version", c.Version).Str("leader", shown(c.Leader))
	if !c.Before.IsZero() {
		e = e.Str("before", shown(c.Before))
	}
	voters := make([]string, 0, len(c.Voters))
	for _, v := range c.Voters {
		voters = append(voters, shown(v))
	}
	e.Float64("took_ms", milliseconds(c.Took)).Strs("votes", voters).Dict("steps_ms", stepsOf(c)).
		Msg("leader changed")
}

func stepsOf(c Election) *zerolog.Event {
	steps := zerolog.Dict()
	for _, s := range c.Steps {
		steps = steps.Float64(s.Name, milliseconds(s.After))
	}
	return steps
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
	if errors.Is(n.cause, ErrClosed) || errors.Is(n.cause, ErrLeft) {
		n.log.Info().Err(oneLine(n.closeErr)).Msg("ended")
		return
	}
	n.log.Error().Err(oneLine(errors.Join(n.cause, n.closeErr))).Msg("ended by a fault")
}

// reports says how each report of the transport is logged. ReportFailed is none of
// them: the node ends by it, and says so.
var reports = map[transport.What]line{
	transport.ReportConnected:     {zerolog.DebugLevel, "connected"},
	transport.ReportLost:          {zerolog.DebugLevel, "connection lost"},
	transport.ReportRefused:       {zerolog.WarnLevel, "peer refused"},
	transport.ReportRefusedByPeer: {zerolog.WarnLevel, "refused by peer"},
	transport.ReportSeedsDiffer:   {zerolog.WarnLevel, "seeds differ"},
	transport.ReportUnreachable:   {zerolog.DebugLevel, "peer not reached"},
	transport.ReportCertificate:   {zerolog.WarnLevel, "handshake refused"},
	transport.ReportSmallBuffers:  {zerolog.InfoLevel, "small buffers"},
	transport.ReportStreamRefused: {zerolog.WarnLevel, "stream refused"},
}

func (n *Node) logReport(r transport.Report) {
	l := reports[r.What]
	e := n.log.WithLevel(l.level)
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
	e.Err(oneLine(r.Err)).Msg(l.text)
}

func (n *Node) logHandler(f receiver.Failure) {
	p, panicked := errors.AsType[*receiver.PanicError](f.Err)
	l := line{zerolog.WarnLevel, "handler failed"}
	if f.Told && !panicked {
		// It may have meant the handler to end.
		l = line{zerolog.DebugLevel, "handler failed, and the sender knows"}
	}
	e := n.log.WithLevel(l.level)
	if f.Stream {
		e = e.Str("stream", member.PeerText(f.Event))
	} else {
		e = e.Str("event", member.PeerText(f.Event))
	}
	e = e.Str("peer", shown(f.From.Address)).Err(oneLine(f.Err))
	if panicked {
		e = e.Bytes("stack", p.Stack)
	}
	e.Msg(l.text)
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
