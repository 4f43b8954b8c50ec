// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// TestQuotaIsPerText checks that each text has a quota of its own.
func TestQuotaIsPerText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotaHandler(nil).quota
		for range 2 * MaxLines {
			q.takeLine("a", time.Now())
		}
		if within, leftOut := q.takeLine("b", time.Now()); !within || leftOut != 0 {
			t.Errorf("another text: got %t, %d left out, want true and none", within, leftOut)
		}
		for range 2 {
			time.Sleep(QuotaInterval)
			if within, _ := q.takeLine("a", time.Now()); !within {
				t.Error("a minute later: got false")
			}
		}
		time.Sleep(QuotaInterval)
		if _, leftOut := q.takeLine("a", time.Now()); leftOut != 0 {
			t.Errorf("told twice that %d were left out", leftOut)
		}
	})
}

// TestALoggerGetsLevelTextAndFields checks that a logger's handler receives the records of a node.
// Each must have the name of the node, and the fields in the order of docs/logs.md.
func TestALoggerGetsLevelTextAndFields(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	o := New(Config{Log: NewLogger(slog.New(handler), "n1")})
	o.logTrace(statemachine.Trace{Kind: statemachine.Suspected, Peer: at(2, 0).Address,
		Version: 1 << 63, Cause: statemachine.CauseSilence})
	o.logTrace(statemachine.Trace{Kind: statemachine.Asking}) // below the level of the handler
	o.logElection(Election{Cause: CauseStart, Version: 3, Leader: at(2, 0).Address,
		Voters: []member.Address{at(2, 0).Address}, Steps: []Step{{Name: stepQuorate, After: 1e6}}})
	o.log.Error("broken", ErrAttr(nil))
	want := `level=WARN msg="lost the leader" node=n1 version=9223372036854775808 ` +
		`leader=127.0.0.1:2 cause=silence
level=INFO msg="leader changed" node=n1 cause=start version=3 leader=127.0.0.1:2 took_ms=0 ` +
		`votes=[127.0.0.1:2] steps_ms.quorate=1
level=ERROR msg=broken node=n1
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
