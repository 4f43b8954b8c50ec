// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// lines logs through l what f tells a node to log, and returns it.
func logged(level zerolog.Level, f func(*Node)) string {
	var out bytes.Buffer
	f(&Node{log: zerolog.New(&out).Level(level)})
	return out.String()
}

// TestTraceLines: one line a fact, with stable names and only what there is.
func TestTraceLines(t *testing.T) {
	peer := at(2, 0).Address
	for _, c := range []struct {
		trace statemachine.Trace
		want  string
	}{
		{statemachine.Trace{What: statemachine.Refused, Reason: message.ReasonSupports,
			Event: message.KindProposal, Peer: peer, Version: 4},
			`{"level":"debug","version":4,"peer":"127.0.0.1:2","reason":"supports",` +
				`"event":"Proposal","message":"refused"}`},
		{statemachine.Trace{What: statemachine.GainedAuthority, Version: 5},
			`{"level":"info","version":5,"message":"leading with authority"}`},
		{statemachine.Trace{What: statemachine.MemberMoved, Peer: peer, Status: member.Unreachable},
			`{"level":"info","version":0,"peer":"127.0.0.1:2","status":"unreachable",` +
				`"message":"member changed"}`},
	} {
		got := logged(zerolog.DebugLevel, func(n *Node) { n.logTrace(c.trace, false) })
		if got != c.want+"\n" {
			t.Errorf("%+v: got %s, want %s", c.trace, got, c.want)
		}
	}
}

// TestEveryReportHasALevel: what is new is not at debug level by accident.
func TestEveryReportHasALevel(t *testing.T) {
	for what := transport.What(0); !strings.HasPrefix(what.String(), "unknown"); what++ {
		if _, ok := connections[what]; !ok {
			t.Errorf("report %q has no level", what)
		}
	}
}

// TestEveryDecisionHasALine holds the table against the kinds of traces.
func TestEveryDecisionHasALine(t *testing.T) {
	texts := map[string]statemachine.What{}
	for what := statemachine.Dropped; what < statemachine.Whats; what++ {
		text := facts[what].text
		if text == "" {
			t.Errorf("trace %d has no line", what)
		}
		if other, twice := texts[text]; twice {
			t.Errorf("traces %d and %d share the line %q", what, other, text)
		}
		texts[text] = what
	}
}

// TestAMemberThatLeftIsGone, and none that is shown has this status.
func TestAMemberThatLeftIsGone(t *testing.T) {
	for status, want := range map[member.Status]string{
		member.None: `"status":"gone"`, member.Leaving: `"status":"leaving"`,
	} {
		got := logged(zerolog.InfoLevel, func(n *Node) {
			n.logTrace(statemachine.Trace{What: statemachine.MemberMoved, Status: status}, false)
		})
		if !strings.Contains(got, want) {
			t.Errorf("status %v: got %q, want %s in it", status, got, want)
		}
	}
}

// TestRefusalsAreQuiet: at info level a node tells what changes, no more.
func TestRefusalsAreQuiet(t *testing.T) {
	got := logged(zerolog.InfoLevel, func(n *Node) {
		n.logTrace(statemachine.Trace{What: statemachine.Dropped, Reason: message.ReasonPromised}, false)
		n.logFrame(member.Identity{}, dropMalformed, errors.New("boom"))
	})
	if got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

// TestForeignTextIsPrintableAndCut: a peer cannot write lines of its own.
func TestForeignTextIsPrintableAndCut(t *testing.T) {
	got := logged(zerolog.DebugLevel, func(n *Node) {
		n.logFrame(member.Identity{}, dropMalformed, errors.New("\x1b[2J"+strings.Repeat("x", 4000)))
	})
	if strings.Contains(got, "\x1b") || len(got) > 2*maxLogged {
		t.Errorf("got %d bytes, %q; want at most %d, printable", len(got), got, 2*maxLogged)
	}
}

// TestTheAddressOfAStrangerIsCut, before anybody has checked it.
func TestTheAddressOfAStrangerIsCut(t *testing.T) {
	got := logged(zerolog.DebugLevel, func(n *Node) {
		stranger := member.Address{Host: "\x1b[2J" + strings.Repeat("x", 4000), Port: 1}
		n.logReport(transport.Report{What: transport.ReportRefused, Peer: stranger})
	})
	if strings.Contains(got, "\x1b") || len(got) > 2*maxPeer {
		t.Errorf("got %d bytes, %q; want at most %d, printable", len(got), got, 2*maxPeer)
	}
}

// TestNothingIsEscapedTwice: an error of several lines is one line that can be
// read, with its quotes as they are in the field of a log.
func TestNothingIsEscapedTwice(t *testing.T) {
	mismatch := func(field, ours, theirs string) error {
		return &ConfigMismatchError{Field: field, Ours: ours, Theirs: theirs}
	}
	got := logged(zerolog.WarnLevel, func(n *Node) {
		n.logReport(transport.Report{What: transport.ReportRefused, Peer: at(2, 0).Address,
			Err: errors.Join(mismatch("Size", "3", "5"), mismatch("Cluster", "a b", "c"))})
	})
	want := `{"level":"warn","peer":"127.0.0.1:2","error":"differs in size (3 here, 5 there), ` +
		`cluster (a b here, c there): configure the same on every node","message":"peer refused"}` + "\n"
	got += logged(zerolog.WarnLevel, func(n *Node) {
		n.logReport(transport.Report{What: transport.ReportRefused, Peer: at(2, 0).Address,
			Err: mismatch("Cluster", "a b", "c")})
	})
	want += `{"level":"warn","peer":"127.0.0.1:2","error":"transport: Cluster differs: ` +
		`\"a b\" here, c at the peer: configure the same on every node","message":"peer refused"}` + "\n"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSlogGetsLevelTextAndFields(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	o := newOptions([]Option{WithSlog(slog.New(handler))})
	o.logger.Warn().Uint64("version", 1<<63).Str("peer", "a b").Msg("lost the leader")
	o.logger.Debug().Msg("below the level of the handler")
	o.logger.Error().Msg("broken")
	o.logger.Log().Msg("without a level")
	want := `level=WARN msg="lost the leader" peer="a b" version=9223372036854775808
level=ERROR msg=broken
level=INFO msg="without a level"
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
