// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/zslog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// logged returns the lines that f logs at a level.
func logged(level zerolog.Level, f func(*Reporter)) string {
	var out bytes.Buffer
	log := slog.New(zslog.NewHandler(zerolog.New(&out).Level(level)))
	f(New(Config{Log: log, RosterLost: errBoom}))
	return out.String()
}

// TestTraceLines checks that each trace is logged in one line, with stable names and only the
// fields that apply.
func TestTraceLines(t *testing.T) {
	peer := at(2, 0).Address
	for _, c := range []struct {
		trace statemachine.Trace
		want  string
	}{
		{statemachine.Trace{Kind: statemachine.Refused, Reason: message.ReasonSupports,
			Event: message.KindProposal, Peer: peer, Version: 4},
			`{"level":"debug","version":4,"peer":"127.0.0.1:2","reason":"supports",` +
				`"kind":"Proposal","message":"refused"}`},
		{statemachine.Trace{Kind: statemachine.GainedAuthority, Version: 5},
			`{"level":"info","version":5,"message":"leading with authority"}`},
		{statemachine.Trace{Kind: statemachine.Overruled, Cause: statemachine.CauseVersion, Version: 5,
			Peer: peer},
			`{"level":"info","version":5,"leader":"127.0.0.1:2","cause":"conflict","rule":"version",` +
				`"message":"left the leader for a better one"}`},
		{statemachine.Trace{Kind: statemachine.NewRun, Version: 5, Peer: peer},
			`{"level":"warn","version":5,"peer":"127.0.0.1:2","message":"the roster can never elect ` +
				`a leader again: starting as a new member; tokens may start over"}`},
		{statemachine.Trace{Kind: statemachine.GaveUpProposal, Version: 5, Peer: peer,
			Stage: message.Formal},
			`{"level":"debug","version":5,"leader":"127.0.0.1:2","stage":"formal",` +
				`"message":"proposal found no majority"}`},
		{statemachine.Trace{Kind: statemachine.Missed, Version: 5, Peer: peer},
			`{"level":"debug","version":5,"peer":"127.0.0.1:2","message":"a heartbeat is late"}`},
		{statemachine.Trace{Kind: statemachine.Asking, Version: 5},
			`{"level":"debug","version":5,"message":"asking whether the leader is healthy"}`},
		{statemachine.Trace{Kind: statemachine.Discovering},
			`{"level":"debug","version":0,"message":"asking who leads"}`},
		{statemachine.Trace{Kind: statemachine.Joining, Version: 5, Peer: peer},
			`{"level":"debug","version":5,"leader":"127.0.0.1:2","message":"asking to join"}`},
		{statemachine.Trace{Kind: statemachine.RecordRevoked, Version: 5, Peer: peer},
			`{"level":"info","version":5,"peer":"127.0.0.1:2","message":"revoked a record"}`},
		{statemachine.Trace{Kind: statemachine.RecordsEnded, Version: 5, Peer: peer},
			`{"level":"warn","version":5,"peer":"127.0.0.1:2",` +
				`"message":"ended the records of a silent member"}`},
		{statemachine.Trace{Kind: statemachine.Raised, Version: 7, Peer: peer},
			`{"level":"warn","version":7,"peer":"127.0.0.1:2","message":"a member is bound to a ` +
				`later version: this leader is elected again above it"}`},
		{statemachine.Trace{Kind: statemachine.Replaced, Version: 5, Peer: peer},
			`{"level":"warn","version":5,"peer":"127.0.0.1:2","message":"the place of a member went ` +
				`to another store: its data directory was lost, or another process has its address"}`},
		{statemachine.Trace{Kind: statemachine.FoundCopy, Version: 5, Peer: peer},
			`{"level":"error","version":5,"peer":"127.0.0.1:2","message":"a data directory was ` +
				`restored from an earlier copy: its node becomes a new member; delete no other directory"}`},
		{statemachine.Trace{Kind: statemachine.FoundLater, Version: 5, Peer: peer},
			`{"level":"error","version":5,"peer":"127.0.0.1:2","message":"a member holds a later state ` +
				`than the leader: a majority of the data directories was restored from copies, and tokens ` +
				`were used twice; delete no directory"}`},
		{statemachine.Trace{Kind: statemachine.SeatKept, Version: 5, Peer: peer, Left: time.Hour},
			`{"level":"warn","version":5,"peer":"127.0.0.1:2","kept_ms":3600000,"message":"a node waits ` +
				`for a seat that is kept for a member: start that member, or run athena release"}`},
		{statemachine.Trace{Kind: statemachine.Postponed, Version: 5, Peer: peer, Left: time.Minute},
			`{"level":"warn","version":5,"peer":"127.0.0.1:2","wait_ms":60000,"message":"a preferred ` +
				`member led for a short time: it leads again later"}`},
		{statemachine.Trace{Kind: statemachine.MemberMoved, Peer: peer, Status: member.Unreachable},
			`{"level":"info","version":0,"peer":"127.0.0.1:2","status":"unreachable",` +
				`"message":"member changed"}`},
	} {
		got := logged(zerolog.DebugLevel, func(o *Reporter) { o.logTrace(c.trace) })
		if got != c.want+"\n" {
			t.Errorf("%+v: got %s, want %s", c.trace, got, c.want)
		}
	}
}

// TestReportLines checks that each report of the transport is logged in one line.
func TestReportLines(t *testing.T) {
	for what, want := range map[mesh.ReportKind]string{
		mesh.ReportConnected: `{"level":"debug","peer":"127.0.0.1:2","message":"connected"}`,
		mesh.ReportLost: `{"level":"debug","peer":"127.0.0.1:2","error":"boom",` +
			`"message":"connection lost"}`,
		mesh.ReportUnreachable: `{"level":"debug","peer":"127.0.0.1:2","error":"boom",` +
			`"message":"cannot reach peer"}`,
		mesh.ReportRefusedByPeer: `{"level":"warn","peer":"127.0.0.1:2","error":"boom",` +
			`"message":"refused by peer"}`,
		mesh.ReportStreamRefused: `{"level":"warn","peer":"127.0.0.1:2","error":"boom",` +
			`"message":"stream refused"}`,
		mesh.ReportSmallBuffers: `{"level":"info","error":"boom","message":"small buffers"}`,
	} {
		report := mesh.Report{Kind: what, Peer: at(2, 0).Address, Err: errBoom}
		switch what {
		case mesh.ReportConnected:
			report.Err = nil
		case mesh.ReportSmallBuffers:
			report.Peer = member.Address{}
		}
		got := logged(zerolog.DebugLevel, func(o *Reporter) { o.logReport(report) })
		if got != want+"\n" {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestEveryReportHasALine checks that every kind of report has a line, except ReportFailed, which
// stops the node.
func TestEveryReportHasALine(t *testing.T) {
	for what := range mesh.ReportKinds {
		if l := reportLines[what]; (l.text == "") != (what == mesh.ReportFailed) {
			t.Errorf("report %d: got the line %q", what, l.text)
		}
	}
}

// TestEveryDecisionHasALine checks that every kind of trace has a line.
func TestEveryDecisionHasALine(t *testing.T) {
	texts := map[string]statemachine.TraceKind{}
	for what := statemachine.Dropped; what < statemachine.TraceKinds; what++ {
		text := traceLines[what].text
		if text == "" {
			t.Errorf("trace %d has no line", what)
		}
		if other, twice := texts[text]; twice {
			t.Errorf("traces %d and %d share the line %q", what, other, text)
		}
		texts[text] = what
	}
}

// TestAMemberThatLeftIsGone checks that a member that has left is logged as "gone", which is not a
// member.Status.
func TestAMemberThatLeftIsGone(t *testing.T) {
	for status, want := range map[member.Status]string{
		member.None: `"status":"gone"`, member.Leaving: `"status":"leaving"`,
	} {
		got := logged(zerolog.InfoLevel, func(o *Reporter) {
			o.logTrace(statemachine.Trace{Kind: statemachine.MemberMoved, Status: status})
		})
		if !strings.Contains(got, want) {
			t.Errorf("status %v: got %q, want %s in it", status, got, want)
		}
	}
}

// TestRefusalsAreQuiet checks that at info level a node logs changes, but no refusals.
func TestRefusalsAreQuiet(t *testing.T) {
	got := logged(zerolog.InfoLevel, func(o *Reporter) {
		o.logTrace(statemachine.Trace{Kind: statemachine.Dropped, Reason: message.ReasonPromised})
		o.DropFrame(member.Identity{}, "malformed frame", errors.New("boom"))
	})
	if got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

// TestForeignTextIsPrintableAndCut checks that a peer's text is made printable and cut in every
// line. A peer must be unable to forge a line or to make a line too long.
func TestForeignTextIsPrintableAndCut(t *testing.T) {
	hostile := "\x1b[2J\n" + strings.Repeat("x", 4000)
	peer := member.Member{Identity: at(2, 0).Identity, Name: hostile}
	peer.Address.Host = hostile
	refusal := &transport.CloseError{Code: transport.CodeRefused, Reason: hostile, Remote: true}
	mismatch := &transport.ConfigMismatchError{Field: "Cluster", Ours: "a", Theirs: hostile}
	report := func(what mesh.ReportKind, err error) func(*Reporter) {
		r := mesh.Report{Kind: what, Peer: peer.Address, Err: err}
		return func(o *Reporter) { o.logReport(r) }
	}
	trace := func(what statemachine.TraceKind) func(*Reporter) {
		return func(o *Reporter) { o.logTrace(statemachine.Trace{Kind: what, Peer: peer.Address}) }
	}
	said := errors.New(safetext.PeerText(hostile)) // as in an error from a peer
	view := viewOf(3, 2, false, peer)
	for name, log := range map[string]func(*Reporter){
		"a member":   trace(statemachine.MemberMoved),
		"a leader":   trace(statemachine.Follows),
		"connection": report(mesh.ReportConnected, nil),
		"refused":    report(mesh.ReportRefused, errors.Join(mismatch, mismatch)),
		"refusal":    report(mesh.ReportRefusedByPeer, fmt.Errorf("quicnet: %w", refusal)),
		"certificate": report(mesh.ReportHandshake,
			&mesh.IdentityError{Address: at(2, 0).Address, Names: []string{hostile, hostile}}),
		"election": func(o *Reporter) {
			o.logElection(Election{Leader: peer.Address, Before: peer.Address,
				Voters: []member.Address{peer.Address}})
		},
		"handler": func(o *Reporter) {
			o.LogHandlerFailure(receiver.Failure{Event: hostile, From: peer, Err: said})
		},
		"stream": func(o *Reporter) {
			o.LogHandlerFailure(receiver.Failure{Event: hostile, Stream: true, From: peer, Told: true})
		},
		"frame": func(o *Reporter) { o.DropFrame(peer.Identity, "malformed frame", said) },
		"event": func(o *Reporter) {
			o.DropEvent(peer.Identity, hostile, "no handler", true, receiver.ErrUnknown)
		},
		"no leader": func(o *Reporter) {
			held := member.State{Number: member.Number{Version: 3}, Roster: view.Members}
			o.peers.setMembers(view.Members)
			o.peers.noteFault(peer.Address, refusal)
			o.peers.noteSeeds(peer.Address, false)
			now, state := time.Now(), State{View: view, Held: held}
			o.warnLeaderless(now, state, false)
			o.warnLeaderless(now.Add(time.Minute), state, false)
		},
		"a leader again": func(o *Reporter) {
			now := time.Now()
			o.warning.at = now
			o.warnLeaderless(now, State{Leader: Leader{Address: peer.Address}}, false)
		},
	} {
		got := logged(zerolog.DebugLevel, log)
		if strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") ||
			!strings.Contains(got, "xxx") || strings.Contains(got, strings.Repeat("x", 128)) {
			t.Errorf("%s: got %d bytes, %q; want one line with a little of it", name, len(got), got)
		}
	}
}

// TestNothingIsEscapedTwice checks that an error of several lines becomes one readable line, and
// that its quotes are not escaped a second time.
func TestNothingIsEscapedTwice(t *testing.T) {
	mismatch := func(field, ours, theirs string) error {
		return &transport.ConfigMismatchError{Field: field, Ours: ours, Theirs: theirs}
	}
	got := logged(zerolog.WarnLevel, func(o *Reporter) {
		o.logReport(mesh.Report{Kind: mesh.ReportRefused, Peer: at(2, 0).Address,
			Err: errors.Join(mismatch("Size", "3", "5"), mismatch("Cluster", "a b", "c"))})
	})
	want := `{"level":"warn","peer":"127.0.0.1:2","error":"differs in size (3 here, 5 there), ` +
		`cluster (\"a b\" here, c there): configure the same on every node",` +
		`"message":"peer refused"}` + "\n"
	got += logged(zerolog.WarnLevel, func(o *Reporter) {
		o.logReport(mesh.Report{Kind: mesh.ReportRefused, Peer: at(2, 0).Address,
			Err: mismatch("Cluster", "a b", "c")})
	})
	want += `{"level":"warn","peer":"127.0.0.1:2","error":"transport: Cluster differs: ` +
		`\"a b\" here, c at the peer: configure the same on every node","message":"peer refused"}` + "\n"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
